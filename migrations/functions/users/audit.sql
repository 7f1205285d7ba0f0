-- HMAC-SHA256 in hex, of a key of up to 64 bytes.
create or replace function memoryd.hmac(p_key bytea, p_text text) returns text
language plpgsql immutable strict
set search_path = pg_catalog, pg_temp
as $$
declare
    inner_key bytea := decode(repeat('36', 64), 'hex');
    outer_key bytea := decode(repeat('5c', 64), 'hex');
begin
    for place in 0 .. length(p_key) - 1 loop
        inner_key := set_byte(inner_key, place, get_byte(inner_key, place) # get_byte(p_key, place));
        outer_key := set_byte(outer_key, place, get_byte(outer_key, place) # get_byte(p_key, place));
    end loop;
    return encode(sha256(outer_key || sha256(inner_key || convert_to(p_text, 'UTF8'))), 'hex');
end
$$;

create or replace function memoryd.sign_log(p_what text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.hmac(decode(value #>> '{}', 'hex'), p_what) from memoryd.settings where key = 'log_key'
$$;

-- Puts something on record where no transaction can take it back, and where a read-only one may write: in the
-- server's log. p_what holds ids and counts. Time, process and transaction are said, so that a line that was
-- copied is known for a copy. No client hears it. Beside a line of level LOG most servers write the statement too, and
-- with it the words of a question: there it is a warning, which a server that writes no statements may leave out.
create or replace function memoryd.log_audit(p_what jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $$
declare
    said constant text := p_what || jsonb_build_object(
        'login', session_user, 'at', clock_timestamp(), 'pid', pg_backend_pid(),
        'transaction', coalesce(pg_current_xact_id_if_assigned()::text, 'none'), 'began', now());
begin
    if current_setting('log_min_error_statement') in ('fatal', 'panic') then
        raise log 'memoryd: audit % mac=%', said, memoryd.sign_log(said);
    else
        raise warning 'memoryd: audit % mac=%', said, memoryd.sign_log(said);
    end if;
end
$$;

create or replace function memoryd.check_log_line(p_line text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((
        select memoryd.sign_log(m.found[1]) = m.found[2]
        from regexp_match(p_line, 'memoryd: audit (\{.*\}) mac=([0-9a-f]{64})\s*$') as m(found)), false)
$$;
comment on function memoryd.check_log_line is
    'Whether a line of the server''s log, from "memoryd: audit" to its end, is memoryd''s own.';

-- The audit trail.
create or replace function memoryd.audit_is_on() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select exists (select from memoryd.settings where key = 'audit' and value = 'true') $$;

-- A row for each user, agent and statement: how many rows it wrote, none of what they say.
create or replace function memoryd.note_write() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
declare
    what constant jsonb := jsonb_build_object('table', tg_table_name, 'operation', lower(tg_op));
begin
    if not exists (select from changed where user_id is not null) or not memoryd.audit_is_on() or memoryd.importing() then
        return null;
    end if;
    -- What memoryd writes beside a row (its index, its status) is no change of what is remembered.
    if tg_op = 'UPDATE' and tg_table_name = 'agent_memory' then
        insert into public.agent_execution_logs (user_id, agent_id, step_name, action_type, input_data)
        select n.user_id, n.agent_id, 'update agent_memory', 'memory_write', what || jsonb_build_object('count', count(*))
        from changed n join were o using (id)
        where n.user_id is not null
          and (n.agent_id, n.user_id, n.session_id, n.kind, n.memory_type, n.content, n.metadata, n.source, n.ttl_hours, n.expires_at)
              is distinct from
              (o.agent_id, o.user_id, o.session_id, o.kind, o.memory_type, o.content, o.metadata, o.source, o.ttl_hours, o.expires_at)
        group by n.user_id, n.agent_id;
    elsif tg_op = 'UPDATE' and tg_table_name = 'conversation_messages' then
        insert into public.agent_execution_logs (user_id, agent_id, step_name, action_type, input_data)
        select n.user_id, n.agent_id, 'update conversation_messages', 'memory_write', what || jsonb_build_object('count', count(*))
        from changed n join were o using (id)
        where n.user_id is not null
          and (n.user_id, n.session_id, n.role, n.speaker, n.content, n.metadata, n.access_level, n.visibility_tags)
              is distinct from
              (o.user_id, o.session_id, o.role, o.speaker, o.content, o.metadata, o.access_level, o.visibility_tags)
        group by n.user_id, n.agent_id;
    elsif tg_op = 'UPDATE' then
        insert into public.agent_execution_logs (user_id, step_name, action_type, input_data)
        select n.user_id, 'update documents', 'memory_write', what || jsonb_build_object('count', count(*))
        from changed n join were o using (id)
        where n.user_id is not null
          and (n.user_id, n.title, n.source, n.document_type, n.content, n.metadata)
              is distinct from (o.user_id, o.title, o.source, o.document_type, o.content, o.metadata)
        group by n.user_id;
    elsif tg_table_name = 'documents' then
        insert into public.agent_execution_logs (user_id, step_name, action_type, input_data)
        select c.user_id, lower(tg_op) || ' documents', 'memory_write', what || jsonb_build_object('count', count(*))
        from changed c where c.user_id is not null group by c.user_id;
    else
        insert into public.agent_execution_logs (user_id, agent_id, step_name, action_type, input_data)
        select c.user_id, c.agent_id, lower(tg_op) || ' ' || tg_table_name, 'memory_write',
               what || jsonb_build_object('count', count(*))
        from changed c where c.user_id is not null group by c.user_id, c.agent_id;
    end if;
    return null;
end
$$;

-- Called by what reads a user's memory, with the caller's rights: so an end user can call it too, and write
-- such a row without having read anything. Therefore it says who wrote it (caller), and of an end user it
-- takes no more than a step that there is and two numbers, about themselves: no agent is named as having
-- read. Where nothing can be written, it goes into the server's log.
create or replace function memoryd.note_read(p_user uuid, p_agent text, p_step text, p_found integer, p_ms integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    caller constant text := case when memoryd.caller_is_service() then 'service'
                                 when memoryd.caller_is_privileged() then 'admin'
                                 else 'user' end;
    read_of constant uuid := case when caller = 'service' then p_user else memoryd.caller_id() end;
    agent constant text :=
        case when caller = 'service' then nullif(left(memoryd.one_line(left(p_agent, 400)), 200), '') end;
    step constant text :=
        case when p_step in ('recall', 'explain_recall', 'match_memory', 'context', 'export') then p_step
             else 'read' end;
    number constant integer := greatest(0, p_found);
    ms constant integer := least(greatest(0, p_ms), 86400000);
begin
    if read_of is null or not memoryd.audit_is_on() then
        return;
    end if;
    if current_setting('transaction_read_only') = 'on' then
        perform memoryd.log_audit(jsonb_build_object(
            'action', 'memory_read', 'step', step, 'user', read_of, 'agent', agent, 'caller', caller, 'found', number,
            'ms', ms));
        return;
    end if;
    insert into public.agent_execution_logs (
        user_id, agent_id, step_name, action_type, input_data, output_data, execution_time_ms)
    values (read_of, agent, step, 'memory_read', jsonb_build_object('caller', caller),
            jsonb_build_object('found', number), ms);
end
$$;
comment on function memoryd.note_read is
    'Puts on record that a user''s memory was read: who, how much, how long; never what. Read-only: in the log.';

-- Puts one read of support on record, once in a transaction: about p_user, or, null, about many. What was
-- noted in this transaction is remembered by the log itself, where an admin can write nothing: a setting of
-- the session could be forged.
create or replace function memoryd.record_admin_read(p_table text, p_user uuid) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    here text;
    noted bigint;
    record_of uuid := p_user;
    admin constant text := coalesce(memoryd.caller_id()::text, session_user::text);
begin
    if current_setting('transaction_read_only') = 'on' then
        raise exception 'reads of memoryd_admin are logged, and this transaction is read-only'
            using errcode = 'read_only_sql_transaction', hint = 'Begin a transaction that may write; on a standby there is none.';
    end if;
    here := pg_current_xact_id()::text || '@' || extract(epoch from now())::text;
    if exists (select from public.agent_execution_logs l
               where l.action_type = 'admin_read' and l.input_data ->> 'transaction' = here
                 and l.input_data ->> 'table' = p_table and (l.user_id = p_user or l.user_id is null)) then
        return;
    end if;
    select count(*) into noted from public.agent_execution_logs l
    where l.action_type = 'admin_read' and l.input_data ->> 'transaction' = here and l.input_data ->> 'table' = p_table;
    if noted >= 100 then
        record_of := null;
    end if;
    insert into public.agent_execution_logs (user_id, step_name, action_type, input_data)
    values (record_of, 'select ' || p_table, 'admin_read',
            jsonb_build_object('admin', admin, 'login', session_user, 'table', p_table, 'transaction', here)
            || case when record_of is null then '{"users": "many"}' else '{}' end::jsonb);
    -- A transaction that is rolled back takes its log along; the server's own log stays.
    perform memoryd.log_audit(jsonb_build_object('action', 'admin_read', 'table', p_table, 'admin', admin,
                                                 'user', coalesce(record_of::text, 'many')));
end
$$;

-- In the policies of memoryd_admin: true, once it is on record.
create or replace function memoryd.note_admin_read(p_table text, p_user uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_user is not null then
        -- Who calls it by themselves leaves no words of their own.
        perform memoryd.record_admin_read(
            case when to_regclass(format('public.%I', left(p_table, 63))) is null then 'unknown' else p_table end,
            p_user);
    end if;
    return true;
end
$$;

-- Before support learns which words everybody's rows have, and how many: a search asks that as the owner.
create or replace function memoryd.note_admin_search() returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select memoryd.record_admin_read('lexeme_statistics', null) $$;

create or replace function memoryd.sweep_audit(p_days double precision) returns bigint
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with forgotten as (
        delete from memoryd.erased_texts where erased_at < now() - interval '1 hour'
    ), swept as (
        delete from public.agent_execution_logs
        where action_type in ('memory_read', 'memory_write', 'admin_read')
          and created_at < now() - make_interval(secs => p_days * 86400)
        returning 1
    )
    select count(*) from swept
$$;
comment on function memoryd.sweep_audit is 'Deletes what the audit trail says of reads and writes more than so many days ago; the agents'' own steps stay.';
