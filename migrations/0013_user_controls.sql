-- What a user decides about their own memory, and can see of what was done with it (source design 000): settings, the audit
-- trail, reads by support, export, import, erasure.

create table public.memory_settings (
    user_id uuid primary key,
    memory_enabled boolean not null default true,
    memory_ttl_hours integer check (
        memory_ttl_hours between 1 and 876000
        or memoryd.refuse('memory_ttl_hours is ' || memory_ttl_hours, 'Hours from 1 to 876000; null for the usual ones.')),
    task_memory_ttl_hours integer check (
        task_memory_ttl_hours between 1 and 876000
        or memoryd.refuse('task_memory_ttl_hours is ' || task_memory_ttl_hours, 'Hours from 1 to 876000; null for the usual ones.')),
    conversation_retention_minutes integer check (
        conversation_retention_minutes between 1 and 52560000
        or memoryd.refuse('conversation_retention_minutes is ' || conversation_retention_minutes,
                          'Minutes from 1 to 52560000; null for the usual ones.')),
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
comment on table public.memory_settings is 'What users decide about their memory; without a row, or where it says null, the daemon''s settings hold.';
comment on column public.memory_settings.memory_enabled is 'False: nothing of this user is remembered, and nothing that was is found, until it is true again. erase_user_memory deletes.';
comment on column public.memory_settings.memory_ttl_hours is 'Hours until a memory is forgotten, at most and unless told; for all but task_memory.';
comment on column public.memory_settings.task_memory_ttl_hours is 'The same for memories of type task_memory.';
-- Nearly always empty, so that asking whether somebody's memory is off costs nearly nothing.
create index memory_settings_off on public.memory_settings (user_id) where not memory_enabled;

-- Whose rows they are is asked by the policies, by exports and by erasures.
create index agent_commands_user on public.agent_commands (user_id) where user_id is not null;
create index memory_queries_user on public.memory_queries (user_id) where user_id is not null;
create index memory_requests_user on public.memory_requests (user_id) where user_id is not null;
create index dream_insights_user on public.dream_insights (user_id) where user_id is not null;

insert into memoryd.settings (key, value) values ('audit', 'true');

-- While rows of an export are put back: they were remembered once, and each write of theirs was logged then.
create function memoryd.importing() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select coalesce(current_setting('memoryd.importing', true), '') = 'on' and memoryd.caller_is_service() $$;

-- One erasure of a user at a time, and no dream's insights about them meanwhile.
create function memoryd.user_lock(p_user uuid) returns text
language sql immutable parallel safe
return 'user ' || (uuid_hash_extended(p_user, 0) & 255);

create function memoryd.check_own(p_user uuid, p_action text) returns void
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
            using errcode = 'insufficient_privilege', hint = 'Give the user_id of your own claims, or ask as memoryd_service.';
    end if;
end
$$;

-- Settings.

-- Whether the caller may write for a user at all: others learn nothing of what that user decided, they are refused as ever.
create function memoryd.may_write_for(p_user uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select memoryd.caller_is_service() or coalesce(memoryd.caller_id() = p_user, false) $$;

create function memoryd.memory_is_off(p_user uuid) returns boolean
language sql stable
return exists (select from public.memory_settings s where s.user_id = p_user and not s.memory_enabled);

create function memoryd.settings_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- What was stored before is kept no longer than what is stored from now on. Longer hours bring no older end back.
    update public.agent_memory m
    set ttl_hours = least(m.ttl_hours, o.hours),
        expires_at = m.updated_at + make_interval(hours => o.hours)
    from (values (true, new.task_memory_ttl_hours), (false, new.memory_ttl_hours)) as o(task_memory, hours)
    where m.user_id = new.user_id
      and (m.memory_type is not distinct from 'task_memory') = o.task_memory
      and coalesce(m.expires_at, 'infinity') > m.updated_at + make_interval(hours => o.hours);
    return null;
end
$$;
create trigger settings_inserted after insert on public.memory_settings
    for each row when (new.memory_ttl_hours is not null or new.task_memory_ttl_hours is not null)
    execute function memoryd.settings_changed();
create trigger settings_changed after update on public.memory_settings
    for each row when ((new.memory_ttl_hours, new.task_memory_ttl_hours)
                       is distinct from (old.memory_ttl_hours, old.task_memory_ttl_hours))
    execute function memoryd.settings_changed();

create function memoryd.stamp_settings() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    new.updated_at := clock_timestamp();
    return new;
end
$$;
create trigger stamp_settings before update on public.memory_settings
    for each row execute function memoryd.stamp_settings();

-- Of a user whose memory is off nothing new is kept: the row is dropped without a word, so that agents work on as ever.
-- agent_memory has it from stamp_expiry, which looks at the user's settings anyway.
create function memoryd.drop_when_off() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    owner uuid := new.user_id;
begin
    if tg_table_name = 'conversation_messages' then
        -- What an agent says in a user's conversation is about that user too.
        owner := coalesce(owner, (select s.user_id from public.conversation_sessions s where s.id = new.session_id));
    elsif tg_table_name = 'memory_chunks' then
        -- A document that was dropped has no chunks.
        owner := coalesce(owner, memoryd.caller_id());
    end if;
    if exists (select from public.memory_settings s where s.user_id = owner and not s.memory_enabled)
       and memoryd.may_write_for(owner) and not memoryd.importing() then
        return null;
    end if;
    return new;
end
$$;
-- Triggers fire by name: a message is dropped before it makes a session, a chunk once it has its document's user.
create trigger drop_when_off before insert on public.conversation_messages
    for each row execute function memoryd.drop_when_off();
create trigger without_memory before insert on public.memory_chunks
    for each row execute function memoryd.drop_when_off();
create trigger drop_when_off before insert on public.documents
    for each row when (new.user_id is not null) execute function memoryd.drop_when_off();
create trigger drop_when_off before insert on public.memory_queries
    for each row when (new.user_id is not null) execute function memoryd.drop_when_off();
create trigger drop_when_off before insert on public.dream_insights
    for each row when (new.user_id is not null) execute function memoryd.drop_when_off();
create trigger drop_when_off before insert on public.agent_execution_logs
    for each row when (new.user_id is not null and new.action_type in ('memory_read', 'memory_write'))
    execute function memoryd.drop_when_off();

-- The audit trail.

create function memoryd.audit_is_on() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select exists (select from memoryd.settings where key = 'audit' and value = 'true') $$;

-- A row for each user, agent and statement: how many rows it wrote, none of what they say.
create function memoryd.note_write() returns trigger
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
do $$
declare
    each text;
begin
    foreach each in array array['agent_memory', 'conversation_messages', 'documents'] loop
        execute format('create trigger note_inserted after insert on public.%I
            referencing new table as changed for each statement execute function memoryd.note_write()', each);
        execute format('create trigger note_updated after update on public.%I
            referencing old table as were new table as changed for each statement execute function memoryd.note_write()', each);
        execute format('create trigger note_deleted after delete on public.%I
            referencing old table as changed for each statement execute function memoryd.note_write()', each);
    end loop;
end
$$;

-- Called by what reads a user's memory, with the caller's rights: so an end user can call it too, and write
-- such a row without having read anything. Therefore it says who wrote it (caller), and of an end user it
-- takes no more than a step that there is and two numbers, about themselves: no agent is named as having
-- read. Where nothing can be written, it goes into the server's log.
create function memoryd.note_read(p_user uuid, p_agent text, p_step text, p_found integer, p_ms integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    caller constant text := case when memoryd.caller_is_service() then 'service'
                                 when memoryd.caller_serves() then 'admin'
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

create index agent_execution_logs_admin on public.agent_execution_logs
    ((input_data ->> 'transaction'), (input_data ->> 'table'), user_id) where action_type = 'admin_read';

-- Puts one read of support on record, once in a transaction: about p_user, or, null, about many. What was
-- noted in this transaction is remembered by the log itself, where an admin can write nothing: a setting of
-- the session could be forged.
create function memoryd.record_admin_read(p_table text, p_user uuid) returns void
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
create function memoryd.note_admin_read(p_table text, p_user uuid) returns boolean
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
create function memoryd.note_admin_search() returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select memoryd.record_admin_read('lexeme_statistics', null) $$;

-- Hashes of texts that were erased a moment ago. A daemon that holds one of them in its hands, about to pay for its embedding,
-- does not bring it back.
create table memoryd.erased_texts (
    content_hash bytea primary key,
    erased_at timestamptz not null default now()
);
comment on table memoryd.erased_texts is 'SHA-256 of texts erased within the last hour: their embeddings, which a daemon may still be asking for, are not kept.';

-- Whoever writes a copy of others' texts (an embedding, an answer) holds this until it is committed: an erasure waits for it,
-- and then finds the copy; who comes later finds the text no more.
create function memoryd.hold_off_erasures() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$ begin lock table memoryd.erased_texts in row share mode; end $$;

-- An embedding that was paid for is kept to spare a second call. While an erasure ends it is not, rather than waited for.
create function memoryd.drop_erased() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table memoryd.erased_texts in row share mode nowait;
    if exists (select from memoryd.erased_texts e
               where e.content_hash = new.content_hash and e.erased_at > now() - interval '1 hour') then
        return null;
    end if;
    return new;
exception when lock_not_available then
    return null;
end
$$;
create trigger drop_erased before insert on memoryd.embeddings
    for each row execute function memoryd.drop_erased();

-- A dream that read a user's memories before they were erased says nothing of them after.
create function memoryd.drop_dreamt() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.lock_shared(memoryd.user_lock(new.user_id));
    if exists (select from public.dream_sessions d where d.id = new.dream_id and d.status = 'running')
       and exists (select from unnest(new.source_memories) as s(id)
                   where not exists (select from public.agent_memory m where m.id = s.id)) then
        return null;
    end if;
    return new;
end
$$;
create trigger drop_dreamt before insert on public.dream_insights
    for each row when (new.user_id is not null and new.dream_id is not null)
    execute function memoryd.drop_dreamt();

create function memoryd.sweep_audit(p_days double precision) returns bigint
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

-- Whose rows.

-- Messages of a user: those that bear their name; and, in a conversation that is theirs by name, those of no
-- user that are theirs as much: the assistant's, and words that nobody else is named for. What an agent is
-- told to be (system) is the agents', and a conversation that has no owner is nobody's: only what bears their
-- name is theirs there. Exports, erasures and what an erasure takes from the daemons all go by this.
create function memoryd.messages_of(p_user uuid) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select m.id from public.conversation_messages m where m.user_id = p_user
    union all
    select m.id
    from public.conversation_sessions s
    join public.conversation_messages m on m.session_id = s.id
    where s.user_id = p_user and m.user_id is null
      and m.role <> 'system' and (m.role = 'assistant' or m.speaker is null)
$$;

-- The tables that hold a user's rows ($1), in an order in which they may be put back: which rows are exported, and which are
-- erased where that differs. Of a command its context stays behind: it holds what the agents know.
create function memoryd.user_tables() returns table (name text, exported text, erased text)
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    values
        ('user_memory_access', 't.user_id = $1', null),
        ('agent_sessions', 't.user_id = $1', null),
        ('conversation_sessions', 't.user_id = $1', null),
        ('conversation_messages', 't.id in (select memoryd.messages_of($1))', null),
        ('agent_commands', 't.user_id = $1', null),
        ('agent_memory', 't.user_id = $1', null),
        ('memory_associations',
         't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)
          and t.related_memory_id in (select m.id from public.agent_memory m where m.user_id = $1)',
         't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)
          or t.related_memory_id in (select m.id from public.agent_memory m where m.user_id = $1)'),
        ('memory_queries', 't.user_id = $1',
         't.user_id = $1 or t.command_id in (select c.id from public.agent_commands c where c.user_id = $1)'),
        ('dream_insights', 't.user_id = $1',
         't.user_id = $1 or exists (select from unnest(t.source_memories) as s(id)
                                    where s.id in (select m.id from public.agent_memory m where m.user_id = $1))'),
        -- What is not answered yet is no memory. Who asked for an erasure is still to be answered, and finds the answer for an hour.
        ('memory_requests', 't.user_id = $1 and t.status <> ''pending''',
         't.user_id = $1 and not (t.kind = ''erase'' and (t.status = ''pending'' or t.finished_at > now() - interval ''1 hour''))'),
        ('documents', 't.user_id = $1', null),
        ('memory_chunks', 't.user_id = $1', null),
        ('shared_knowledge', 't.created_by = $1::text', null),
        ('memory_anchors', 't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)', null),
        -- A service's steps in a run of theirs are the service's; they go with the run, by its foreign key.
        ('agent_execution_logs', 't.user_id = $1', null),
        ('memory_settings', 't.user_id = $1', 't.user_id = $1 and t.memory_enabled')
$$;

-- Columns of a table that are a row's own: without what is reckoned from the others.
create function memoryd.own_columns(p_table text) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_agg(a.attname::text order by a.attnum)
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    where a.attrelid = ('public.' || quote_ident(p_table))::regclass
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      and t.typname not in ('vector', 'halfvec', 'sparsevec', 'tsvector')
      and not (p_table = 'agent_commands' and a.attname = 'context')
      and not (a.attname in ('prior', 'says_when') and p_table in (
          'agent_memory', 'conversation_messages', 'memory_chunks', 'shared_knowledge', 'dream_insights'))
$$;

-- Export.

create function memoryd.user_rows(p_user uuid, p_table text) returns setof jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set bytea_output = 'hex'
as $$
declare
    own constant text[] := memoryd.own_columns(p_table);
begin
    return query execute format(
        'select to_jsonb(r) from (select %s from public.%I t where %s order by %s) r',
        -- An export does not hold the exports before it.
        (select string_agg(case when p_table = 'memory_requests' and c = 'result'
                                then 'case when t.kind <> ''export'' then t.result end as result'
                                else format('t.%I', c) end, ', ') from unnest(own) c),
        p_table,
        (select u.exported from memoryd.user_tables() u where u.name = p_table),
        (select string_agg(format('t.%I', c), ', ')
         from unnest(array['created_at', 'query_time', 'generated_at', 'id', 'user_id']) c where c = any(own)))
        using p_user;
end
$$;

-- Stable, so that every table is read as of one moment.
create function memoryd.all_user_rows(p_user uuid) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    tables jsonb := '{}';
    each text;
begin
    for each in select u.name from memoryd.user_tables() u loop
        tables := tables || jsonb_build_object(
            each, (select coalesce(jsonb_agg(r), '[]') from memoryd.user_rows(p_user, each) r));
    end loop;
    return tables;
exception when program_limit_exceeded then
    raise exception 'what is known about this user is too much for one value'
        using errcode = 'program_limit_exceeded', hint = 'Export it to a file: memoryd export ' || p_user || ' -o FILE.';
end
$$;

create function public.export_user_memory(user_id uuid) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    began constant timestamptz := clock_timestamp();
    tables jsonb;
    rows integer;
begin
    perform memoryd.check_own(export_user_memory.user_id, 'export');
    tables := memoryd.all_user_rows(export_user_memory.user_id);
    select sum(jsonb_array_length(t.value)) into rows from jsonb_each(tables) t;
    perform memoryd.note_read(export_user_memory.user_id, null, 'export', rows,
                              (extract(epoch from clock_timestamp() - began) * 1000)::integer);
    return jsonb_build_object('format', 'memoryd-export', 'version', 1, 'user_id', export_user_memory.user_id,
                              'exported_at', now(), 'tables', tables);
end
$$;
comment on function public.export_user_memory is 'All that is kept about a user, as JSON that `memoryd import` puts back. Users export their own.';

-- Import: rows of one table of an export, put back under p_to; what exists is left as it is. Not granted to anybody: whoever owns
-- memoryd decides whose file to trust. Nothing is joined to another user's rows, whatever the file says.
create function memoryd.import_rows(p_from uuid, p_to uuid, p_table text, p_rows jsonb) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    own text[];
    -- What an assistant says in a user's conversation may have no user.
    ownerless constant boolean := p_table = 'conversation_messages';
    given text[];
    strange text;
    added uuid[];
    guard text := 'true';
begin
    if not exists (select from memoryd.user_tables() u where u.name = p_table) then
        raise exception 'the file has a table %, which this memoryd does not know', quote_literal(p_table)
            using errcode = 'invalid_parameter_value', hint = 'It was made by a newer memoryd, or by hand.';
    end if;
    if jsonb_typeof(p_rows) is distinct from 'array'
       or exists (select from jsonb_array_elements(p_rows) r where jsonb_typeof(r) <> 'object') then
        raise exception 'table % of the file is no array of rows', p_table using errcode = 'invalid_parameter_value';
    end if;
    own := memoryd.own_columns(p_table);
    -- Until the function's end. As an option of the function it would need the right to set parameters.
    perform set_config('memoryd.importing', 'on', true);
    select array_agg(distinct k order by k) into given from jsonb_array_elements(p_rows) r, jsonb_object_keys(r) k;
    if given is null then
        perform set_config('memoryd.importing', '', true);
        return 0;
    end if;
    select k into strange from unnest(given) k where k <> all (own) limit 1;
    if strange is not null then
        raise exception 'table % of the file has a column %, which this memoryd does not import', p_table, quote_literal(strange)
            using errcode = 'invalid_parameter_value', hint = 'It was made by another version of memoryd, or by hand.';
    end if;
    if 'user_id' = any(own) and exists (
        select from jsonb_array_elements(p_rows) r
        where case when r ->> 'user_id' is null then not ownerless else lower(r ->> 'user_id') <> p_from::text end
    ) or p_table = 'shared_knowledge' and exists (
        select from jsonb_array_elements(p_rows) r where r ->> 'created_by' is distinct from p_from::text
    ) then
        raise exception 'table % of the file has rows of another user than the file', p_table
            using errcode = 'invalid_parameter_value', hint = 'An export holds the rows of one user.';
    end if;

    -- An anchor stays where it is when a memory is erased; its payload comes back to the hash that was left of it.
    if p_table = 'memory_anchors' then
        with restored as (
            update public.memory_anchors a
            set payload = r.payload, memory_id = r.memory_id, agent_id = r.agent_id
            from jsonb_populate_recordset(null::public.memory_anchors, p_rows) r
            join public.agent_memory m on m.id = r.memory_id and m.user_id = p_to
            where a.id = r.id and a.payload = '{"erased": true}' and a.content_hash = r.content_hash
            returning a.id
        )
        select array_agg(r.id) into added from restored r;
        perform set_config('memoryd.importing', '', true);
        return coalesce(cardinality(added), 0);
    end if;

    guard := case p_table
        when 'conversation_messages' then
            -- Those that this transaction has put back have its number.
            'not exists (select from public.conversation_sessions s where s.id = t.session_id and s.user_id is distinct from $2
                         and not (s.user_id is null and s.xmin = pg_current_xact_id()::xid))'
        when 'memory_associations' then
            'exists (select from public.agent_memory m where m.id = t.memory_id and m.user_id = $2)
             and exists (select from public.agent_memory m where m.id = t.related_memory_id and m.user_id = $2)'
        when 'memory_chunks' then
            'exists (select from public.documents d where d.id = t.document_id and d.user_id = $2)'
        when 'agent_execution_logs' then
            't.session_id is null
             or exists (select from public.agent_sessions s where s.id = t.session_id and s.user_id = $2)'
        when 'memory_requests' then 't.status <> ''pending'''
        else 'true' end;
    execute format(
        'with added as (
             insert into public.%1$I as existing (%2$s)
             select %3$s from jsonb_populate_recordset(null::public.%1$I, $1) t where %4$s order by %5$s
             on conflict do nothing
             returning %6$s as id
         )
         select coalesce(array_agg(a.id), ''{}'') from added a',
        p_table,
        (select string_agg(quote_ident(k), ', ') from unnest(given) k),
        (select string_agg(case
             when k = 'user_id' then 'case when t.user_id is not null then $2 end'
             when p_table = 'shared_knowledge' and k = 'created_by' then '$2::text'
             when k = 'chat_id' then '(select c.id from public.chat_groups c where c.id = t.chat_id)'
             when k = 'dream_id' then '(select d.id from public.dream_sessions d where d.id = t.dream_id)'
             when k = 'command_id' then 'case when not exists (select from public.agent_commands c where c.id = t.command_id
                                                               and c.user_id is distinct from $2) then t.command_id end'
             else format('t.%I', k) end, ', ') from unnest(given) k),
        guard,
        coalesce((select string_agg(format('t.%I', k), ', ')
                  from unnest(array['created_at', 'query_time', 'generated_at', 'id']) k where k = any(given)), '1'),
        case when 'id' = any(own) then 'existing.id' else 'existing.user_id' end)
    into added using p_rows, p_to;
    if p_table = 'agent_commands' then
        -- Their outcomes were remembered once, and come back, or were forgotten since.
        delete from memoryd.jobs j where j.topic = 'capture' and j.ref = any(added);
    end if;
    perform set_config('memoryd.importing', '', true);
    return cardinality(added);
end
$$;

-- A session that is put back was stamped when it was.
drop trigger stamp_session on public.agent_sessions;
create trigger stamp_session before insert or update on public.agent_sessions
    for each row when (current_setting('memoryd.importing', true) is distinct from 'on')
    execute function memoryd.stamp_session();

-- Single rows.

-- End users delete by this, and by what stands around it, not by DELETE: who may DELETE may LOCK TABLE too,
-- against everybody, and no policy stops that. Rows of others are left as rows that are not there are: not
-- locked, not waited for, not counted.
create function public.forget(ids uuid[], source text default 'memory') returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    place constant text := case forget.source
        when 'memory' then 'agent_memory'
        when 'message' then 'conversation_messages'
        when 'session' then 'conversation_sessions'
        when 'document' then 'documents'
        when 'chunk' then 'memory_chunks'
        when 'settings' then 'memory_settings' end;
    gone bigint;
    mine uuid[];
begin
    if forget.source = 'session' and not memoryd.caller_is_service() then
        -- Others who speak in it go on, as after an erasure.
        mine := array(select s.id from public.conversation_sessions s where s.id = any(ids) and s.user_id = memoryd.caller_id());
        delete from public.conversation_messages m
        where m.session_id = any(mine) and m.id in (select memoryd.messages_of(memoryd.caller_id()));
        delete from public.conversation_sessions s
        where s.id = any(mine) and not exists (select from public.conversation_messages m where m.session_id = s.id);
        update public.conversation_sessions s set user_id = null, title = null where s.id = any(mine);
        return cardinality(mine);
    end if;
    if place is null then
        raise exception 'unknown source %', coalesce(quote_literal(left(forget.source, 200)), 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Sources: memory, message, session, document, chunk, '
                         'settings (whose ids are user_ids).';
    end if;
    execute format('delete from public.%I t where t.%I = any ($1) and ($2 or t.user_id = $3)',
                   place, case forget.source when 'settings' then 'user_id' else 'id' end)
        using forget.ids, memoryd.caller_is_service(), memoryd.caller_id();
    get diagnostics gone = row_count;
    return gone;
end
$$;
comment on function public.forget is
    'Deletes rows by their ids and returns how many went: of end users their own, of a service any. '
    'Sources: memory, message, session (with its messages), document (with its chunks), chunk, settings.';

-- Erasure.

-- Texts of a user that were embedded or are about to be, each as the daemon takes it.
create function memoryd.texts_of(p_user uuid) returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select m.content from public.agent_memory m where m.user_id = p_user
    union all
    select c.message from public.agent_commands c where c.user_id = p_user
    union all
    select r.query from public.memory_requests r where r.user_id = p_user
    union all
    select i.insight from public.dream_insights i where i.user_id = p_user
    union all
    select m.content from public.conversation_messages m where m.id in (select memoryd.messages_of(p_user))
    union all
    select concat_ws(E'\n', c.context, c.chunk_text) from public.memory_chunks c where c.user_id = p_user
    union all
    select concat_ws(E'\n', k.title, k.content, array_to_string(k.tags, ' '))
    from public.shared_knowledge k where k.created_by = p_user::text
$$;

-- Jobs that are about a user's rows. Not those of places that messages have left: they rid others' windows of what stood there.
create function memoryd.jobs_of(p_user uuid) returns setof bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select j.id from memoryd.jobs j
    where not coalesce(j.payload ? 'gone', false) and j.ref in (
        select c.id from public.agent_commands c where c.user_id = p_user
        union all
        select m.id from public.agent_memory m where m.user_id = p_user
        union all
        select i.id from public.dream_insights i where i.user_id = p_user
        union all
        select r.id from public.memory_requests r
        where r.user_id = p_user and r.kind <> 'erase'
        union all
        select memoryd.messages_of(p_user)
        union all
        select s.id from public.conversation_sessions s where s.user_id = p_user
        union all
        select d.id from public.documents d where d.user_id = p_user
        union all
        select c.id from public.memory_chunks c where c.user_id = p_user
        union all
        select k.id from public.shared_knowledge k where k.created_by = p_user::text
    )
$$;

-- Of these agents those that no row names but this user's own, neither of another user nor of nobody. One that is open to users
-- is the service's, however few have come so far.
create function memoryd.named_only_by(p_user uuid, p_agents text[], p_but text default null) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    agents text[] := array(
        select a from unnest(p_agents) a
        where a <> '_shared' and not exists (select from public.agents g where g.agent_id = a and g.open_to_users));
    each record;
begin
    for each in
        select u.name, coalesce(u.erased, u.exported) as condition
        from memoryd.user_tables() u
        join pg_attribute a on a.attrelid = format('public.%I', u.name)::regclass and a.attname = 'agent_id'
        where u.name is distinct from p_but
        -- First where an index leads to an agent's rows, so that of most agents nothing more is asked.
        order by u.name <> 'agent_memory', u.name
    loop
        exit when agents = '{}';
        execute format('select coalesce(array_agg(a.name), ''{}'') from unnest($2) as a(name)
                        where not exists (select from public.%I t where t.agent_id = a.name and not coalesce((%s), false))',
                       each.name, each.condition)
        into agents using p_user, agents;
    end loop;
    return agents;
end
$$;

-- Agents that are a user's own: named by this user's rows alone.
create function memoryd.agents_of(p_user uuid) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    agents text[] := '{}';
    named text[];
    each record;
begin
    for each in
        select u.name, coalesce(u.erased, u.exported) as condition
        from memoryd.user_tables() u
        join pg_attribute a on a.attrelid = format('public.%I', u.name)::regclass and a.attname = 'agent_id'
    loop
        execute format('select array_agg(distinct t.agent_id) from public.%I t where t.agent_id is not null and (%s)',
                       each.name, each.condition)
        into named using p_user;
        agents := agents || named;
    end loop;
    return memoryd.named_only_by(p_user, array(select distinct a from unnest(agents) a));
end
$$;

-- The lanes in which a user's memories are linked.
create function memoryd.lanes_of(p_user uuid) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array(select l.lane from memoryd.lanes l where right(l.lane, 17) = memoryd.associate_lane('', p_user))
$$;

-- THE ORDER OF LOCKS, which all that lock more than one row keep:
--   1. a user's own lock (memoryd.user_lock)   5. executions
--   2. lanes                                   6. what is remembered: memories, messages, links; by id
--   3. jobs                                    7. the erasures' gate (table memoryd.erased_texts), then requests
--   4. commands, by id                         8. the statistics' lock, then lexemes in their order
-- Within one statement a CTE locks them in this order (`order by ... for update`) before anything is written. An erasure
-- needs the commands before the jobs, since a command that ends makes a job: it takes both without waiting for either.
--
-- Takes what is about a user from the daemons and the agents: the commands, so that none of them ends any more, then the jobs.
-- What one of them is working on is never written. A job that is being settled is waited for, with nothing held meanwhile;
-- whatever it wrote is then there to be erased.
create function memoryd.take_jobs(p_user uuid, p_lanes text[] default '{}') returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    until constant timestamptz := clock_timestamp() + interval '30 seconds';
begin
    loop
        begin
            perform from public.agent_commands c where c.user_id = p_user for update of c nowait;
            perform from memoryd.lanes l where l.lane = any(p_lanes) for update of l nowait;
            perform from memoryd.jobs j where j.id in (select memoryd.jobs_of(p_user)) for update of j nowait;
            exit;
        exception when lock_not_available then
            if clock_timestamp() > until then
                raise exception 'somebody has been writing about this user for half a minute'
                    using errcode = 'lock_not_available',
                          hint = 'Nothing was erased. Try again in a moment; a transaction that was left open must end first.';
            end if;
        end;
        perform pg_sleep(0.02);
    end loop;
    delete from memoryd.jobs j where j.id in (select memoryd.jobs_of(p_user));
end
$$;

-- Whose rows others were answered with: an erasure also takes out what was changed or deleted since.
create table memoryd.answered_from (
    party bigint not null,
    request_id uuid not null references public.memory_requests (id) on delete cascade,
    primary key (party, request_id)
);
comment on table memoryd.answered_from is
    'The users (hashed, see memoryd.party_of) whose rows stand in the answer to a request of somebody else; 0: of whom is not known any more.';
create index answered_from_request on memoryd.answered_from (request_id);

-- The rows that an answer shows, by id.
create function memoryd.rows_shown(p_result jsonb) returns table (id uuid, place bigint)
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select r.id, r.place
    from (
        select case when f.found ->> 'id' ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                    then (f.found ->> 'id')::uuid end as id,
               f.place
        from jsonb_array_elements(case when jsonb_typeof(p_result) = 'array' then p_result else '[]' end)
             with ordinality as f(found, place)
    ) r
    where r.id is not null
$$;

-- Of these rows those that are there, with whose they are.
create function memoryd.owners_of(p_ids uuid[]) returns table (id uuid, user_id uuid)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select m.id, m.user_id from public.agent_memory m where m.id = any(p_ids)
    union all
    select m.id, m.user_id from public.conversation_messages m where m.id = any(p_ids)
    union all
    select c.id, c.user_id from public.memory_chunks c where c.id = any(p_ids)
    union all
    select i.id, i.user_id from public.dream_insights i where i.id = any(p_ids)
    union all
    select k.id, case when k.created_by ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then k.created_by::uuid end
    from public.shared_knowledge k where k.id = any(p_ids)
$$;

create function memoryd.answers_written() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    answered uuid[];
begin
    if tg_op = 'INSERT' then
        select array_agg(n.id) into answered from new_rows n where n.kind = 'recall' and n.result is not null;
    else
        select array_agg(n.id) into answered
        from new_rows n
        where n.kind = 'recall' and n.result is not null
          and (n.id, n.result) not in (select o.id, o.result from old_rows o where o.result is not null);
    end if;
    if answered is not null then
        insert into memoryd.answered_from (party, request_id)
        select distinct case when o.id is null then 0 else memoryd.party_of(o.user_id) end, n.id
        from new_rows n
        cross join lateral memoryd.rows_shown(n.result) f
        left join memoryd.owners_of(array(
            select distinct g.id from new_rows r cross join lateral memoryd.rows_shown(r.result) g where r.id = any(answered)
        )) o on o.id = f.id
        where n.id = any(answered)
          and (o.id is null or (o.user_id is not null and o.user_id is distinct from n.user_id))
        on conflict do nothing;
    end if;
    return null;
end
$$;
create trigger answers_written_insert after insert on public.memory_requests
    referencing new table as new_rows for each statement execute function memoryd.answers_written();
create trigger answers_written_update after update on public.memory_requests
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.answers_written();

-- Takes what is there no longer out of what others were answered with rows of this user.
create function memoryd.scrub_answers(p_user uuid) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with stale as (
        delete from memoryd.answered_from a where a.party in (0, memoryd.party_of(p_user))
        returning a.request_id
    ), shown as materialized (
        select s.request_id, f.id, f.place
        from (select distinct t.request_id from stale t) s
        join public.memory_requests r on r.id = s.request_id
        cross join lateral memoryd.rows_shown(r.result) f
    ), hits as (
        select s.request_id as id, array_agg(s.place) as places
        from shown s
        where s.id not in (select o.id from memoryd.owners_of(array(select distinct w.id from shown w)) o)
        group by s.request_id
    )
    update public.memory_requests r
    set result = (select coalesce(jsonb_agg(x.found order by x.place), '[]')
                  from jsonb_array_elements(r.result) with ordinality as x(found, place)
                  where x.place <> all (h.places))
    from hits h
    where r.id = h.id
$$;

-- An agent's name may say whose it was. One that was disabled stays disabled, and so known by its name.
create function memoryd.forget_agents(p_agents text[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    delete from public.agents a where a.agent_id = any(p_agents) and a.enabled;
    update public.agents a set identity = null where a.agent_id = any(p_agents);
    -- Its anchors stay one chain, under a name that says nothing.
    update public.memory_anchors a
    set agent_id = n.name
    from (select g as agent, 'erased ' || gen_random_uuid() as name from unnest(p_agents) g) n
    where a.agent_id = n.agent;
$$;

create function public.erase_user_memory(user_id uuid) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    whose constant uuid := erase_user_memory.user_id;
    counts jsonb := '{}';
    number bigint;
    sessions uuid[];
    shared uuid[];
    memories uuid[];
    hashes bytea[];
    refs uuid[];
    paths jsonb;
    each record;
    agents text[];
    lanes text[];
    gone uuid[] := '{}';
    ids uuid[];
begin
    perform memoryd.check_own(whose, 'erase');
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'an erasure must see what is committed while it runs'
            using errcode = 'active_sql_transaction', hint = 'Call it in a transaction of isolation level read committed.';
    end if;
    perform memoryd.lock(memoryd.user_lock(whose));
    agents := memoryd.agents_of(whose);
    lanes := memoryd.lanes_of(whose);
    perform memoryd.take_jobs(whose, agents || lanes);

    sessions := array(select s.id from public.conversation_sessions s where s.user_id = whose);
    shared := array(select distinct m.session_id from public.conversation_messages m
                    join public.conversation_sessions s on s.id = m.session_id
                    where m.user_id = whose and s.user_id is null);
    memories := array(select m.id from public.agent_memory m where m.user_id = whose);
    refs := memories || sessions
        || array(select c.id from public.agent_commands c where c.user_id = whose)
        || array(select r.id from public.memory_requests r
                 where r.user_id = whose and r.kind <> 'erase')
        || array(select i.id from public.dream_insights i where i.user_id = whose)
        || array(select d.id from public.documents d where d.user_id = whose)
        || array(select c.id from public.memory_chunks c where c.user_id = whose)
        || array(select memoryd.messages_of(whose));
    hashes := array(select distinct sha256(convert_to(left(t, 32768), 'UTF8')) from memoryd.texts_of(whose) t where t is not null);
    select coalesce(jsonb_agg(d.replica_path order by d.replica_path), '[]') into paths
    from public.documents d where d.user_id = whose and d.replica_path is not null;

    -- What others retrieved of it.
    update public.memory_queries q
    set (retrieved_memory_ids, relevance_scores) = (
        select coalesce(array_agg(r.id order by r.place) filter (where r.place <= cardinality(q.retrieved_memory_ids)), '{}'),
               coalesce(array_agg(r.score order by r.place) filter (where r.place <= cardinality(q.relevance_scores)), '{}')
        from unnest(q.retrieved_memory_ids, q.relevance_scores) with ordinality as r(id, score, place)
        where r.id is null or r.id <> all (memories))
    where q.user_id is distinct from whose
      and exists (select from unnest(q.retrieved_memory_ids) r where r in (select unnest(memories)));
    -- The chain of hashes stays whole.
    update public.memory_anchors a
    set payload = '{"erased": true}'
    where a.memory_id in (select unnest(memories)) or a.payload ->> 'user_id' = whose::text;
    get diagnostics number = row_count;
    counts := counts || jsonb_build_object('memory_anchors', number);

    for each in
        -- Links and insights of others go too, but how many there were is theirs to know.
        select u.name, coalesce(u.erased, u.exported) as condition,
               case when u.name = 'memory_requests' then 'true' else u.exported end as counted,
               case when 'id' = any(memoryd.own_columns(u.name)) then 't.id' else 'null::uuid' end as id
        -- Commands before what is made of them: whoever is at work on one that came meanwhile is waited for here.
        -- Requests last, with nobody at work on an answer.
        from unnest(array['agent_execution_logs', 'memory_queries', 'agent_commands', 'memory_queries', 'memory_associations',
                          'dream_insights', 'agent_memory', 'conversation_messages', 'memory_chunks', 'documents',
                          'shared_knowledge', 'agent_sessions', 'user_memory_access', 'memory_settings', 'memory_requests'])
             with ordinality as o(name, place)
        join memoryd.user_tables() u using (name)
        order by o.place
    loop
        if each.name = 'memory_requests' then
            lock table memoryd.erased_texts in exclusive mode;
        end if;
        execute format('with gone as (delete from public.%I t where %s returning %s as counted, %s as id)
                        select count(*) filter (where g.counted),
                               coalesce(array_agg(g.id) filter (where g.id is not null), ''{}'') from gone g',
                       each.name, each.condition, each.counted, each.id)
        into number, ids using whose;
        counts := counts || jsonb_build_object(each.name, number + coalesce((counts ->> each.name)::bigint, 0));
        gone := gone || ids;
    end loop;
    update public.memory_requests r
    set query = null, options = '{}', agent_id = null
    where r.user_id = whose and r.kind = 'erase';
    delete from public.conversation_sessions s
    where s.id = any(sessions)
      and not exists (select from public.conversation_messages m where m.session_id = s.id);
    get diagnostics number = row_count;
    counts := counts || jsonb_build_object('conversation_sessions', number);
    -- One of nobody goes with its last words, and is not counted: who else spoke in it is not the user's to
    -- know.
    with gone as (
        delete from public.conversation_sessions s
        where s.id = any(shared) and s.user_id is null
          and not exists (select from public.conversation_messages m where m.session_id = s.id)
        returning s.id
    )
    select refs || array_agg(g.id) into refs from gone g;
    -- Where others speak too, the conversation is theirs now; its title may have been about whom it loses.
    update public.conversation_sessions s set user_id = null, title = null where s.id = any(sessions);
    update public.conversation_sessions s set title = null where s.id = any(shared) and s.user_id is null;
    -- That they want to be remembered no more is all that is kept of what they decided.
    update public.memory_settings s
    set memory_ttl_hours = null, task_memory_ttl_hours = null, conversation_retention_minutes = null
    where s.user_id = whose;

    -- The machinery.
    refs := array(select distinct r from unnest(refs || gone) r);
    delete from memoryd.executions e where e.command_id in (select unnest(refs));
    delete from memoryd.dead_jobs d
    where d.ref = any(refs)
              and not (coalesce(d.payload ? 'gone', false)
                       and exists (select from public.conversation_sessions s where s.id = d.ref))
       or d.payload is not null and exists (
           select from regexp_matches(d.payload::text, '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'g') as m(found)
           where m.found[1]::uuid = any(refs || whose));
    -- Whoever settles one of these is about to delete it, too. In a conversation that others go on with, the places left are to do.
    delete from memoryd.jobs j
    where j.id in (select k.id from memoryd.jobs k
                   where k.ref = any(refs)
                     and not (coalesce(k.payload ? 'gone', false)
                              and exists (select from public.conversation_sessions s where s.id = k.ref))
                   for update skip locked);
    -- Others' rows that name one of these agents may have come meanwhile.
    agents := memoryd.named_only_by(whose, agents, 'memory_anchors');
    perform memoryd.forget_agents(agents);
    delete from memoryd.lanes l where l.lane = any(agents || lanes);
    delete from memoryd.dead_jobs d where d.lane = any(agents || lanes);
    -- Words that no row has any more go as they are counted out.
    select max(c.id) into number from memoryd.lexeme_changes c;
    while exists (select from memoryd.lexeme_changes c where c.id <= number) loop
        perform memoryd.fold_lexeme_changes();
    end loop;

    -- Copies of its texts.
    delete from memoryd.erased_texts e where e.erased_at < now() - interval '1 hour';
    insert into memoryd.erased_texts (content_hash)
    select h from unnest(hashes) h
    on conflict (content_hash) do update set erased_at = excluded.erased_at;
    delete from memoryd.embeddings e where e.content_hash in (select unnest(hashes));
    perform memoryd.scrub_answers(whose);

    -- What this erasure wrote of itself; then that one took place.
    delete from public.agent_execution_logs l where l.user_id = whose;
    insert into public.agent_execution_logs (step_name, action_type, output_data) values ('erase', 'memory_write', counts);
    return counts || jsonb_build_object('replica_paths', paths);
end
$$;
comment on function public.erase_user_memory is 'Deletes all that is kept about a user and says how many rows of each table. Users erase their own. There is no way back but an export.';
