-- Who calls: the three roles, memoryd.logins, and memoryd.caller_id(). An end user's identity comes from the
-- JWT claims that Supabase and PostgREST set, so that the policies work there and on plain Postgres alike.

-- The roles are created where they are missing, and granted to who needs them.
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
    -- The owner acts as the service: unless it is a superuser, the forced policies apply to it too.
    if not pg_has_role(current_user, 'memoryd_service', 'usage') then
        execute format('grant memoryd_service to %I', current_user);
    end if;
    -- The daemon answers a user's request as that user: it may become memoryd_user, and inherits none of its
    -- rights.
    foreach needed in array array[current_user, session_user] loop
        if not pg_has_role(needed, 'memoryd_user', 'set') then
            begin
                execute format('grant memoryd_user to %I with inherit false, set true', needed);
            exception when insufficient_privilege then
                null; -- an administrator grants it, or such requests fail and say so
            end;
        end if;
    end loop;
    -- Supabase's roles do not inherit what they are granted, unless the grant says so.
    if exists (select from pg_roles
               where rolname = 'service_role' and not pg_has_role(oid, 'memoryd_service', 'usage')) then
        grant memoryd_service to service_role with inherit true;
    end if;
    if exists (select from pg_roles
               where rolname = 'authenticated' and not pg_has_role(oid, 'memoryd_user', 'usage')) then
        grant memoryd_user to authenticated with inherit true;
    end if;
    -- To compare embeddings they must see pgvector's operators. Where the schema belongs to somebody else
    -- this warns and does nothing: its owner then grants usage to those who log in, as Supabase does.
    if not has_schema_privilege('memoryd_user', ':vector_schema'::regnamespace, 'usage')
       or not has_schema_privilege('memoryd_service', ':vector_schema'::regnamespace, 'usage') then
        grant usage on schema :vector_schema to memoryd_service, memoryd_user, memoryd_admin;
    end if;
end
$$;

-- Who calls, as memoryd.current_caller() finds it: an end user's id (null: none); whether they may search all
-- scopes (the service and support); whether they are the service.
create type memoryd.caller as (
    user_id uuid,
    privileged boolean,
    is_service boolean
);

-- The end user's id. Null where claims are malformed or missing: null equals no user_id, so such a caller
-- sees nothing.
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
    'The end user''s id: the login''s in memoryd.logins, '
    'else from request.jwt.claim.sub or request.jwt.claims.';

-- The organisation of the caller: the setting memoryd.org_id, else org_id in the claims of their token.
-- Null: they name none ('all' says so too, whatever the claims say). What is no UUID is an error, so that a
-- typing error does not open what others know.
create function memoryd.caller_org() returns uuid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return nullif(coalesce(
        nullif(current_setting('memoryd.org_id', true), ''),
        nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'org_id'), 'all')::uuid;
exception when invalid_text_representation then
    raise exception 'the caller''s organisation is no UUID'
        using errcode = 'invalid_parameter_value',
              hint = 'Set memoryd.org_id to a UUID, or leave it and the claim org_id out.';
end
$$;
comment on function memoryd.caller_org is
    'The caller''s organisation: the setting memoryd.org_id, else org_id in request.jwt.claims; null: none.';

-- Claims are a setting that any login may set. So end users connect through a gateway, which sets the claims
-- and becomes memoryd_user. A login of an end user who connects without a gateway has a row here, and is that
-- user, whatever the claims.
create table memoryd.logins (
    login name primary key,
    user_id uuid not null
);
comment on table memoryd.logins is
    'Logins of single end users who connect without a gateway: each is that user, and claims are ignored.';
