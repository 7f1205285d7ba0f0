-- The audit trail: who has read and written whose memory, in agent_execution_logs and in the server's log.

-- HMAC-SHA256 in hex, of a key of up to 64 bytes.
create or replace function memoryd.hmac(p_key bytea, p_text text) returns text
language plpgsql immutable strict
set search_path = pg_catalog, pg_temp
as $$
declare
    inner_key bytea := decode(repeat('36', 64), 'hex');
    outer_key bytea := decode(repeat('5c', 64), 'hex');
begin
    for index in 0 .. length(p_key) - 1 loop
        inner_key := set_byte(inner_key, index, get_byte(inner_key, index) # get_byte(p_key, index));
        outer_key := set_byte(outer_key, index, get_byte(outer_key, index) # get_byte(p_key, index));
    end loop;
    return encode(sha256(outer_key || sha256(inner_key || convert_to(p_text, 'UTF8'))), 'hex');
end
$$;

-- Signs a line for the server's log with this database's own key.
create or replace function memoryd.sign_log(p_what text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.hmac(decode(s.value #>> '{}', 'hex'), p_what)
    from memoryd.settings s
    where s.key = 'log_key'
$$;

-- Writes p_what (ids and counts) into the server's log: a rollback does not remove it, and a read-only
-- transaction can do it. The line has time, process and transaction, so that a copied line can be told from
-- the original. It is not sent to the client (client_min_messages). Beside a line of level LOG most servers
-- write the statement, too, and with it the words of a question: only where log_min_error_statement
-- prevents that the line has level LOG. Elsewhere it is a warning, which a server that logs no statements
-- may leave out.
create or replace function memoryd.log_audit(p_what jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $$
declare
    line constant text := p_what || jsonb_build_object(
        'login', session_user, 'at', clock_timestamp(), 'pid', pg_backend_pid(),
        'transaction', coalesce(pg_current_xact_id_if_assigned()::text, 'none'), 'began', now());
begin
    if current_setting('log_min_error_statement') in ('fatal', 'panic') then
        raise log 'memoryd: audit % mac=%', line, memoryd.sign_log(line);
    else
        raise warning 'memoryd: audit % mac=%', line, memoryd.sign_log(line);
    end if;
end
$$;

create or replace function memoryd.check_log_line(p_line text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((
        select memoryd.sign_log(m.parts[1]) = m.parts[2]
        from regexp_match(p_line, 'memoryd: audit (\{.*\}) mac=([0-9a-f]{64})\s*$') as m(parts)), false)
$$;
comment on function memoryd.check_log_line(text) is
    'Whether a line of the server''s log, from "memoryd: audit" to its end, is memoryd''s own.';

-- After a statement on a table whose writes are audited (memoryd.user_tables): logs for each user and agent
-- how many rows it wrote, not their content. Arguments: whether rows name an agent, and the columns whose
-- change counts: not where memoryd wrote its index or a status. Transition tables: changed, and for an update
-- also were, the rows as they were before.
create or replace function memoryd.audit_write() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
declare
    operation constant text := lower(tg_op);
    has_agent constant boolean := tg_argv[0];
    written jsonb;
begin
    if not exists (select from changed where user_id is not null)
       or not exists (select from memoryd.settings s where s.key = 'audit' and s.value = 'true')
       or memoryd.importing() then
        return null;
    end if;
    if tg_op <> 'UPDATE' and has_agent then
        select jsonb_agg(w) into written
        from (select c.user_id, c.agent_id, count(*) from changed c where c.user_id is not null
              group by c.user_id, c.agent_id) w;
    else
        execute format(
            'select jsonb_agg(w) from (
                 select c.user_id, %s as agent_id, count(*) from changed c %s
                 where c.user_id is not null
                 group by 1, 2) w',
            case when has_agent then 'c.agent_id' else 'null::text' end,
            case when tg_op = 'UPDATE' then (
                select format('join were o on o.id = c.id and (%s) is distinct from (%s)',
                              string_agg('c.' || n, ', '), string_agg('o.' || n, ', '))
                from string_to_table(tg_argv[1], ',') n) end)
        into written;
    end if;
    if written is not null then
        insert into public.agent_execution_logs (user_id, agent_id, step_name, action_type, input_data)
        select w.user_id, w.agent_id, operation || ' ' || tg_table_name, 'memory_write',
               jsonb_build_object('table', tg_table_name, 'operation', operation, 'count', w.count)
        from jsonb_to_recordset(written) as w(user_id uuid, agent_id text, count bigint);
    end if;
    return null;
end
$$;

-- Puts one read of a user's memory on record. Functions that read a memory call it with the caller's
-- rights, so an end user can call it directly, too, without having read anything. Therefore the row says
-- who wrote it (caller). From an end user it takes only one of the known steps and two numbers, about
-- themselves; the name of an agent is taken only from the service. A read-only transaction writes into the
-- server's log instead; where that does not take the line, the read is refused: none is without a record.
create or replace function memoryd.audit_read(
    p_user uuid, p_agent text, p_step text, p_found integer, p_ms integer
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set max_parallel_workers_per_gather = 0
as $$
declare
    who constant memoryd.caller := memoryd.current_caller();
    caller constant text := case when who.is_service then 'service'
                                 when who.privileged then 'admin'
                                 else 'user' end;
    read_of constant uuid := case when who.is_service then p_user else who.user_id end;
    agent constant text :=
        case when who.is_service then nullif(left(memoryd.one_line(left(p_agent, 400)), 200), '') end;
    step constant text :=
        case when p_step in ('recall', 'explain_recall', 'match_memory', 'search_keys', 'context',
                             'export') then p_step
             else 'read' end;
    ms constant integer := least(greatest(0, p_ms), 86400000);
begin
    if read_of is null
       or not exists (select from memoryd.settings s where s.key = 'audit' and s.value = 'true') then
        return;
    end if;
    if current_setting('transaction_read_only') = 'on' then
        -- The log does not take the lines of log_audit(). Only superusers change these settings.
        if current_setting('log_min_messages') = any (
               case when current_setting('log_min_error_statement') in ('fatal', 'panic')
                    then array['fatal', 'panic'] else array['error', 'log', 'fatal', 'panic'] end) then
            raise exception 'this read cannot be put on record: neither a table nor the log takes it'
                using errcode = 'read_only_sql_transaction',
                      hint = 'Begin a transaction that may write, or have log_min_messages = warning set.';
        end if;
        perform memoryd.log_audit(jsonb_build_object(
            'action', 'memory_read', 'step', step, 'user', read_of, 'agent', agent, 'caller', caller,
            'found', greatest(0, p_found), 'ms', ms));
        return;
    end if;
    insert into public.agent_execution_logs (
        user_id, agent_id, step_name, action_type, input_data, output_data, execution_time_ms)
    values (read_of, agent, step, 'memory_read', jsonb_build_object('caller', caller),
            jsonb_build_object('found', greatest(0, p_found)), ms);
end
$$;
comment on function memoryd.audit_read(uuid, text, text, integer, integer) is
    'Puts on record that a user''s memory was read: who, how much, how long; never what. '
    'Read-only: in the log.';

-- Puts a read by support on record, once in a transaction for each table and user; p_user null: of many
-- users. After a hundred users of a table the rest of the transaction is one row about many. What this
-- transaction has logged already is looked up in the log itself, because an admin can write nothing there; a
-- setting of the session could be forged. The row has the name of who calls, where the claims have one.
-- p_verb: another one for a change that support makes.
create or replace function memoryd.log_admin_read(p_table text, p_user uuid, p_verb text default 'select')
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    said jsonb;
    this_transaction text;
    logged bigint;
    read_of uuid := p_user;
    admin constant text := coalesce(memoryd.caller_id()::text, session_user::text);
begin
    if p_verb = 'select' then
        if current_setting('transaction_read_only') = 'on' then
            raise exception 'reads of memoryd_admin are logged, and this transaction is read-only'
                using errcode = 'read_only_sql_transaction',
                      hint = 'Begin a transaction that may write; on a standby there is none.';
        end if;
        this_transaction := pg_current_xact_id()::text || '@' || extract(epoch from now())::text;
        if exists (select from public.agent_execution_logs l
                   where l.action_type = 'admin_read' and l.input_data ->> 'transaction' = this_transaction
                     and l.input_data ->> 'table' = p_table
                     and (l.user_id = p_user or l.user_id is null)) then
            return;
        end if;
        select count(*) into logged from public.agent_execution_logs l
        where l.action_type = 'admin_read' and l.input_data ->> 'transaction' = this_transaction
          and l.input_data ->> 'table' = p_table;
        if logged >= 100 then
            read_of := null;
        end if;
        said := jsonb_build_object('transaction', this_transaction)
            || case when read_of is null then '{"users": "many"}' else '{}' end::jsonb;
    else
        said := jsonb_build_object('operation', p_verb, 'caller', 'admin');
    end if;
    insert into public.agent_execution_logs (user_id, step_name, action_type, input_data)
    values (read_of, p_verb || ' ' || p_table,
            case p_verb when 'select' then 'admin_read' else 'memory_write' end,
            jsonb_build_object('admin', admin, 'login', session_user, 'table', p_table) || said || coalesce((
                select jsonb_build_object('name', left(memoryd.one_line(left(c.name, 400)), 200))
                from (select case when pg_input_is_valid(claims, 'jsonb') then claims::jsonb ->> 'name' end
                      from current_setting('request.jwt.claims', true) as claims) as c(name)
                where not memoryd.is_blank(c.name)), '{}'));
    -- A rollback removes the row above; the line in the server's log stays.
    perform memoryd.log_audit(jsonb_build_object(
        'action', 'admin_read', 'table', p_table, 'admin', admin, 'user', coalesce(read_of::text, 'many')))
    where p_verb = 'select';
end
$$;

-- For the policies of memoryd_admin: puts the read of a row on record and returns true, so that the row may
-- be read. p_table: also "context", for what an agent would be given.
create or replace function memoryd.audit_admin_read(p_table text, p_user uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_user is not null then
        -- An admin can call this directly, too: a text that is not the name of a table is not written.
        perform memoryd.log_admin_read(
            case when p_table = 'context' or to_regclass(format('public.%I', left(p_table, 63))) is not null
                 then p_table else 'unknown' end,
            p_user);
    end if;
    return true;
end
$$;

-- Puts a read of the team's knowledge by support on record, where a user has written it.
create or replace function memoryd.audit_admin_knowledge(p_created_by text) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.audit_admin_read('shared_knowledge', case
        when p_created_by ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_created_by::uuid end)
$$;

-- Puts a read of an anchor by support on record. Its memory may be gone; whose it was, its leaf says.
create or replace function memoryd.audit_admin_anchor(p_anchor uuid, p_memory uuid) returns boolean
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.audit_admin_read('memory_anchors', coalesce(
        (select m.user_id from public.agent_memory m where m.id = p_memory),
        (select l.user_id from memoryd.trail_leaves l where l.anchor_id = p_anchor)))
$$;

-- Puts a read by support of what shows rows on record, for the users whose rows these are: of what an agent
-- said, the user of the conversation; of an insight, also those of its memories; of an entry of the team's
-- knowledge, who has written it, and who told its outcome. p_ids: the rows (of a link or an insight its
-- memories), or a text whose rows memoryd.quotes knows (a command for its context, a request for its answer).
-- False for a text that still shows a row which is gone: whose that was is unknown, so it loses this first.
create or replace function memoryd.audit_admin_memories(p_table text, p_ids uuid[]) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    quoted constant uuid[] := array(
        select unnest(q.row_ids) from memoryd.quotes q
        where q.command_id = any(p_ids) or q.request_id = any(p_ids));
    shown constant uuid[] := p_ids || quoted;
begin
    perform memoryd.audit_admin_read(p_table, u.user_id)
    from (select s.owner_id as user_id from memoryd.searchable s where s.id = any(shown)
          union
          select c.user_id
          from public.conversation_messages m
          join public.conversation_sessions c on c.id = m.session_id
          where m.id = any(shown) and m.user_id is null
          union
          select m.user_id
          from public.dream_insights i
          join public.agent_memory m on m.id = any(i.source_memories)
          where i.id = any(shown)
          union
          select memoryd.uuid_or_null(k.created_by)
          from public.shared_knowledge e
          join public.shared_knowledge k
              on k.id = any(array[e.id, memoryd.uuid_or_null(e.outcome ->> 'scored_by')])
          where e.id = any(shown)) u;
    return quoted = '{}' or quoted <@ array(select e.id from memoryd.existing_rows(quoted) e);
end
$$;

-- Deletes old rows of the audit trail, and hashes of erased texts that are no longer needed.
create or replace function memoryd.sweep_audit(p_days double precision) returns bigint
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with unneeded as (
        delete from memoryd.erased_texts where erased_at < now() - interval '1 hour'
    ), swept as (
        delete from public.agent_execution_logs
        where action_type in ('memory_read', 'memory_write', 'admin_read')
          and created_at < now() - make_interval(secs => p_days * 86400)
        returning 1
    )
    select count(*) from swept
$$;
comment on function memoryd.sweep_audit(double precision) is
    'Deletes what the audit trail says of reads and writes older than this number of days; '
    'the agents'' own steps stay.';
