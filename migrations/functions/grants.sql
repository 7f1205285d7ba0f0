-- Who may call which function. Applied last, each time: what is not granted here is taken back.
--
-- Of schema memoryd nobody may call what is not named here: above all not the trigger functions, which run
-- as the owner, so that nobody hangs one of them on a table of their own. Where default privileges give
-- clients everything (Supabase), they lose it.
revoke all on all functions in schema memoryd from public, memoryd_service, memoryd_user, memoryd_admin;
revoke all on function
    public.claim_command, public.complete_command, public.mark_useful, public.build_context, public.recall,
    public.explain_recall, public.cleanup_expired_memory, public.extract_keywords, public.load_context, public.reset_session,
    public.touch_knowledge, public.expire_low_confidence, public.export_user_memory, public.erase_user_memory, public.forget,
    public.match_memory, public.search_shared_knowledge
    from public, memoryd_service, memoryd_user, memoryd_admin;
do $$
declare
    client name;
begin
    for client in select rolname from pg_roles where rolname in ('anon', 'authenticated') loop
        execute format('revoke all on all functions in schema memoryd from %I', client);
        execute format(
            'revoke all on function
                 public.claim_command, public.complete_command, public.mark_useful, public.build_context, public.recall,
                 public.explain_recall, public.cleanup_expired_memory, public.extract_keywords, public.load_context,
                 public.reset_session, public.touch_knowledge, public.expire_low_confidence, public.export_user_memory,
                 public.erase_user_memory, public.forget, public.match_memory, public.search_shared_knowledge
             from %I', client);
    end loop;
end
$$;

-- The service: all public functions.
grant execute on function
    public.claim_command, public.complete_command, public.mark_useful, public.build_context, public.recall,
    public.explain_recall, public.cleanup_expired_memory, public.extract_keywords, public.load_context, public.reset_session,
    public.touch_knowledge, public.expire_low_confidence, public.export_user_memory, public.erase_user_memory, public.forget,
    public.match_memory, public.search_shared_knowledge
    to memoryd_service;

-- End users: what answers from their own rows.
grant execute on function
    public.build_context, public.recall, public.explain_recall, public.extract_keywords, public.load_context,
    public.reset_session, public.match_memory, public.export_user_memory, public.erase_user_memory, public.forget
    to memoryd_user;

-- Support: what they search with finds what they may read, and is on record with it.
grant execute on function public.recall, public.explain_recall, public.load_context, public.extract_keywords to memoryd_admin;
grant execute on function memoryd.note_admin_read to memoryd_admin;

-- Checks of columns, and who calls.
grant execute on function
    memoryd.refuse, memoryd.refuse_unseen, memoryd.unseen, memoryd.is_plain, memoryd.agent_id_fits,
    memoryd.time_fits, memoryd.text_fits, memoryd.list_fits, memoryd.json_fits, memoryd.one_line,
    memoryd.caller_id, memoryd.caller_role, memoryd.caller_is_service, memoryd.caller_is_privileged, memoryd.current_caller,
    memoryd.memory_is_off, memoryd.note_read
    to memoryd_service, memoryd_user, memoryd_admin;

-- Asked by the policies for end users.
grant execute on function memoryd.caller_access, memoryd.grants_access, memoryd.owns_session, memoryd.is_open to memoryd_user;

-- What recall is made of, as far as it runs with the caller's rights.
grant execute on function
    memoryd.searched_text(public.agent_memory), memoryd.searched_text(public.conversation_messages),
    memoryd.searched_text(public.memory_chunks), memoryd.searched_text(public.shared_knowledge),
    memoryd.searched_text(public.dream_insights), memoryd.scope_of, memoryd.code_of, memoryd.lexemes_of, memoryd.sparse_index, memoryd.search_terms, memoryd.bm25,
    memoryd.weigh_text, memoryd.weigh_texts, memoryd.prior_of, memoryd.says_when, memoryd.kind_weight, memoryd.recency,
    memoryd.scopes_asked, memoryd.rows_in, memoryd.find_candidates, memoryd.linked_to, memoryd.is_asked_for,
    memoryd.by_source, memoryd.check_search, memoryd.candidate_rows, memoryd.show_rows, memoryd.hybrid_scores, memoryd.search
    to memoryd_service, memoryd_user, memoryd_admin;
grant execute on function memoryd.check_match to memoryd_service, memoryd_user;

-- What a context is made of.
grant execute on function
    memoryd.relevance, memoryd.best_memories, memoryd.score_memories, memoryd.insight_lines, memoryd.older_memories,
    memoryd.memory_lines, memoryd.compose_context
    to memoryd_service, memoryd_user;

-- What the daemon calls under a user's identity.
grant execute on function memoryd.answer to memoryd_user;
