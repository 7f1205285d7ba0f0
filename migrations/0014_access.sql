-- Who may do what: row-level security on, and forced, for every table of schema public; the roles' grants.

-- What runs as the owner looks for functions in these schemas too: who may create there could put theirs in the way.
do $$
declare
    place text;
begin
    foreach place in array array['public', ':vector_schema'] loop
        if has_schema_privilege('memoryd_user', place::regnamespace, 'create') then
            raise exception 'end users may create objects in schema %, and so put theirs before memoryd''s. Run first: revoke create on schema % from public', place, place
                using errcode = 'invalid_schema_definition';
        end if;
    end loop;
end
$$;

do $$
declare
    our_tables constant text[] := array[
        'agents', 'agent_commands', 'agent_memory', 'memory_associations', 'memory_queries', 'dream_sessions', 'dream_insights',
        'memory_requests', 'chat_groups', 'conversation_sessions', 'conversation_messages', 'documents', 'memory_chunks',
        'user_memory_access', 'shared_knowledge', 'agent_sessions', 'agent_execution_logs', 'memory_anchors',
        'memory_settings'];
    our_views constant text[] := array['shared_memory', 'conversation_history'];
    our_functions constant text[] := array[
        'claim_command', 'complete_command', 'mark_useful', 'build_context', 'recall', 'explain_recall', 'cleanup_expired_memory',
        'extract_keywords', 'load_context', 'reset_session', 'touch_knowledge', 'expire_low_confidence',
        'export_user_memory', 'erase_user_memory', 'forget'];
    -- Supabase grants its clients everything by default, truncate too, which no policy stops.
    strangers text := 'public';
    each text;
begin
    select strangers || coalesce(string_agg(format(', %I', rolname), ''), '') into strangers
    from pg_roles where rolname in ('anon', 'authenticated');

    foreach each in array our_tables || our_views loop
        execute format('revoke all on public.%I from %s', each, strangers);
        execute format('grant select, insert, update, delete on public.%I to memoryd_service', each);
    end loop;
    foreach each in array our_tables loop
        execute format('alter table public.%I enable row level security', each);
        execute format('alter table public.%I force row level security', each);
        execute format('create policy service on public.%I to memoryd_service using (true) with check (true)', each);
    end loop;
    -- Above all the trigger functions, which run as the owner: nobody may hang one of them on a table of his own.
    execute format('revoke all on all functions in schema memoryd from %s', strangers);
    foreach each in array our_functions loop
        execute format('revoke all on function public.%I from %s', each, strangers);
        execute format('grant execute on function public.%I to memoryd_service', each);
    end loop;
end
$$;

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
-- Nobody puts himself into a chat, or his words into what others are shown.
grant select, insert (user_id, agent_id, title, channel), update (title, channel)
    on public.conversation_sessions to memoryd_user;
grant select, insert (session_id, user_id, agent_id, message_index, role, speaker, content, metadata),
    update (role, speaker, content, metadata)
    on public.conversation_messages to memoryd_user;
grant select on public.chat_groups, public.conversation_history to memoryd_user;

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
grant select, insert (title, source, document_type, content, metadata, user_id),
    update (title, source, document_type, content, metadata)
    on public.documents to memoryd_user;
grant select, insert (document_id, chunk_index, chunk_text, context, metadata),
    update (chunk_index, chunk_text, context, metadata)
    on public.memory_chunks to memoryd_user;
grant select on public.user_memory_access to memoryd_user;

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
grant select,
    insert (user_id, agent_id, status, current_step, progress_percentage, total_steps, completed_steps,
            error_message, session_data),
    update (status, current_step, progress_percentage, total_steps, completed_steps, error_message, session_data)
    on public.agent_sessions to memoryd_user;
grant select on public.agent_execution_logs, public.memory_anchors to memoryd_user;

grant execute on function public.build_context, public.recall, public.explain_recall, public.extract_keywords, public.load_context,
    public.reset_session to memoryd_user;
grant execute on function memoryd.caller_access, memoryd.grants_access, memoryd.owns_session, memoryd.is_open
    to memoryd_user;
grant execute on function memoryd.relevance, memoryd.kind_weight, memoryd.recency, memoryd.score_memories,
    memoryd.compose_context to memoryd_service, memoryd_user;
-- What recall is made of.
grant execute on function memoryd.scope_of, memoryd.code_of, memoryd.lexemes_of, memoryd.sparse_index, memoryd.search_terms,
    memoryd.bm25, memoryd.weigh_text, memoryd.weigh_texts, memoryd.prior_of, memoryd.says_when, memoryd.question,
    memoryd.scopes_asked, memoryd.scopes_open, memoryd.caller_serves, memoryd.caller_is_service, memoryd.caller_role,
    memoryd.search, memoryd.rows_in, memoryd.kind_weight, memoryd.recency,
    memoryd.candidates_memory, memoryd.candidates_conversation, memoryd.candidates_document, memoryd.candidates_knowledge,
    memoryd.candidates_insight,
    memoryd.find_memory, memoryd.find_conversation, memoryd.find_document, memoryd.find_knowledge, memoryd.find_insight,
    memoryd.show_memory, memoryd.show_conversation, memoryd.show_document, memoryd.show_knowledge, memoryd.show_insight
    to memoryd_service, memoryd_user, memoryd_admin;

-- User controls: what is decided about one's own memory, and what becomes of it.
create policy own on public.memory_settings to memoryd_user
    using (user_id = (select memoryd.caller_id())) with check (user_id = (select memoryd.caller_id()));
grant select,
    insert (user_id, memory_enabled, memory_ttl_hours, task_memory_ttl_hours, conversation_retention_minutes),
    update (memory_enabled, memory_ttl_hours, task_memory_ttl_hours, conversation_retention_minutes)
    on public.memory_settings to memoryd_user;
grant execute on function public.export_user_memory, public.erase_user_memory, public.forget, memoryd.answer
    to memoryd_user;
grant execute on function memoryd.memory_is_off, memoryd.note_read to memoryd_service, memoryd_user, memoryd_admin;

-- Support reads everything and writes nothing; each read of a user's rows is on record before the row is seen.
do $$
declare
    each text;
begin
    foreach each in array array[
        'agent_commands', 'agent_memory', 'memory_queries', 'dream_insights', 'memory_requests', 'conversation_sessions',
        'conversation_messages', 'documents', 'memory_chunks', 'user_memory_access', 'agent_sessions', 'agent_execution_logs',
        'memory_settings'] loop
        execute format('create policy admin_read on public.%I for select to memoryd_admin
                            using (memoryd.note_admin_read(%L, user_id))', each, each);
    end loop;
    -- What has no user of its own is a memory's.
    foreach each in array array['memory_associations', 'memory_anchors'] loop
        execute format('create policy admin_read on public.%I for select to memoryd_admin
                            using (memoryd.note_admin_read(%L, (select m.user_id from public.agent_memory m where m.id = memory_id)))',
                       each, each);
    end loop;
    foreach each in array array['agents', 'dream_sessions', 'chat_groups', 'shared_knowledge'] loop
        execute format('create policy admin_read on public.%I for select to memoryd_admin using (true)', each);
    end loop;
end
$$;
grant select on
    public.agents, public.agent_commands, public.agent_memory, public.memory_associations, public.memory_queries,
    public.dream_sessions, public.dream_insights, public.memory_requests, public.chat_groups, public.conversation_sessions,
    public.conversation_messages, public.documents, public.memory_chunks, public.user_memory_access, public.shared_knowledge,
    public.agent_sessions, public.agent_execution_logs, public.memory_anchors, public.memory_settings, public.shared_memory,
    public.conversation_history
    to memoryd_admin;
grant execute on function memoryd.note_admin_read to memoryd_admin;
-- What they search with finds what they may read, and is on record with it.
grant execute on function public.recall, public.explain_recall, public.load_context, public.extract_keywords to memoryd_admin;
