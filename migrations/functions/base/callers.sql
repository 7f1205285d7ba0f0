-- Who calls, with which rights, and what they may do for which user; then triggers that many tables have.

-- Refuses rows of memoryd.logins for logins that do not exist, or that have more rights than an end user.
create or replace function memoryd.check_login() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from pg_roles where rolname = new.login) then
        raise exception 'there is no role %', quote_ident(new.login)
            using errcode = 'undefined_object', hint = 'Create the login first, then say which user it is.';
    end if;
    -- A daemon with this login would answer every user's requests as this user.
    if pg_has_role(new.login, 'memoryd_service', 'usage') then
        raise exception 'role % works as memoryd_service', quote_ident(new.login)
            using errcode = 'invalid_grant_operation',
                  hint = 'Give the end user a login of their own: it has memoryd_user alone.';
    end if;
    return new;
end
$$;

-- The role that the caller acts as. Unlike current_user it stays the same within a SECURITY DEFINER
-- function. This and the next two functions have a parsed body and no SET: they are inlined, so that
-- triggers may call them for each row.
create or replace function memoryd.caller_role() returns name
language sql stable
return coalesce(nullif(nullif(current_setting('role', true), ''), 'none'), session_user)::name;

-- Whether the caller works for the agents.
create or replace function memoryd.caller_is_service() returns boolean
language sql stable
return pg_has_role(memoryd.caller_role(), 'memoryd_service', 'usage');

-- The one rule of who is privileged: the service (agents) and support are, end users are not. Only roles
-- count: a caller with a right to a table, which may have been granted by mistake, is not privileged by it.
create or replace function memoryd.caller_is_privileged() returns boolean
language sql stable
return memoryd.caller_is_service() or pg_has_role(memoryd.caller_role(), 'memoryd_admin', 'usage');

-- Whether what runs has the rights of memoryd's owner: the owner's own session, or one of its SECURITY
-- DEFINER functions, whoever calls that. Policies admit it to what is kept from the service: row-level
-- security is forced, so an owner that is no superuser needs a policy, too. It opens nothing: who has the
-- owner's rights may drop the policies.
create or replace function memoryd.runs_as_owner() returns boolean
language sql stable
return (select pg_has_role(current_user, n.nspowner, 'usage')
        from pg_namespace n where n.nspname = 'memoryd');

-- Who calls. Each function that clients call finds this once, and passes it on to the functions that it
-- calls. A SECURITY DEFINER function that clients can call finds it itself, since a value that it is given
-- could be forged.
create or replace function memoryd.current_caller() returns memoryd.caller
language sql stable
return (memoryd.caller_id(), memoryd.caller_is_privileged(), memoryd.caller_is_service())::memoryd.caller;

-- Whether a setting by which memoryd tells its own triggers what it does is on. Any login can set it: it
-- counts only for who may write the queue as well, which no client may.
create or replace function memoryd.daemon_says(p_setting text) returns boolean
language sql stable
return case when current_setting(p_setting, true) = 'on'
            then has_table_privilege(memoryd.caller_role(), 'memoryd.jobs', 'insert') else false end;

-- Whether rows of an export are being imported. They were accepted and logged when they were first written:
-- they are neither dropped nor logged now.
create or replace function memoryd.importing() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select memoryd.daemon_says('memoryd.importing') $$;

-- Raises an error unless the caller may act on this user's memory: an end user on their own only. p_action:
-- a verb for the messages.
create or replace function memoryd.check_own(p_user uuid, p_action text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_user is null then
        raise exception 'user_id is null'
            using errcode = 'null_value_not_allowed', hint = 'Say whose memory to ' || p_action || '.';
    end if;
    if not memoryd.caller_is_service() and memoryd.caller_id() is distinct from p_user then
        raise exception 'you may % your own memory only', p_action
            using errcode = 'insufficient_privilege',
                  hint = 'Give the user_id of your own claims, or ask as memoryd_service.';
    end if;
end
$$;

-- Whether the caller may write rows of this user. A caller who may not is refused by the policies as usual,
-- before what the user has decided about their memory has any effect: so they learn nothing of it.
create or replace function memoryd.may_write_for(p_user uuid) returns boolean
language sql stable
return memoryd.caller_is_service() or coalesce(memoryd.caller_id() = p_user, false);

-- For the policies of end users' inserts: tells who leaves user_id out what to give. False for the id of
-- somebody else, which the policy then refuses in its own words.
create or replace function memoryd.refuse_ownerless(p_user uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_user is null then
        raise exception 'this row has no user_id'
            using errcode = 'insufficient_privilege',
                  hint = 'Give user_id, your own id: end users write rows of their own only.';
    end if;
    return false;
end
$$;

-- Sets updated_at of a row that is changed, for tables in which every change counts; where only some do, or
-- more is to be set, the table has a function of its own (stamp_memory, stamp_knowledge, stamp_session).
create or replace function memoryd.stamp_updated_at() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    new.updated_at := clock_timestamp();
    return new;
end
$$;

-- The milliseconds since a time. Inlined.
create or replace function memoryd.ms_since(p_time timestamptz) returns integer
language sql volatile
return (extract(epoch from clock_timestamp() - p_time) * 1000)::integer;

-- Refuses a row with a time that not every driver reads, or a text that says nothing. Its arguments are the
-- names of the times, and of the texts.
create or replace function memoryd.refuse_values() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    given constant jsonb := to_jsonb(new);
begin
    perform memoryd.time_fits(c, (given ->> c)::timestamptz) from unnest(tg_argv[0]::text[]) c;
    perform memoryd.refuse(c || ' is blank', 'It has only characters that are not seen: write a text.')
    from unnest(tg_argv[1]::text[]) c
    where memoryd.is_blank(given ->> c);
    return new;
end
$$;
