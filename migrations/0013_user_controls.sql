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

-- Whether the caller works for memoryd. Unlike current_user, what is asked here holds within a function that runs as its owner.
create function memoryd.caller_is_service() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select pg_has_role(coalesce(nullif(nullif(current_setting('role', true), ''), 'none'), session_user)::name,
                       'memoryd_service', 'usage')
$$;

-- While rows of an export are put back: they were remembered once, and each write of theirs was logged then.
create function memoryd.importing() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select current_setting('memoryd.importing', true) = 'on' and memoryd.caller_is_service() $$;

-- One erasure of a user at a time, and no dream's insights about them meanwhile.
create function memoryd.user_lock(p_user uuid) returns bigint
language sql immutable parallel safe
return hashtextextended('memoryd.user:' || p_user::text, 0);

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
       and not memoryd.importing() then
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

-- Called by what reads a user's memory. An end user writes of themselves alone, whomever they name.
create function memoryd.note_read(p_user uuid, p_agent text, p_step text, p_found integer, p_ms integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    read_of constant uuid := case when memoryd.caller_is_service() then p_user else memoryd.caller_id() end;
begin
    if read_of is null or current_setting('transaction_read_only') = 'on' or not memoryd.audit_is_on() then
        return;
    end if;
    insert into public.agent_execution_logs (user_id, agent_id, step_name, action_type, output_data, execution_time_ms)
    values (read_of, left(p_agent, 200), coalesce(nullif(btrim(left(p_step, 100)), ''), 'read'), 'memory_read',
            jsonb_build_object('found', p_found), greatest(p_ms, 0));
end
$$;
comment on function memoryd.note_read is 'Logs that a user''s memory was read: who, how much, how long; never what. Does nothing where nothing can be written.';

create index agent_execution_logs_admin on public.agent_execution_logs
    ((input_data ->> 'transaction'), (input_data ->> 'table'), user_id) where action_type = 'admin_read';

-- In the policies of memoryd_admin: true, once it is on record. What was noted in this transaction is remembered by the log
-- itself, where an admin can write nothing: a setting of the session could be forged.
create function memoryd.note_admin_read(p_table text, p_user uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    here text;
    noted bigint;
    record_of uuid := p_user;
begin
    if p_user is null then
        return true;
    end if;
    if current_setting('transaction_read_only') = 'on' then
        raise exception 'reads of memoryd_admin are logged, and this transaction is read-only'
            using errcode = 'read_only_sql_transaction', hint = 'Begin a transaction that may write; on a standby there is none.';
    end if;
    here := pg_current_xact_id()::text || '@' || extract(epoch from now())::text;
    if exists (select from public.agent_execution_logs l
               where l.action_type = 'admin_read' and l.input_data ->> 'transaction' = here
                 and l.input_data ->> 'table' = p_table and (l.user_id = p_user or l.user_id is null)) then
        return true;
    end if;
    select count(*) into noted from public.agent_execution_logs l
    where l.action_type = 'admin_read' and l.input_data ->> 'transaction' = here and l.input_data ->> 'table' = p_table;
    if noted >= 100 then
        record_of := null;
    end if;
    insert into public.agent_execution_logs (user_id, step_name, action_type, input_data)
    values (record_of, 'select ' || p_table, 'admin_read',
            jsonb_build_object('admin', coalesce(memoryd.caller_id()::text, session_user::text), 'login', session_user,
                               'table', p_table, 'transaction', here)
            || case when record_of is null then '{"users": "many"}' else '{}' end::jsonb);
    -- A transaction that is rolled back takes its log along; the server's own log stays.
    raise log 'memoryd: admin_read of % about % by % (login %)', p_table, coalesce(record_of::text, 'many users'),
        coalesce(memoryd.caller_id()::text, session_user::text), session_user;
    return true;
end
$$;

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
