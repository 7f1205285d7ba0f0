-- All triggers, by table. To apply this file locks the tables, so it is applied only when it has changed.
--
-- Those of a table are listed in the order in which Postgres fires them: first those that run before the
-- change, then those after it; and of these each in the order of their names. So a name decides what a
-- trigger finds. Where it matters:
--
--   agent_memory           stamp_expiry_... before stamp_memory: a user's own hours count from the change
--                          before this one.
--   conversation_messages  drop_when_off before place_message: a message that is dropped creates no session.
--   memory_chunks          assign_owner before drop_when_off: the chunk has the user of its document by then.
--
-- check_embedding and forget_embedding change nothing that the other triggers of their table read. Triggers
-- that run after the change queue jobs, index, count, log, notify, or carry the change on to other tables:
-- none reads what another wrote. But they also take locks: to rename one must not break the order of locks
-- in users/jobs.sql.

-- memoryd.dead_letters
create or replace trigger request_died after insert on memoryd.dead_letters
    for each row when (new.topic in ('request', 'user_data', 'dream'))
    execute function memoryd.request_died();

-- memoryd.embeddings
create or replace trigger drop_erased before insert on memoryd.embeddings
    for each row execute function memoryd.drop_erased();

-- memoryd.entries
create or replace trigger count_lexemes_deleted after delete on memoryd.entries
    referencing old table as old_rows for each statement execute function memoryd.count_lexemes();
create or replace trigger count_lexemes_inserted after insert on memoryd.entries
    referencing new table as new_rows for each statement execute function memoryd.count_lexemes();
create or replace trigger count_lexemes_updated after update on memoryd.entries
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.count_lexemes();
create or replace trigger mirror_entries_deleted after delete on memoryd.entries
    referencing old table as old_rows for each statement execute function memoryd.mirror_entries();
create or replace trigger mirror_entries_inserted after insert on memoryd.entries
    referencing new table as new_rows for each statement execute function memoryd.mirror_entries();
create or replace trigger mirror_entries_updated after update on memoryd.entries
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.mirror_entries();

-- memoryd.logins
create or replace trigger check_login before insert or update on memoryd.logins
    for each row execute function memoryd.check_login();

-- memoryd.spare_entries. The two tables change places, so both have the same triggers, which do nothing here.
create or replace trigger count_lexemes_deleted after delete on memoryd.spare_entries
    referencing old table as old_rows for each statement execute function memoryd.count_lexemes();
create or replace trigger count_lexemes_inserted after insert on memoryd.spare_entries
    referencing new table as new_rows for each statement execute function memoryd.count_lexemes();
create or replace trigger count_lexemes_updated after update on memoryd.spare_entries
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.count_lexemes();
create or replace trigger mirror_entries_deleted after delete on memoryd.spare_entries
    referencing old table as old_rows for each statement execute function memoryd.mirror_entries();
create or replace trigger mirror_entries_inserted after insert on memoryd.spare_entries
    referencing new table as new_rows for each statement execute function memoryd.mirror_entries();
create or replace trigger mirror_entries_updated after update on memoryd.spare_entries
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.mirror_entries();

-- public.agent_commands
create or replace trigger check_secrets_insert before insert on public.agent_commands
    for each row when (new.metadata <> '{}')
    execute function memoryd.check_secrets('metadata');
create or replace trigger check_secrets_update before update on public.agent_commands
    for each row when (new.metadata <> '{}' and new.metadata is distinct from old.metadata)
    execute function memoryd.check_secrets('metadata');
create or replace trigger stamp_times before insert or update on public.agent_commands
    for each row when ((new.status in ('completed', 'failed', 'cancelled') and new.finished_at is null)
                       or (new.status = 'running' and new.started_at is null))
    execute function memoryd.stamp_times();
create or replace trigger commands_inserted after insert on public.agent_commands
    referencing new table as new_rows
    for each statement execute function memoryd.commands_inserted();
create or replace trigger commands_updated after update on public.agent_commands
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.commands_updated();

-- public.agent_execution_logs
create or replace trigger check_secrets_in_insert before insert on public.agent_execution_logs
    for each row when (new.input_data is not null
                       and new.action_type not in ('memory_read', 'memory_write', 'admin_read'))
    execute function memoryd.check_secrets('input_data');
create or replace trigger check_secrets_in_update before update on public.agent_execution_logs
    for each row when (new.input_data is not null and new.input_data is distinct from old.input_data)
    execute function memoryd.check_secrets('input_data');
create or replace trigger check_secrets_out_insert before insert on public.agent_execution_logs
    for each row when (new.output_data is not null
                       and new.action_type not in ('memory_read', 'memory_write', 'admin_read'))
    execute function memoryd.check_secrets('output_data');
create or replace trigger check_secrets_out_update before update on public.agent_execution_logs
    for each row when (new.output_data is not null and new.output_data is distinct from old.output_data)
    execute function memoryd.check_secrets('output_data');
create or replace trigger drop_when_off before insert on public.agent_execution_logs
    for each row when (new.user_id is not null and new.action_type in ('memory_read', 'memory_write'))
    execute function memoryd.drop_when_off();

-- public.agent_memory
create or replace trigger assign_agent before insert on public.agent_memory
    for each row when (new.agent_id is null)
    execute function memoryd.assign_agent();
create or replace trigger check_embedding before insert or update on public.agent_memory
    for each row when (new.embedding is not null)
    execute function memoryd.check_embedding('embedding', 'memory');
create or replace trigger check_metadata_insert before insert on public.agent_memory
    for each row when (new.metadata <> '{}' and new.memory_type is not null
                       and new.source is distinct from 'conversation')
    execute function memoryd.check_metadata();
create or replace trigger check_metadata_update before update on public.agent_memory
    for each row when (new.metadata <> '{}' and new.memory_type is not null
                       and new.source is distinct from 'conversation'
                       and (new.metadata, new.memory_type) is distinct from (old.metadata, old.memory_type))
    execute function memoryd.check_metadata();
create or replace trigger check_secrets_insert before insert on public.agent_memory
    for each row when (new.metadata <> '{}')
    execute function memoryd.check_secrets('metadata');
create or replace trigger check_secrets_update before update on public.agent_memory
    for each row when (new.metadata <> '{}' and new.metadata is distinct from old.metadata)
    execute function memoryd.check_secrets('metadata');
create or replace trigger check_superseded_insert before insert on public.agent_memory
    for each row when (new.superseded_by is not null)
    execute function memoryd.check_superseded();
create or replace trigger check_superseded_update before update on public.agent_memory
    for each row when (new.superseded_by is not null
                       and (new.superseded_by, new.user_id) is distinct from (old.superseded_by, old.user_id))
    execute function memoryd.check_superseded();
create or replace trigger forget_embedding before update on public.agent_memory
    for each row when (new.content is distinct from old.content)
    execute function memoryd.forget_embedding('embedding');
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
create or replace trigger stamp_memory before update on public.agent_memory
    for each row when ((new.agent_id, new.user_id, new.session_id, new.kind, new.memory_type, new.content,
                        new.metadata, new.source, new.valid_from, new.valid_to, new.superseded_by)
                       is distinct from
                       (old.agent_id, old.user_id, old.session_id, old.kind, old.memory_type, old.content,
                        old.metadata, old.source, old.valid_from, old.valid_to, old.superseded_by)
                       or (pg_trigger_depth() = 0
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
create or replace trigger memories_changed_delete after delete on public.agent_memory
    referencing old table as old_rows
    for each statement execute function memoryd.memories_changed();
create or replace trigger memories_changed_insert after insert on public.agent_memory
    referencing new table as new_rows
    for each statement execute function memoryd.memories_changed();
create or replace trigger memories_changed_update after update on public.agent_memory
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.memories_changed();
create or replace trigger memories_deleted after delete on public.agent_memory
    referencing old table as old_rows
    for each statement execute function memoryd.memories_deleted();
create or replace trigger memories_inserted after insert on public.agent_memory
    referencing new table as new_rows
    for each statement execute function memoryd.memories_inserted();
create or replace trigger memories_updated after update on public.agent_memory
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.memories_updated();
create or replace trigger note_deleted after delete on public.agent_memory
    referencing old table as changed for each statement execute function memoryd.note_write();
create or replace trigger note_entries_deleted after delete on public.agent_memory
    referencing old table as old_rows for each statement execute function memoryd.note_entries('memory');
create or replace trigger note_entries_inserted after insert on public.agent_memory
    referencing new table as new_rows for each statement execute function memoryd.note_entries('memory');
create or replace trigger note_entries_updated after update on public.agent_memory
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.note_entries('memory');
create or replace trigger note_inserted after insert on public.agent_memory
    referencing new table as changed for each statement execute function memoryd.note_write();
create or replace trigger note_updated after update on public.agent_memory
    referencing old table as were new table as changed
    for each statement execute function memoryd.note_write();
create or replace trigger rows_deleted after delete on public.agent_memory
    referencing old table as old_rows for each statement execute function memoryd.rows_deleted('memory');
create or replace trigger rows_inserted after insert on public.agent_memory
    referencing new table as new_rows for each statement execute function memoryd.rows_inserted('memory');
create or replace trigger rows_updated after update on public.agent_memory
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.rows_updated('memory');
create or replace trigger seal_deleted after delete on public.agent_memory
    referencing old table as old_rows for each statement execute function memoryd.seal_deleted();

-- public.agent_sessions
create or replace trigger check_secrets_insert before insert on public.agent_sessions
    for each row when (new.session_data <> '{}')
    execute function memoryd.check_secrets('session_data');
create or replace trigger check_secrets_update before update on public.agent_sessions
    for each row when (new.session_data <> '{}' and new.session_data is distinct from old.session_data)
    execute function memoryd.check_secrets('session_data');
create or replace trigger stamp_session before insert or update on public.agent_sessions
    for each row execute function memoryd.stamp_session();

-- public.agents
create or replace trigger agent_disabled after update on public.agents
    for each row when (old.enabled and not new.enabled)
    execute function memoryd.agent_disabled();

-- public.chat_groups
create or replace trigger check_secrets_insert before insert on public.chat_groups
    for each row when (new.group_metadata <> '{}')
    execute function memoryd.check_secrets('group_metadata');
create or replace trigger check_secrets_update before update on public.chat_groups
    for each row when (new.group_metadata <> '{}' and new.group_metadata is distinct from old.group_metadata)
    execute function memoryd.check_secrets('group_metadata');

-- public.conversation_history
create or replace trigger turn_inserted instead of insert on public.conversation_history
    for each row execute function memoryd.turn_inserted();

-- public.conversation_messages
create or replace trigger check_embedding before insert or update on public.conversation_messages
    for each row when (new.embedding is not null)
    execute function memoryd.check_embedding('embedding', 'conversation');
create or replace trigger check_secrets_insert before insert on public.conversation_messages
    for each row when (new.metadata <> '{}')
    execute function memoryd.check_secrets('metadata');
create or replace trigger check_secrets_update before update on public.conversation_messages
    for each row when (new.metadata <> '{}' and new.metadata is distinct from old.metadata)
    execute function memoryd.check_secrets('metadata');
create or replace trigger drop_when_off before insert on public.conversation_messages
    for each row execute function memoryd.drop_when_off();
create or replace trigger forget_embedding before update on public.conversation_messages
    for each row when (new.content is distinct from old.content)
    execute function memoryd.forget_embedding('embedding');
create or replace trigger keep_speaker before update on public.conversation_messages
    for each row when (old.chat_id is not null
                       and (new.role, new.speaker) is distinct from (old.role, old.speaker))
    execute function memoryd.keep_speaker();
create or replace trigger place_message before insert on public.conversation_messages
    for each row execute function memoryd.place_message();
create or replace trigger messages_deleted after delete on public.conversation_messages
    referencing old table as old_rows
    for each statement execute function memoryd.messages_deleted();
create or replace trigger messages_inserted after insert on public.conversation_messages
    referencing new table as new_rows
    for each statement execute function memoryd.messages_inserted();
create or replace trigger messages_updated after update on public.conversation_messages
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.messages_updated();
create or replace trigger note_deleted after delete on public.conversation_messages
    referencing old table as changed for each statement execute function memoryd.note_write();
create or replace trigger note_inserted after insert on public.conversation_messages
    referencing new table as changed for each statement execute function memoryd.note_write();
create or replace trigger note_updated after update on public.conversation_messages
    referencing old table as were new table as changed
    for each statement execute function memoryd.note_write();
create or replace trigger rows_deleted after delete on public.conversation_messages
    referencing old table as old_rows
    for each statement execute function memoryd.rows_deleted('conversation');
create or replace trigger rows_inserted after insert on public.conversation_messages
    referencing new table as new_rows
    for each statement execute function memoryd.rows_inserted('conversation');
create or replace trigger rows_updated after update on public.conversation_messages
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.rows_updated('conversation');

-- public.conversation_sessions
create or replace trigger sessions_updated after update on public.conversation_sessions
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.sessions_updated();

-- public.documents
create or replace trigger check_secrets_insert before insert on public.documents
    for each row when (new.metadata <> '{}')
    execute function memoryd.check_secrets('metadata');
create or replace trigger check_secrets_update before update on public.documents
    for each row when (new.metadata <> '{}' and new.metadata is distinct from old.metadata)
    execute function memoryd.check_secrets('metadata');
create or replace trigger drop_when_off before insert on public.documents
    for each row when (new.user_id is not null) execute function memoryd.drop_when_off();
create or replace trigger stamp_document before insert or update on public.documents
    for each row execute function memoryd.stamp_document();
create or replace trigger stamp_updated_at before update on public.documents
    for each row execute function memoryd.stamp_updated_at();
create or replace trigger documents_inserted after insert on public.documents
    referencing new table as new_rows for each statement execute function memoryd.documents_inserted();
create or replace trigger documents_updated after update on public.documents
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.documents_updated();
create or replace trigger note_deleted after delete on public.documents
    referencing old table as changed for each statement execute function memoryd.note_write();
create or replace trigger note_inserted after insert on public.documents
    referencing new table as changed for each statement execute function memoryd.note_write();
create or replace trigger note_updated after update on public.documents
    referencing old table as were new table as changed
    for each statement execute function memoryd.note_write();
create or replace trigger wake_replica after insert or update or delete on public.documents
    for each statement execute function memoryd.wake_replica();

-- public.dream_insights
create or replace trigger check_embedding before insert or update on public.dream_insights
    for each row when (new.embedding is not null)
    execute function memoryd.check_embedding('embedding', 'insight');
create or replace trigger drop_dreamt before insert on public.dream_insights
    for each row when (new.user_id is not null and new.dream_id is not null)
    execute function memoryd.drop_dreamt();
create or replace trigger drop_when_off before insert on public.dream_insights
    for each row when (new.user_id is not null) execute function memoryd.drop_when_off();
create or replace trigger forget_embedding before update on public.dream_insights
    for each row when (new.insight is distinct from old.insight)
    execute function memoryd.forget_embedding('embedding');
create or replace trigger note_entries_deleted after delete on public.dream_insights
    referencing old table as old_rows for each statement execute function memoryd.note_entries('insight');
create or replace trigger note_entries_inserted after insert on public.dream_insights
    referencing new table as new_rows for each statement execute function memoryd.note_entries('insight');
create or replace trigger note_entries_updated after update on public.dream_insights
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.note_entries('insight');
create or replace trigger rows_deleted after delete on public.dream_insights
    referencing old table as old_rows for each statement execute function memoryd.rows_deleted('insight');
create or replace trigger rows_inserted after insert on public.dream_insights
    referencing new table as new_rows for each statement execute function memoryd.rows_inserted('insight');
create or replace trigger rows_updated after update on public.dream_insights
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.rows_updated('insight');

-- public.memory_anchors
create or replace trigger complete_anchor before insert on public.memory_anchors
    for each row execute function memoryd.complete_anchor();
create or replace trigger anchors_inserted after insert on public.memory_anchors
    referencing new table as new_rows
    for each statement execute function memoryd.anchors_inserted();

-- public.memory_associations
-- Its strength is computed: it rises by use, and fades.
create or replace trigger stamp_updated_at before update on public.memory_associations
    for each row when ((new.memory_id, new.related_memory_id, new.association_type)
                       is distinct from (old.memory_id, old.related_memory_id, old.association_type))
    execute function memoryd.stamp_updated_at();

-- public.memory_chunks
create or replace trigger assign_owner before insert or update of document_id, user_id on public.memory_chunks
    for each row execute function memoryd.assign_chunk_owner();
create or replace trigger check_embedding before insert or update on public.memory_chunks
    for each row when (new.dense_embedding is not null)
    execute function memoryd.check_embedding('dense_embedding', 'document');
create or replace trigger check_secrets_insert before insert on public.memory_chunks
    for each row when (new.metadata <> '{}')
    execute function memoryd.check_secrets('metadata');
create or replace trigger check_secrets_update before update on public.memory_chunks
    for each row when (new.metadata <> '{}' and new.metadata is distinct from old.metadata)
    execute function memoryd.check_secrets('metadata');
create or replace trigger drop_when_off before insert on public.memory_chunks
    for each row execute function memoryd.drop_when_off();
create or replace trigger forget_embedding before update on public.memory_chunks
    for each row when ((new.chunk_text, new.context) is distinct from (old.chunk_text, old.context))
    execute function memoryd.forget_embedding('dense_embedding');
create or replace trigger rows_deleted after delete on public.memory_chunks
    referencing old table as old_rows for each statement execute function memoryd.rows_deleted('document');
create or replace trigger rows_inserted after insert on public.memory_chunks
    referencing new table as new_rows for each statement execute function memoryd.rows_inserted('document');
create or replace trigger rows_updated after update on public.memory_chunks
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.rows_updated('document');

-- public.memory_queries
create or replace trigger drop_when_off before insert on public.memory_queries
    for each row when (new.user_id is not null) execute function memoryd.drop_when_off();
create or replace trigger keep_own_retrieved before insert on public.memory_queries
    for each row when ((new.retrieved_memory_ids <> '{}' or new.insight_ids <> '{}')
                       and not memoryd.caller_is_privileged())
    execute function memoryd.keep_own_retrieved();

-- public.memory_requests
create or replace trigger answers_written_insert after insert on public.memory_requests
    referencing new table as new_rows for each statement execute function memoryd.answers_written();
create or replace trigger answers_written_update after update on public.memory_requests
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.answers_written();
create or replace trigger requests_inserted after insert on public.memory_requests
    referencing new table as new_rows
    for each statement execute function memoryd.requests_inserted();
create or replace trigger requests_updated after update on public.memory_requests
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.requests_updated();

-- public.memory_settings
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

-- public.shared_knowledge
create or replace trigger check_embedding before insert or update on public.shared_knowledge
    for each row when (new.embedding is not null)
    execute function memoryd.check_embedding('embedding', 'knowledge');
create or replace trigger forget_embedding before update on public.shared_knowledge
    for each row when ((new.title, new.content, new.tags) is distinct from (old.title, old.content, old.tags))
    execute function memoryd.forget_embedding('embedding');
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
create or replace trigger score_knowledge before insert on public.shared_knowledge
    for each row when (new.surprise_score is null) execute function memoryd.score_knowledge();
create or replace trigger score_decisions_inserted after insert on public.shared_knowledge
    referencing new table as new_rows for each statement execute function memoryd.score_decisions();
create or replace trigger score_decisions_updated after update on public.shared_knowledge
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.score_decisions();
create or replace trigger weigh_corrected_inserted after insert on public.shared_knowledge
    referencing new table as new_rows for each statement execute function memoryd.weigh_corrected();
create or replace trigger weigh_corrected_updated after update on public.shared_knowledge
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.weigh_corrected();
create or replace trigger weigh_corrected_deleted after delete on public.shared_knowledge
    referencing old table as old_rows for each statement execute function memoryd.weigh_corrected();
create or replace trigger note_entries_deleted after delete on public.shared_knowledge
    referencing old table as old_rows for each statement execute function memoryd.note_entries('knowledge');
create or replace trigger note_entries_inserted after insert on public.shared_knowledge
    referencing new table as new_rows for each statement execute function memoryd.note_entries('knowledge');
create or replace trigger note_entries_updated after update on public.shared_knowledge
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.note_entries('knowledge');
create or replace trigger rows_deleted after delete on public.shared_knowledge
    referencing old table as old_rows for each statement execute function memoryd.rows_deleted('knowledge');
create or replace trigger rows_inserted after insert on public.shared_knowledge
    referencing new table as new_rows for each statement execute function memoryd.rows_inserted('knowledge');
create or replace trigger rows_updated after update on public.shared_knowledge
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.rows_updated('knowledge');

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
create or replace trigger knowledge_deleted after delete on public.shared_knowledge
    referencing old table as old_rows for each statement execute function memoryd.knowledge_deleted();

-- public.user_memory_access
create or replace trigger stamp_updated_at before update on public.user_memory_access
    for each row execute function memoryd.stamp_updated_at();
