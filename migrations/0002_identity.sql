-- Who is asking. Roles are created where missing; a caller's identity comes from the JWT claims that Supabase and
-- PostgREST set, so the policies work there and on plain Postgres alike.

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

create function memoryd.check_login() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from pg_roles where rolname = new.login) then
        raise exception 'there is no role %', quote_ident(new.login)
            using errcode = 'undefined_object', hint = 'Create the login first, then say which user it is.';
    end if;
    -- It would answer every user's requests as this one.
    if pg_has_role(new.login, 'memoryd_service', 'usage') then
        raise exception 'role % works as memoryd_service', quote_ident(new.login)
            using errcode = 'invalid_grant_operation',
                  hint = 'Give the end user a login of their own: it has memoryd_user alone.';
    end if;
    return new;
end
$$;
create trigger check_login before insert or update on memoryd.logins
    for each row execute function memoryd.check_login();

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

-- Whose rights the caller came with. Unlike current_user it holds within a function that runs as its owner too.
-- These three have a parsed body and no SET: they are inlined, and triggers may ask them for each row.
create function memoryd.caller_role() returns name
language sql stable
return coalesce(nullif(nullif(current_setting('role', true), ''), 'none'), session_user)::name;

-- Whether the caller works for the agents.
create function memoryd.caller_is_service() returns boolean
language sql stable
return pg_has_role(memoryd.caller_role(), 'memoryd_service', 'usage');

-- Whether the caller works for the agents or for support, and not as an end user.
create function memoryd.caller_serves() returns boolean
language sql stable
return memoryd.caller_is_service() or pg_has_role(memoryd.caller_role(), 'memoryd_admin', 'usage');

revoke all on function memoryd.caller_id, memoryd.check_login, memoryd.caller_role, memoryd.caller_is_service,
    memoryd.caller_serves from public;
-- The tables of schema memoryd stay closed: usage is what the policies and the public functions need to call these helpers.
grant usage on schema memoryd to memoryd_service, memoryd_user, memoryd_admin;
grant execute on function memoryd.caller_id, memoryd.refuse, memoryd.refuse_unseen, memoryd.unseen, memoryd.is_plain,
    memoryd.one_line, memoryd.text_fits, memoryd.list_fits, memoryd.json_fits
    to memoryd_service, memoryd_user, memoryd_admin;
