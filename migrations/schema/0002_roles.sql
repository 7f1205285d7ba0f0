-- Who is asking. Roles are created where they are missing. An end user's identity comes from the JWT claims that Supabase
-- and PostgREST set, so that the policies work there and on plain Postgres alike.

do $$
declare
    needed text;
begin
    foreach needed in array array['memoryd_service', 'memoryd_user', 'memoryd_admin'] loop
        if not exists (select from pg_roles where rolname = needed) then
            begin
                execute format('create role %I nologin', needed);
            exception when duplicate_object or unique_violation then
                null; -- roles belong to the whole server: another database was migrated at this moment
            end;
        end if;
    end loop;
    -- The owner is subject to the forced policies too, unless it is a superuser: it works as the service.
    if not pg_has_role(current_user, 'memoryd_service', 'usage') then
        execute format('grant memoryd_service to %I', current_user);
    end if;
    -- It answers a user's request as that user: may become one, and has none of their rights before.
    foreach needed in array array[current_user, session_user] loop
        if not pg_has_role(needed, 'memoryd_user', 'set') then
            begin
                execute format('grant memoryd_user to %I with inherit false, set true', needed);
            exception when insufficient_privilege then
                null; -- an administrator grants it, or such requests fail and say so
            end;
        end if;
    end loop;
    -- Supabase's roles do not inherit what they are granted, unless that is said.
    if exists (select from pg_roles where rolname = 'service_role' and not pg_has_role(oid, 'memoryd_service', 'usage')) then
        grant memoryd_service to service_role with inherit true;
    end if;
    if exists (select from pg_roles where rolname = 'authenticated' and not pg_has_role(oid, 'memoryd_user', 'usage')) then
        grant memoryd_user to authenticated with inherit true;
    end if;
    -- To compare embeddings they must see pgvector's operators. In a schema of somebody else's this warns and does nothing:
    -- its owner then grants it to those who log in, as Supabase does.
    if not has_schema_privilege('memoryd_user', ':vector_schema'::regnamespace, 'usage')
       or not has_schema_privilege('memoryd_service', ':vector_schema'::regnamespace, 'usage') then
        grant usage on schema :vector_schema to memoryd_service, memoryd_user, memoryd_admin;
    end if;
end
$$;

-- Claims are a setting that any login may set: memoryd_user stands behind a gateway that sets them, never as
-- a login. Who connects directly all the same has a row here, and is that user, whatever the claims.
create table memoryd.logins (
    login name primary key,
    user_id uuid not null
);
comment on table memoryd.logins is
    'Logins of single end users who connect without a gateway: each is that user, and claims are ignored.';

-- Malformed or missing claims mean nobody: null equals no user_id, so such a caller sees nothing.
create function memoryd.caller_id() returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    mapped uuid;
begin
    select l.user_id into mapped from memoryd.logins l where l.login = session_user;
    if found then
        return mapped;
    end if;
    return coalesce(
        nullif(current_setting('request.jwt.claim.sub', true), ''),
        nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
    )::uuid;
exception when others then
    return null;
end
$$;
comment on function memoryd.caller_id is
    'The end user''s id: the login''s in memoryd.logins, else from request.jwt.claim.sub or request.jwt.claims.';
