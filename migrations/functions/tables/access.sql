-- Who may read and write which rows: the policies, and the rights to tables and columns. Rights to functions: see grants.sql.
-- To apply this file locks the tables, so it is applied only when it changed. The migrator drops the policies that it made before.

-- Supabase grants its clients everything by default, truncate too, which no policy stops.
revoke all on
    public.agents,
    public.agent_commands,
    public.agent_memory,
    public.memory_associations,
    public.memory_queries,
    public.dream_sessions,
    public.dream_insights,
    public.memory_requests,
    public.chat_groups,
    public.conversation_sessions,
    public.conversation_messages,
    public.documents,
    public.memory_chunks,
    public.user_memory_access,
    public.shared_knowledge,
    public.agent_sessions,
    public.agent_execution_logs,
    public.memory_anchors,
    public.memory_settings,
    public.shared_memory,
    public.conversation_history
    from public, memoryd_service, memoryd_user, memoryd_admin;
revoke all on all tables in schema memoryd from public;
revoke all on all sequences in schema memoryd from public;
do $$
declare
    client name;
begin
    for client in select rolname from pg_roles where rolname in ('anon', 'authenticated') loop
        execute format('revoke all on
    public.agents,
    public.agent_commands,
    public.agent_memory,
    public.memory_associations,
    public.memory_queries,
    public.dream_sessions,
    public.dream_insights,
    public.memory_requests,
    public.chat_groups,
    public.conversation_sessions,
    public.conversation_messages,
    public.documents,
    public.memory_chunks,
    public.user_memory_access,
    public.shared_knowledge,
    public.agent_sessions,
    public.agent_execution_logs,
    public.memory_anchors,
    public.memory_settings,
    public.shared_memory,
    public.conversation_history
    from %I', client);
        execute format('revoke all on all tables in schema memoryd from %I', client);
        execute format('revoke all on all sequences in schema memoryd from %I', client);
    end loop;
end
$$;

-- Of schema memoryd the views that recall reads with the caller's rights; the agents' knowledge is not for end users.
grant select on
    memoryd.source_memory, memoryd.source_conversation, memoryd.source_document, memoryd.source_insight,
    memoryd.searchable_by_users
    to memoryd_service, memoryd_user, memoryd_admin;
grant select on memoryd.source_knowledge, memoryd.searchable to memoryd_service, memoryd_admin;

-- The service: everything.
grant select, insert, update, delete on
    public.agents,
    public.agent_commands,
    public.agent_memory,
    public.memory_associations,
    public.memory_queries,
    public.dream_sessions,
    public.dream_insights,
    public.memory_requests,
    public.chat_groups,
    public.conversation_sessions,
    public.conversation_messages,
    public.documents,
    public.memory_chunks,
    public.user_memory_access,
    public.shared_knowledge,
    public.agent_sessions,
    public.agent_execution_logs,
    public.memory_anchors,
    public.memory_settings,
    public.shared_memory,
    public.conversation_history
    to memoryd_service;
create policy service on public.agents to memoryd_service using (true) with check (true);
create policy service on public.agent_commands to memoryd_service using (true) with check (true);
create policy service on public.agent_memory to memoryd_service using (true) with check (true);
create policy service on public.memory_associations to memoryd_service using (true) with check (true);
create policy service on public.memory_queries to memoryd_service using (true) with check (true);
create policy service on public.dream_sessions to memoryd_service using (true) with check (true);
create policy service on public.dream_insights to memoryd_service using (true) with check (true);
create policy service on public.memory_requests to memoryd_service using (true) with check (true);
create policy service on public.chat_groups to memoryd_service using (true) with check (true);
create policy service on public.conversation_sessions to memoryd_service using (true) with check (true);
create policy service on public.conversation_messages to memoryd_service using (true) with check (true);
create policy service on public.documents to memoryd_service using (true) with check (true);
create policy service on public.memory_chunks to memoryd_service using (true) with check (true);
create policy service on public.user_memory_access to memoryd_service using (true) with check (true);
create policy service on public.shared_knowledge to memoryd_service using (true) with check (true);
create policy service on public.agent_sessions to memoryd_service using (true) with check (true);
create policy service on public.agent_execution_logs to memoryd_service using (true) with check (true);
create policy service on public.memory_anchors to memoryd_service using (true) with check (true);
create policy service on public.memory_settings to memoryd_service using (true) with check (true);

-- End users: their own rows, nothing of anyone else's, nothing of the agents' own (user_id null).
create policy own on public.agent_memory to memoryd_user
    using (user_id = (select memoryd.caller_id())) with check (user_id = (select memoryd.caller_id()) and agent_id <> '_shared');
create policy own_read on public.agent_commands for select to memoryd_user using (user_id = (select memoryd.caller_id()));
-- A user asks for work; what came of it is the agents' word.
create policy own_ask on public.agent_commands for insert to memoryd_user
    with check (user_id = (select memoryd.caller_id()) and status = 'pending');
-- Of agents that are open to them. Restrictive: no other policy opens an agent by the way.
create policy open_agents on public.agent_commands as restrictive for insert to memoryd_user
    with check (memoryd.is_open(agent_id));
create policy own on public.memory_queries to memoryd_user
    using (user_id = (select memoryd.caller_id())) with check (user_id = (select memoryd.caller_id()));
create policy own_read on public.dream_insights for select to memoryd_user using (user_id = (select memoryd.caller_id()));
create policy own_read on public.memory_requests for select to memoryd_user using (user_id = (select memoryd.caller_id()));
create policy own_ask on public.memory_requests for insert to memoryd_user
    with check (user_id = (select memoryd.caller_id()) and kind <> 'dream' and status = 'pending' and result is null);
-- A link is as visible as both its ends.
create policy both_ends_read on public.memory_associations for select to memoryd_user
    using (exists (select from public.agent_memory m where m.id = memory_id)
       and exists (select from public.agent_memory m where m.id = related_memory_id));
-- Conversations: their own; and what others share with them, by level and tags. What is shared is shown as it was when it was
-- shared: its user may delete it, not put other words in its place. What an agent is told to be (system) is not for its users
-- to say.
create policy own on public.conversation_sessions to memoryd_user
    using (user_id = (select memoryd.caller_id())) with check (user_id = (select memoryd.caller_id()));
create policy own_read on public.conversation_messages for select to memoryd_user
    using (user_id = (select memoryd.caller_id()));
create policy own_delete on public.conversation_messages for delete to memoryd_user
    using (user_id = (select memoryd.caller_id()));
create policy own_insert on public.conversation_messages for insert to memoryd_user
    with check (user_id = (select memoryd.caller_id()) and role <> 'system' and memoryd.owns_session(session_id));
create policy own_update on public.conversation_messages for update to memoryd_user
    using (user_id = (select memoryd.caller_id()) and access_level is null and role <> 'system')
    with check (user_id = (select memoryd.caller_id()) and access_level is null and role <> 'system');
create policy shared_read on public.conversation_messages for select to memoryd_user
    using (access_level is not null
           and memoryd.grants_access((select memoryd.caller_access()), access_level, visibility_tags, metadata));
create policy in_it_read on public.chat_groups for select to memoryd_user
    using (exists (select from public.conversation_messages m where m.chat_id = chat_groups.id));
-- Documents: their own; of shared ones the chunks that they are granted.
create policy own_read on public.documents for select to memoryd_user using (user_id = (select memoryd.caller_id()));
create policy own_delete on public.documents for delete to memoryd_user using (user_id = (select memoryd.caller_id()));
create policy own_insert on public.documents for insert to memoryd_user with check (user_id = (select memoryd.caller_id()));
create policy own_update on public.documents for update to memoryd_user
    using (user_id = (select memoryd.caller_id())
           and not exists (select from public.memory_chunks c where c.document_id = documents.id and c.access_level is not null))
    with check (user_id = (select memoryd.caller_id()));
create policy own_read on public.memory_chunks for select to memoryd_user using (user_id = (select memoryd.caller_id()));
create policy own_delete on public.memory_chunks for delete to memoryd_user using (user_id = (select memoryd.caller_id()));
create policy own_insert on public.memory_chunks for insert to memoryd_user with check (user_id = (select memoryd.caller_id()));
create policy own_update on public.memory_chunks for update to memoryd_user
    using (user_id = (select memoryd.caller_id()) and access_level is null)
    with check (user_id = (select memoryd.caller_id()) and access_level is null);
create policy shared_read on public.memory_chunks for select to memoryd_user
    using (access_level is not null
           and memoryd.grants_access((select memoryd.caller_access()), access_level, visibility_tags, metadata));
create policy own_read on public.user_memory_access for select to memoryd_user
    using (user_id = (select memoryd.caller_id()));
-- Sessions: their own. The trail: what is about them; it is written by memoryd and by agents alone.
create policy own_read on public.agent_sessions for select to memoryd_user using (user_id = (select memoryd.caller_id()));
create policy own_insert on public.agent_sessions for insert to memoryd_user
    with check (user_id = (select memoryd.caller_id()));
create policy own_update on public.agent_sessions for update to memoryd_user
    using (user_id = (select memoryd.caller_id())) with check (user_id = (select memoryd.caller_id()));
create policy own_read on public.agent_execution_logs for select to memoryd_user
    using (user_id = (select memoryd.caller_id()));
create policy own_read on public.memory_anchors for select to memoryd_user
    using (exists (select from public.agent_memory m where m.id = memory_id));
-- User controls: what is decided about one's own memory, and what becomes of it.
create policy own on public.memory_settings to memoryd_user
    using (user_id = (select memoryd.caller_id())) with check (user_id = (select memoryd.caller_id()));

-- GRANTS
-- By column: a user sets no times and no command_id (a command is remembered once, and that by its agent), and does not read
-- a command's context, which holds what the agent knows, the agents' own memories among it.
-- Ids are not theirs to choose: by choosing one that is taken they would learn that it is, and one that
-- another waits for would be theirs first.
-- On no table have they INSERT, UPDATE, DELETE or TRUNCATE as a whole: with the last three LOCK TABLE is
-- allowed in every mode. They delete by forget(); the policies keep it to their own rows all the same, should
-- somebody grant DELETE again.
grant select on public.agent_memory to memoryd_user;
grant insert (agent_id, user_id, session_id, kind, memory_type, content, embedding, metadata, source,
              ttl_hours, expires_at),
    update (session_id, kind, memory_type, content, embedding, metadata, source, ttl_hours, expires_at)
    on public.agent_memory to memoryd_user;
grant select (id, agent_id, user_id, session_id, message, metadata, status, output, exit_code, error,
              created_at, ready_at, started_at, finished_at),
    insert (agent_id, user_id, session_id, message, metadata)
    on public.agent_commands to memoryd_user;
grant select, insert (kind, agent_id, user_id, query, options) on public.memory_requests to memoryd_user;
-- What was retrieved is judged by the service: who could write these rows could lock them, and with them another's erasure.
grant select,
    insert (agent_id, user_id, command_id, task_keywords, retrieved_memory_ids, relevance_scores)
    on public.memory_queries to memoryd_user;
grant select on public.memory_associations, public.dream_insights to memoryd_user;
grant select on public.shared_memory to memoryd_service, memoryd_user;
-- Nobody puts himself into a chat, or his words into what others are shown.
grant select, insert (user_id, agent_id, title, channel), update (title, channel)
    on public.conversation_sessions to memoryd_user;
grant select, insert (session_id, user_id, agent_id, message_index, role, speaker, content, metadata),
    update (role, speaker, content, metadata)
    on public.conversation_messages to memoryd_user;
grant select on public.chat_groups, public.conversation_history to memoryd_user;
grant select, insert (title, source, document_type, content, metadata, user_id),
    update (title, source, document_type, content, metadata)
    on public.documents to memoryd_user;
grant select, insert (document_id, chunk_index, chunk_text, context, metadata),
    update (chunk_index, chunk_text, context, metadata)
    on public.memory_chunks to memoryd_user;
grant select on public.user_memory_access to memoryd_user;
grant select,
    insert (user_id, agent_id, status, current_step, progress_percentage, total_steps, completed_steps,
            error_message, session_data),
    update (status, current_step, progress_percentage, total_steps, completed_steps, error_message, session_data)
    on public.agent_sessions to memoryd_user;
grant select on public.agent_execution_logs, public.memory_anchors to memoryd_user;
grant select,
    insert (user_id, memory_enabled, memory_ttl_hours, task_memory_ttl_hours, conversation_retention_minutes),
    update (memory_enabled, memory_ttl_hours, task_memory_ttl_hours, conversation_retention_minutes)
    on public.memory_settings to memoryd_user;
grant select on
    public.agents, public.agent_commands, public.agent_memory, public.memory_associations, public.memory_queries,
    public.dream_sessions, public.dream_insights, public.memory_requests, public.chat_groups, public.conversation_sessions,
    public.conversation_messages, public.documents, public.memory_chunks, public.user_memory_access, public.shared_knowledge,
    public.agent_sessions, public.agent_execution_logs, public.memory_anchors, public.memory_settings, public.shared_memory,
    public.conversation_history
    to memoryd_admin;

-- Support (memoryd_admin) reads everything and writes nothing. Each read of a user's rows is on record before the row is seen.
create policy admin_read on public.agent_commands for select to memoryd_admin
    using (memoryd.note_admin_read('agent_commands', user_id));
create policy admin_read on public.agent_memory for select to memoryd_admin
    using (memoryd.note_admin_read('agent_memory', user_id));
create policy admin_read on public.memory_queries for select to memoryd_admin
    using (memoryd.note_admin_read('memory_queries', user_id));
create policy admin_read on public.dream_insights for select to memoryd_admin
    using (memoryd.note_admin_read('dream_insights', user_id));
create policy admin_read on public.memory_requests for select to memoryd_admin
    using (memoryd.note_admin_read('memory_requests', user_id));
create policy admin_read on public.conversation_sessions for select to memoryd_admin
    using (memoryd.note_admin_read('conversation_sessions', user_id));
create policy admin_read on public.conversation_messages for select to memoryd_admin
    using (memoryd.note_admin_read('conversation_messages', user_id));
create policy admin_read on public.documents for select to memoryd_admin
    using (memoryd.note_admin_read('documents', user_id));
create policy admin_read on public.memory_chunks for select to memoryd_admin
    using (memoryd.note_admin_read('memory_chunks', user_id));
create policy admin_read on public.user_memory_access for select to memoryd_admin
    using (memoryd.note_admin_read('user_memory_access', user_id));
create policy admin_read on public.agent_sessions for select to memoryd_admin
    using (memoryd.note_admin_read('agent_sessions', user_id));
create policy admin_read on public.agent_execution_logs for select to memoryd_admin
    using (memoryd.note_admin_read('agent_execution_logs', user_id));
create policy admin_read on public.memory_settings for select to memoryd_admin
    using (memoryd.note_admin_read('memory_settings', user_id));
-- What has no user of its own is a memory's.
create policy admin_read on public.memory_associations for select to memoryd_admin
    using (memoryd.note_admin_read('memory_associations', (select m.user_id from public.agent_memory m where m.id = memory_id)));
create policy admin_read on public.memory_anchors for select to memoryd_admin
    using (memoryd.note_admin_read('memory_anchors', (select m.user_id from public.agent_memory m where m.id = memory_id)));
create policy admin_read on public.agents for select to memoryd_admin using (true);
create policy admin_read on public.dream_sessions for select to memoryd_admin using (true);
create policy admin_read on public.chat_groups for select to memoryd_admin using (true);
create policy admin_read on public.shared_knowledge for select to memoryd_admin using (true);
