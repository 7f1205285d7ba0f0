-- Who may call which function. Applied last, each time: a right that is not granted here is revoked.
--
-- Clients can call no function of the schema memoryd that is not named here. Above all not the trigger
-- functions: these run with the owner's rights, so no client may attach one to a table of its own. Where
-- default privileges give clients rights to all functions (Supabase: anon, authenticated), these are
-- revoked, too. Of the public functions the service may call all.
do $$
declare
    public_functions constant text :=
        'public.build_context, public.claim_command, public.cleanup_expired_memory, public.complete_command, '
        'public.erase_user_memory, public.expire_low_confidence, public.explain_recall, '
        'public.export_user_memory, public.extract_keywords, public.forget, public.index_state, '
        'public.load_context, '
        'public.mark_useful, public.match_memory, '
        'public.recall, '
        'public.recall_above, '
        'public.recall_in_context, public.recall_with, public.last_recall, '
        'public.reset_session, '
        'public.search_shared_knowledge, public.touch_knowledge';
    client text;
begin
    for client in
        select 'public'
        union all
        select quote_ident(r.rolname) from pg_roles r
        where r.rolname in ('memoryd_service', 'memoryd_user', 'memoryd_admin', 'anon', 'authenticated')
    loop
        execute format('revoke all on all functions in schema memoryd from %s', client);
        execute format('revoke all on function %s from %s', public_functions, client);
    end loop;
    execute format('grant execute on function %s to memoryd_service', public_functions);
end
$$;

-- End users: functions that answer from the caller's own rows, or change only these.
grant execute on function
    public.build_context, public.recall,
    public.recall_above,
    public.recall_in_context, public.recall_with, public.explain_recall,
    public.extract_keywords, public.load_context, public.reset_session, public.match_memory,
    public.export_user_memory, public.erase_user_memory, public.forget, public.index_state
    to memoryd_user;

-- Support: functions that find only what support may read. Each of these reads is put on record.
grant execute on function
    public.recall,
    public.recall_above,
    public.recall_in_context, public.recall_with, public.explain_recall, public.load_context,
    public.extract_keywords, public.index_state,
    memoryd.note_admin_read
    to memoryd_admin;

-- Checks of columns, and who calls.
grant execute on function
    memoryd.refuse, memoryd.refuse_unseen, memoryd.unseen, memoryd.is_plain, memoryd.agent_id_fits,
    memoryd.time_fits, memoryd.text_fits, memoryd.list_fits, memoryd.json_fits, memoryd.one_line,
    memoryd.caller_id, memoryd.caller_role, memoryd.caller_is_service, memoryd.caller_is_privileged,
    memoryd.current_caller, memoryd.memory_is_off, memoryd.note_read, memoryd.ms_since,
    memoryd.current_context, memoryd.in_context, memoryd.drawn_in_context,
    memoryd.enter_context
    to memoryd_service, memoryd_user, memoryd_admin;

-- What the policies for end users call.
grant execute on function
    memoryd.caller_access, memoryd.grants_access, memoryd.owns_session, memoryd.is_open
    to memoryd_user;

-- The functions of recall that run with the caller's rights, and the few that do not and check who calls.
grant execute on function
    memoryd.searched_text(public.agent_memory), memoryd.searched_text(public.conversation_messages),
    memoryd.searched_text(public.memory_chunks), memoryd.searched_text(public.shared_knowledge),
    memoryd.searched_text(public.dream_insights),
    memoryd.text_hash(public.agent_memory), memoryd.text_hash(public.conversation_messages),
    memoryd.text_hash(public.memory_chunks), memoryd.text_hash(public.shared_knowledge),
    memoryd.text_hash(public.dream_insights),
    memoryd.sources, memoryd.states_of, memoryd.scope_of, memoryd.kind_weight, memoryd.recency,
    memoryd.dimensions, memoryd.searched_dimensions, memoryd.comparable,
    memoryd.asks_unowned, memoryd.group_scope, memoryd.rows_in, memoryd.find,
    memoryd.linked_to, memoryd.is_asked_for,
    memoryd.by_source, memoryd.check_search, memoryd.show_rows, memoryd.keyword_part,
    memoryd.row_keyword_part, memoryd.association, memoryd.linked_rows, memoryd.search,
    memoryd.embed, memoryd.embed_question, memoryd.row_in_context, memoryd.search_in_context,
    memoryd.check_min_score, memoryd.shown_metadata, memoryd.document_of_chunk, memoryd.meets,
    memoryd.nearest_name, memoryd.known_options, memoryd.option_fits, memoryd.option_hint,
    memoryd.fault_of_options, memoryd.conditions_of, memoryd.pieces_of, memoryd.line_of_message,
    memoryd.show_pieces, memoryd.search_with, memoryd.log_recall, memoryd.search_and_log
    to memoryd_service, memoryd_user, memoryd_admin;
grant execute on function memoryd.check_match, memoryd.nearest_in_scope, memoryd.embedding_to_match
    to memoryd_service, memoryd_user;

-- The functions of contexts that run with the caller's rights.
grant execute on function
    memoryd.candidate_memories, memoryd.relevance, memoryd.similarities, memoryd.scopes_of,
    memoryd.best_memories, memoryd.score_memories, memoryd.insight_lines, memoryd.older_memories,
    memoryd.memory_lines, memoryd.compose_context
    to memoryd_service, memoryd_user;

-- What the daemon calls with a user's identity.
grant execute on function memoryd.answer to memoryd_user;
