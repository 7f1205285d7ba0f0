-- Who may call which function. Applied last, each time: a right that is not granted here is revoked.
--
-- Clients can call no function of the schema memoryd that is not named here. Above all not the trigger
-- functions: these run with the owner's rights, so no client may attach one to a table of its own. Where
-- default privileges give clients rights to all functions (Supabase: anon, authenticated), these are
-- revoked, too.
--
-- In schema public somebody may have functions of the same names. Memoryd's own are those that its files are
-- noted to have made, and one of a numbered file; each is named with its arguments.
do $$
declare
    ours constant oid[] := array(
        select to_regprocedure(substr(o.object, 10))::oid
        from memoryd.function_files f cross join unnest(f.objects) as o(object)
        where o.object like 'function public.%') || 'public.extract_keywords(text)'::regprocedure::oid;
    public_functions constant text := (
        select string_agg(o.oid::regprocedure::text, ', ') from unnest(ours) as o(oid));
    clients constant text := (
        select 'public, ' || string_agg(quote_ident(r.rolname), ', ') from pg_roles r
        where r.rolname in ('memoryd_service', 'memoryd_user', 'memoryd_admin', 'anon', 'authenticated'));
    each record;
begin
    execute 'revoke all on all functions in schema memoryd from ' || clients;
    execute format('revoke all on function %s from %s', public_functions, clients);
    -- Of the public functions the service may call all.
    execute format('grant execute on function %s to memoryd_service', public_functions);
    for each in
        select g.roles, n.name,
               (select string_agg(p.oid::regprocedure::text, ', ')
                from pg_proc p
                where p.pronamespace = (parse_ident(n.name))[1]::regnamespace
                  and p.proname = (parse_ident(n.name))[2]
                  and (p.pronamespace = 'memoryd'::regnamespace or p.oid = any(ours))) as functions
        from (values
            -- End users: functions that answer from the caller's own rows, or change only these.
            ('memoryd_user',
            'public."agent-memory-read", public."agent-memory-write", public.ask_memory, public.build_context,
             public.classify_message, public.explain_context, public.recall, public.explain_recall,
             public.extract_keywords, public.load_context, public.reset_session, public.match_memory,
             public.export_user_memory, public.erase_user_memory, public.forget, public.index_state,
             public.last_recall, public.mark_useful, public.remember, public.memory_as_of,
             public.names_said, public.search_keys, public.secrets_key, public.supersede_memory'),
            -- Support: functions that find only what support may read. Each of these reads is put on
            -- record.
            ('memoryd_admin',
            'public.recall, public.explain_recall, public.load_context, public.extract_keywords,
             public.index_state, public.memory_as_of, memoryd.audit_admin_read, memoryd.audit_admin_anchor,
             memoryd.audit_admin_memories, memoryd.audit_admin_knowledge, memoryd.audit_admin_names'),
            -- Checks of columns, and who calls.
            ('memoryd_service, memoryd_user, memoryd_admin',
            'memoryd.refuse, memoryd.refuse_unseen, memoryd.unseen, memoryd.is_plain, memoryd.is_blank,
             memoryd.agent_id_fits,
             memoryd.time_fits, memoryd.text_fits, memoryd.list_fits, memoryd.json_fits, memoryd.is_whole,
             memoryd.one_line, memoryd.nfkc, memoryd.looks_like, memoryd.caller_id,
             memoryd.caller_role, memoryd.caller_is_service, memoryd.caller_is_privileged,
             memoryd.current_caller, memoryd.runs_as_owner, memoryd.memory_is_off, memoryd.audit_read,
              memoryd.ms_since,
             memoryd.current_project, memoryd.in_project, memoryd.is_current'),
            -- What the policies for end users call.
            ('memoryd_user',
            'memoryd.caller_access, memoryd.access_of, memoryd.grants_access, memoryd.owns_session,
             memoryd.is_open, memoryd.may_name_session, memoryd.names_session, memoryd.refuse_ownerless'),
            -- The functions of recall that run with the caller's rights, and the few that do not and check
            -- who calls.
            ('memoryd_service, memoryd_user, memoryd_admin',
            'memoryd.source_names, memoryd.states_of, memoryd.scope_of,
             memoryd.kind_weight, memoryd.memory_weight, memoryd.kin_of, memoryd.dimensions,
             memoryd.searched_dimensions, memoryd.comparable, memoryd.group_scope,
             memoryd.message_scope, memoryd.find,
             memoryd.show_rows, memoryd.linked_rows, memoryd.best_rows,
             memoryd.search, memoryd.search_prompt, memoryd.profile_of, memoryd.embed, memoryd.embeds_here,
             memoryd.asks_nothing, memoryd.vector_of_question, memoryd.recall_request,
             memoryd.recall_and_log, memoryd.log_recall, memoryd.calibration,
             memoryd.calibrated, memoryd.words_of_question, memoryd.frequent_words,
             memoryd.function_words, memoryd.language_of,
             memoryd.document_of_chunk,
             memoryd.meets, memoryd.options, memoryd.fault_of_options,
             memoryd.conditions_of, memoryd.pieces_of, memoryd.show_pieces,
             memoryd.is_withheld, memoryd.phrases_of, memoryd.plain, memoryd.is_small_talk'),
            ('memoryd_service, memoryd_user',
            'memoryd.nearest_in_scope, memoryd.embedding_to_match, memoryd.log_retrieval,
             memoryd.caller_or_401, memoryd.check_memory_type, memoryd.app_agent_id, memoryd.words_shared,
             memoryd.matched_by_words, memoryd.matches, memoryd.is_comparison, memoryd.compares,
             memoryd.meets_filter, memoryd.rank_keys, memoryd.embed_by_daemon, memoryd.answer'),
            -- The functions of contexts that run with the caller's rights, and anchor_line(), which answers
            -- who works for the agents.
            ('memoryd_service, memoryd_user',
            'memoryd.anchor_line, memoryd.lines_of, memoryd.profile_lines, memoryd.disarmed,
             memoryd.has_access_level,
             memoryd.compose, memoryd.quote_hash, memoryd.pattern_scopes, memoryd.known_names,
             memoryd.patterns_of, memoryd.words_of, memoryd.claimed_trust, memoryd.least_trusted,
             memoryd.trust_of_memory,
             memoryd.trust_of_insight, memoryd.trust_of_knowledge,
             memoryd.origin_mark, memoryd.quoted, memoryd.passage_line, memoryd.says_same,
             memoryd.repeats, memoryd.single_lines, memoryd.choose_lines, memoryd.gather_lines,
             memoryd.context_request, memoryd.context_opening, memoryd.excerpt, memoryd.lexemes_in,
             memoryd.context_space, memoryd.said_key, memoryd.explain_lines, memoryd.named_knowledge'),
            ('memoryd_service',
            'memoryd.anchor, memoryd.check_lease, memoryd.begin_lease, memoryd.end_lease,
              memoryd.ignored_limit'),
            ('memoryd_service',
            'memoryd.word_runs, memoryd.team_names, memoryd.names_of, memoryd.capital_runs,
             memoryd.common_words, memoryd.is_name_in, memoryd.title_names, memoryd.count_retrieved'),
            -- What the policies and the view of the team's knowledge call.
            ('memoryd_service, memoryd_admin',
            'memoryd.caller_org, memoryd.corrected_by, memoryd.searched_text'),
            -- The functions of knowledge that run with the caller's rights, and three that do not: these
            -- answer the service alone.
            ('memoryd_service',
            'memoryd.org_scope, memoryd.daemon_says, memoryd.importing, memoryd.said, memoryd.surprise_of,
             memoryd.is_text_or_list, memoryd.time_or_null, memoryd.unknown_key, memoryd.succeeded,
             memoryd.fault_of_reasons, memoryd.fault_of_outcome, memoryd.decisions_of,
             memoryd.criteria_of, memoryd.meets_criterion, memoryd.contradicts, memoryd.credential_in,
             memoryd.credential_forms, memoryd.credential_commands, memoryd.private_part, memoryd.tier_of,
             memoryd.check_note, memoryd.is_repetition, memoryd.strengthen,
             memoryd.uuid_or_null, memoryd.archive_resolved, memoryd.nearest_knowledge,
             memoryd.surprise_threshold, memoryd.lock_knowledge'),
            -- What an audit asks with the caller's rights; of the last three, which do not need them, each
            -- checks who calls.
            ('memoryd_service, memoryd_user',
            'memoryd.depends_on_day, memoryd.says_nothing, memoryd.retrieved_memories, memoryd.facts_said_in,
             memoryd.commands_shown')
        ) as g(roles, names)
        cross join regexp_split_to_table(g.names, ',\s*') as n(name)
    loop
        if each.functions is null then
            raise exception 'no function %', each.name;
        end if;
        execute format('grant execute on function %s to %s', each.functions, each.roles);
    end loop;
end
$$;

-- The owner answers as end users and, in `memoryd web`, as support: it may become both, and inherits rights
-- of neither.
do $$
declare
    needed record;
begin
    for needed in
        select distinct o.name as owner, r.name as role
        from (values (current_user), (session_user)) as o(name)
        cross join (values ('memoryd_user'), ('memoryd_admin')) as r(name)
        where not pg_has_role(o.name, r.name, 'set')
    loop
        begin
            execute format('grant %I to %I with inherit false, set true', needed.role, needed.owner);
        exception when insufficient_privilege then
            null; -- doctor and migrate say what an administrator has to grant
        end;
    end loop;
end
$$;
