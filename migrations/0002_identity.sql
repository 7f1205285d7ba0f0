-- Who is asking. Roles are created where missing; a caller's identity comes from the JWT claims that Supabase and
-- PostgREST set, so the policies work there and on plain Postgres alike.

do $$
begin
    if not exists (select from pg_roles where rolname = 'memoryd_service') then
        create role memoryd_service nologin;
    end if;
    if not exists (select from pg_roles where rolname = 'memoryd_user') then
        create role memoryd_user nologin;
    end if;
    -- The owner is subject to the forced policies too, unless it is a superuser: it works as the service.
    if not pg_has_role(current_user, 'memoryd_service', 'usage') then
        execute format('grant memoryd_service to %I', current_user);
    end if;
    if exists (select from pg_roles where rolname = 'service_role') then
        grant memoryd_service to service_role;
    end if;
    if exists (select from pg_roles where rolname = 'authenticated') then
        grant memoryd_user to authenticated;
    end if;
end
$$;

-- Malformed or missing claims mean nobody: null equals no user_id, so such a caller sees nothing.
create function memoryd.caller_id() returns uuid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return coalesce(
        nullif(current_setting('request.jwt.claim.sub', true), ''),
        nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
    )::uuid;
exception when others then
    return null;
end
$$;
comment on function memoryd.caller_id is 'The end user''s id from request.jwt.claim.sub or request.jwt.claims; null when there is none.';

revoke all on function memoryd.caller_id() from public;
-- The tables of schema memoryd stay closed: usage is what the policies and the public functions need to call these helpers.
grant usage on schema memoryd to memoryd_service, memoryd_user;
grant execute on function memoryd.caller_id, memoryd.refuse to memoryd_service, memoryd_user;
