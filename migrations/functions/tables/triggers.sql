-- All triggers. docs/triggers.md lists them by table, with those that the loops at the end make. To apply
-- this file locks the tables, so it is applied only when it, or one above it in this folder, has changed.
--
-- Postgres fires those of a table in this order: first those that run before the change, then those after it;
-- and of these each in the order of their names. So a name decides what a trigger finds. Where it matters:
--
--   agent_memory           stamp_expiry_... before stamp_memory: a user's own hours count from the change
--                          before this one.
--   conversation_messages  drop_when_off before put_in_session: a message that is dropped creates no session.
--   memory_chunks          assign_owner before drop_when_off: the chunk has the user of its document by then.
--
-- check_embedding and forget_embedding change nothing that the other triggers of their table read. Triggers
-- that run after the change queue jobs, index, count, log, notify, or carry the change on to other tables:
-- none reads what another wrote. But they also take locks: to rename one must not break the order of locks
-- in base/locks.sql.

create or replace trigger request_died after insert on memoryd.dead_letters
    for each row when (new.topic in ('request', 'user_data', 'dream'))
    execute function memoryd.request_died();

create or replace trigger drop_erased before insert on memoryd.embeddings
    for each row execute function memoryd.drop_erased();

create or replace trigger check_login before insert or update on memoryd.logins
    for each row execute function memoryd.check_login();

create or replace trigger check_context_options before insert on public.agent_commands
    for each row when (new.metadata ? 'context_options')
    execute function memoryd.check_context_options();
create or replace trigger stamp_times before insert or update on public.agent_commands
    for each row when ((new.status in ('completed', 'failed', 'cancelled') and new.finished_at is null)
                       or (new.status = 'running' and new.started_at is null))
    execute function memoryd.stamp_times();

create or replace trigger assign_agent before insert on public.agent_memory
    for each row when (new.agent_id is null)
    execute function memoryd.assign_agent();
create or replace trigger stamp_expiry_insert before insert on public.agent_memory
    for each row when (new.ttl_hours is not null or new.user_id is not null)
    execute function memoryd.stamp_expiry();
create or replace trigger stamp_expiry_update before update on public.agent_memory
    for each row when (new.ttl_hours is distinct from old.ttl_hours
                       or (new.user_id is not null
                           and (new.expires_at, new.user_id, new.memory_type)
                               is distinct from (old.expires_at, old.user_id, old.memory_type)))
    execute function memoryd.stamp_expiry();
-- What memoryd computes does not count as a change: words, embeddings, the time that settings of users give.
-- Nor does it when a memory with a key lives on because it was read.
create or replace trigger stamp_memory before update on public.agent_memory
    for each row when ((new.agent_id, new.user_id, new.session_id, new.kind, new.memory_type, new.content,
                        new.metadata, new.source, new.valid_from, new.valid_to, new.superseded_by, new.key)
                       is distinct from
                       (old.agent_id, old.user_id, old.session_id, old.kind, old.memory_type, old.content,
                        old.metadata, old.source, old.valid_from, old.valid_to, old.superseded_by, old.key)
                       or (pg_trigger_depth() = 0 and new.key is null
                           and (new.ttl_hours, new.expires_at)
                               is distinct from (old.ttl_hours, old.expires_at)))
    execute function memoryd.stamp_memory();
-- A capital letter, so that it comes before the foreign keys' own triggers (RI_...).
create or replace trigger "Lock_links" after delete on public.agent_memory
    referencing old table as old_rows
    for each row execute function memoryd.lock_links();
create or replace trigger facts_reworded after update on public.agent_memory
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.facts_reworded();

create or replace trigger stamp_session before insert or update on public.agent_sessions
    for each row execute function memoryd.stamp_session();

create or replace trigger agent_disabled after update on public.agents
    for each row when (old.enabled and not new.enabled)
    execute function memoryd.agent_disabled();

create or replace trigger turn_inserted instead of insert on public.conversation_history
    for each row execute function memoryd.turn_inserted();

create or replace trigger keep_speaker before update on public.conversation_messages
    for each row when (old.chat_id is not null
                       and (new.role, new.speaker) is distinct from (old.role, old.speaker))
    execute function memoryd.keep_speaker();
create or replace trigger put_in_session before insert on public.conversation_messages
    for each row execute function memoryd.put_in_session();

create or replace trigger stamp_document before insert or update on public.documents
    for each row execute function memoryd.stamp_document();
create or replace trigger stamp_updated_at before update on public.documents
    for each row execute function memoryd.stamp_updated_at();
create or replace trigger wake_replica after insert or update or delete on public.documents
    for each statement execute function memoryd.wake_replica();

create or replace trigger drop_dreamt before insert on public.dream_insights
    for each row when (new.user_id is not null and new.dream_id is not null)
    execute function memoryd.drop_dreamt();

create or replace trigger complete_anchor before insert on public.memory_anchors
    for each row execute function memoryd.complete_anchor();

-- Its strength is computed: it rises by use, and fades.
create or replace trigger stamp_updated_at before update on public.memory_associations
    for each row when ((new.memory_id, new.related_memory_id, new.association_type)
                       is distinct from (old.memory_id, old.related_memory_id, old.association_type))
    execute function memoryd.stamp_updated_at();

create or replace trigger assign_owner before insert or update of document_id, user_id on public.memory_chunks
    for each row execute function memoryd.assign_chunk_owner();
create or replace trigger note_chunks_insert after insert on public.memory_chunks
    referencing new table as changed_rows
    for each statement execute function memoryd.note_chunks();
create or replace trigger note_chunks_update after update on public.memory_chunks
    referencing new table as changed_rows
    for each statement execute function memoryd.note_chunks();
create or replace trigger note_chunks_delete after delete on public.memory_chunks
    referencing old table as changed_rows
    for each statement execute function memoryd.note_chunks();

create or replace trigger keep_own_retrieved before insert on public.memory_queries
    for each row when ((new.retrieved_memory_ids <> '{}' or new.insight_ids <> '{}')
                       and not memoryd.caller_is_privileged())
    execute function memoryd.keep_own_retrieved();

-- At the commit, when an erasure that was under way is over. A retrieval for a user names no memory and no
-- insight of another one.
drop trigger if exists drop_erased_ids on public.memory_queries;
create constraint trigger drop_erased_ids after insert on public.memory_queries
    deferrable initially deferred
    for each row when (new.knowledge_ids <> '{}'
                       or new.user_id is null
                          and (new.retrieved_memory_ids <> '{}' or new.insight_ids <> '{}'))
    execute function memoryd.drop_erased_ids();

create or replace trigger answers_written_inserted after insert on public.memory_requests
    for each row when (new.kind = 'recall' and new.result is not null)
    execute function memoryd.answers_written();
create or replace trigger answers_written_updated after update on public.memory_requests
    for each row when (new.kind = 'recall' and new.result is not null and old.result is null)
    execute function memoryd.answers_written();

create or replace trigger stamp_settings before update on public.memory_settings
    for each row execute function memoryd.stamp_updated_at();
create or replace trigger note_switched after insert or update or delete on public.memory_settings
    for each row execute function memoryd.note_switched();
create or replace trigger settings_changed after update on public.memory_settings
    for each row when ((new.memory_ttl_hours, new.task_memory_ttl_hours)
                       is distinct from (old.memory_ttl_hours, old.task_memory_ttl_hours))
    execute function memoryd.settings_changed();
create or replace trigger settings_inserted after insert on public.memory_settings
    for each row when (new.memory_ttl_hours is not null or new.task_memory_ttl_hours is not null)
    execute function memoryd.settings_changed();

create or replace trigger stamp_knowledge_insert before insert on public.shared_knowledge
    for each row execute function memoryd.stamp_knowledge();
create or replace trigger guard_knowledge_insert before insert on public.shared_knowledge
    for each row execute function memoryd.guard_knowledge();
create or replace trigger guard_knowledge_update before update on public.shared_knowledge
    for each row when ((new.category, new.title, new.content, new.tags)
                       is distinct from (old.category, old.title, old.content, old.tags))
    execute function memoryd.guard_knowledge();
create or replace trigger check_decision before insert or update on public.shared_knowledge
    for each row when (new.decision_context is not null or new.outcome is not null)
    execute function memoryd.check_decision();
drop trigger if exists drop_erased_ids on public.shared_knowledge;
create constraint trigger drop_erased_ids after insert or update of related_ids on public.shared_knowledge
    deferrable initially deferred
    for each row when (new.related_ids <> '{}')
    execute function memoryd.drop_erased_ids();
create or replace trigger score_knowledge before insert on public.shared_knowledge
    for each row when (new.surprise_score is null) execute function memoryd.score_knowledge();

-- Noting that an entry was used does not count as a change of it. Indexing it does not, either.
create or replace trigger stamp_knowledge_update before update on public.shared_knowledge
    for each row when ((new.org_id, new.tier, new.category, new.title, new.content, new.created_by,
                        new.created_by_name, new.source, new.confidence, new.surprise_score, new.tags,
                        new.related_ids, new.decision_context, new.outcome, new.status, new.resolved_at,
                        new.expires_at)
                       is distinct from
                       (old.org_id, old.tier, old.category, old.title, old.content, old.created_by,
                        old.created_by_name, old.source, old.confidence, old.surprise_score, old.tags,
                        old.related_ids, old.decision_context, old.outcome, old.status, old.resolved_at,
                        old.expires_at))
    execute function memoryd.stamp_knowledge();

create or replace trigger stamp_updated_at before update on public.user_memory_access
    for each row execute function memoryd.stamp_updated_at();

-- Of several tables: made from what is declared once.

-- Embeddings that the writers of searchable rows give.
do $$
declare
    each record;
begin
    for each in
        select s.*, (select string_agg(format('new.%I is distinct from old.%1$I', c), ' or ')
                     from unnest(s.searched) c) as is_reworded
        from memoryd.sources() s
    loop
        execute format($s$
            create or replace trigger check_embedding before insert or update on public.%1$I
                for each row when (new.%2$I is not null)
                execute function memoryd.check_embedding(%2$L, %3$L);
            create or replace trigger forget_embedding before update on public.%1$I
                for each row when (%4$s) execute function memoryd.forget_embedding(%2$L)
            $s$, each.table_name, each.embedding, each.name, each.is_reworded);
    end loop;
end
$$;

-- Checks of new rows of a kind, and of those in which one of some columns changes. A document is shared by
-- its chunks, too.
do $$
declare
    sharing constant text := 'metadata, new.access_level, new.visibility_tags';
    each record;
begin
    for each in
        select * from (values
            ('check_metadata', 'agent_memory', 'new.metadata <> ''{}'' and new.memory_type is not null
                                                and new.source is distinct from ''conversation''',
             'metadata, new.memory_type'),
            ('check_superseded', 'agent_memory', 'new.superseded_by is not null',
             'superseded_by, new.user_id'),
            ('check_sharing', 'documents', 'new.metadata <> ''{}''', sharing),
            ('check_sharing', 'memory_chunks', 'new.access_level is not null', sharing),
            ('check_sharing', 'conversation_messages',
             'new.access_level is not null and new.metadata <> ''{}''', sharing)
        ) as t(name, table_name, kind, columns)
    loop
        execute format($s$
            create or replace trigger %1$s_insert before insert on public.%2$I
                for each row when (%3$s) execute function memoryd.%1$s();
            create or replace trigger %1$s_update before update on public.%2$I
                for each row when (%3$s and (new.%4$s) is distinct from (old.%5$s))
                execute function memoryd.%1$s()
            $s$, each.name, each.table_name, each.kind, each.columns,
            replace(each.columns, 'new.', 'old.'));
    end loop;
end
$$;

-- Times that every driver can read (Python's end with the year 9999, and psycopg reads no infinity), and
-- texts that say something. A row of before is refused only where one of these changes. An empty text is left
-- to the check of its table, which has a hint of its own.
do $$
declare
    each record;
    seen text;
    own text;
begin
    for each in
        select c.relname as name,
               coalesce(n.texts, '{}') || coalesce(
                   array_agg(a.attname::text) filter (where a.attname = 'agent_id'), '{}') as texts,
               array_agg(a.attname::text order by a.attnum) filter (where a.attname <> 'agent_id') as times
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
                               and (a.atttypid = 'timestamptz'::regtype or a.attname = 'agent_id')
        left join (values
            ('agent_commands', '{message}'::text[]), ('agent_execution_logs', '{step_name}'),
            ('agent_memory', '{content}'), ('chat_groups', '{platform}'),
            ('conversation_messages', '{speaker,content}'), ('documents', '{title}'),
            ('dream_insights', '{insight}'), ('memory_chunks', '{chunk_text}'),
            ('shared_knowledge', '{category,title,content,created_by}')
        ) as n(name, texts) on n.name = c.relname
        where c.relnamespace = 'public'::regnamespace
          and c.relname in (select u.name from memoryd.user_tables() u
                            union all select unnest('{agents,chat_groups,dream_sessions}'::text[]))
        group by c.relname, n.texts
    loop
        select string_agg(format('new.%I', t), ', ') into own from unnest(each.times) t;
        seen := format('least(%s) < ''0001-01-01 00:00+00''', own)
            || format(' or greatest(%s) > ''9999-12-30 00:00+00''', own)
            || coalesce((
                select string_agg(
                    format(' or memoryd.is_blank(new.%1$I) and new.%1$I ~ ''\S''', t)
                        -- A message that only calls a tool says nothing.
                        || case when each.name = 'conversation_messages' and t = 'content'
                                then ' and new.metadata = ''{}''' else '' end, '')
                from unnest(each.texts) t), '');
        select string_agg(format('new.%I', t), ', ') into own from unnest(each.times || each.texts) t;
        execute format($s$
            create or replace trigger values_fit_insert before insert on public.%1$I
                for each row when (%2$s) execute function memoryd.refuse_values(%3$L, %4$L);
            create or replace trigger values_fit_update before update on public.%1$I
                for each row when ((%2$s) and (%5$s) is distinct from (%6$s))
                execute function memoryd.refuse_values(%3$L, %4$L)
            $s$, each.name, seen, each.times, each.texts, own, replace(own, 'new.', 'old.'));
    end loop;
end
$$;

-- Secret fields. Rows of the audit trail have none.
do $$
declare
    each record;
begin
    for each in
        select c.*, case when c.table_name = 'agent_execution_logs' then
                   'and new.action_type not in (''memory_read'', ''memory_write'', ''admin_read'')' end as but
        from memoryd.secret_columns() c
    loop
        execute format($s$
            create or replace trigger check_secrets_%2$s_insert before insert on public.%1$I
                for each row when (new.%2$I <> '{}' %3$s) execute function memoryd.check_secrets(%2$L);
            create or replace trigger check_secrets_%2$s_update before update on public.%1$I
                for each row when (new.%2$I <> '{}' and new.%2$I is distinct from old.%2$I)
                execute function memoryd.check_secrets(%2$L)
            $s$, each.table_name, each.column_name, each.but);
    end loop;
end
$$;

-- What users decide, and the audit trail.
do $$
declare
    each record;
begin
    for each in select u.* from memoryd.user_tables() u where u.dropped is not null loop
        execute format($s$
            create or replace trigger drop_when_off before insert on public.%1$I
                for each row %2$s execute function memoryd.drop_when_off()
            $s$, each.name, 'when (' || nullif(each.dropped, 'true') || ')');
    end loop;
    for each in select u.*, 'agent_id' = any(memoryd.own_columns(u.name)) as has_agent
                from memoryd.user_tables() u where u.audited is not null loop
        execute format($s$
            create or replace trigger audit_inserted after insert on public.%1$I
                referencing new table as changed
                for each statement execute function memoryd.audit_write(%2$s);
            create or replace trigger audit_updated after update on public.%1$I
                referencing old table as were new table as changed
                for each statement execute function memoryd.audit_write(%2$s);
            create or replace trigger audit_deleted after delete on public.%1$I
                referencing old table as changed
                for each statement execute function memoryd.audit_write(%2$s)
            $s$, each.name, format('%L, %L', each.has_agent, array_to_string(each.audited, ',')));
    end loop;
end
$$;

-- After statements, with the statement's rows in new_rows and old_rows; %s: inserted, updated or deleted. The
-- two tables of entries change places, so both have the same triggers, which do nothing in spare_entries.
do $$
declare
    all_three constant text[] := '{insert,update,delete}';
    each record;
begin
    for each in
        select v.relation, format(v.name, e.ending) as name, e.event, e.rows, format(v.call, e.ending) as call
        from (
            values
                ('memoryd.entries', 'count_lexemes_%s', all_three, 'count_lexemes()'),
                ('memoryd.entries', 'mirror_entries_%s', all_three, 'mirror_entries()'),
                ('memoryd.spare_entries', 'count_lexemes_%s', all_three, 'count_lexemes()'),
                ('memoryd.spare_entries', 'mirror_entries_%s', all_three, 'mirror_entries()'),
                ('public.agent_commands', 'commands_%s', '{insert,update}', 'commands_%s()'),
                ('public.agent_memory', 'memories_%s', all_three, 'memories_%s()'),
                ('public.agent_memory', 'memories_changed_%s', all_three, 'memories_changed()'),
                ('public.agent_memory', 'note_entries_%s', all_three, 'note_entries(''memory'')'),
                ('public.agent_memory', 'refuse_circles_%s', '{insert,update}', 'refuse_circles()'),
                ('public.agent_memory', 'seal_%s', '{delete}', 'seal_%s()'),
                ('public.conversation_messages', 'messages_%s', all_three, 'messages_%s()'),
                ('public.conversation_sessions', 'sessions_%s', '{update}', 'sessions_%s()'),
                ('public.documents', 'documents_%s', '{insert,update}', 'documents_%s()'),
                ('public.dream_insights', 'note_entries_%s', all_three, 'note_entries(''insight'')'),
                ('public.memory_anchors', 'anchors_%s', '{insert}', 'anchors_%s()'),
                ('public.memory_requests', 'requests_%s', '{insert,update}', 'requests_%s()'),
                ('public.shared_knowledge', 'knowledge_%s', '{delete}', 'knowledge_%s()'),
                ('public.shared_knowledge', 'note_entries_%s', all_three, 'note_entries(''knowledge'')'),
                ('public.shared_knowledge', 'score_decisions_%s', '{insert,update}', 'score_decisions()'),
                ('public.shared_knowledge', 'weigh_corrected_%s', all_three, 'weigh_corrected()')
            union all
            select 'public.' || s.table_name, 'rows_%s', all_three,
                   format('rows_%%s(%L, %L)', s.name, array_to_string(s.shown, ','))
            from memoryd.sources() s
        ) as v(relation, name, events, call)
        join (values ('insert', 'inserted', 'new table as new_rows'),
                     ('update', 'updated', 'old table as old_rows new table as new_rows'),
                     ('delete', 'deleted', 'old table as old_rows')) as e(event, ending, rows)
            on e.event = any(v.events)
    loop
        execute format($s$
            create or replace trigger %I after %s on %s referencing %s
                for each statement execute function memoryd.%s
            $s$, each.name, each.event, each.relation, each.rows, each.call);
    end loop;
end
$$;
