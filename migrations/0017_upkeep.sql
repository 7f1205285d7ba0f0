-- Conversations are forgotten in time; nothing is too big to be carried on; and the doors of what came after 0014_access.sql are closed.

-- Deletes messages past their time, and sessions as old that have none left, at most p_max_rows of each (null: all).
-- A user's own minutes (memory_settings) go before p_default_minutes; null keeps for ever.
create function memoryd.expire_conversations(
    p_default_minutes integer, p_max_rows integer default null, out messages bigint, out sessions bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- From the oldest on, with a look at each one's user and session: without these it may read everything and sort.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    past uuid[];
begin
    select array_agg(e.id) into past
    from (
        (select m.id
         from public.memory_settings s
         cross join lateral (
             select m.id from public.conversation_messages m
             where m.user_id = s.user_id and m.created_at < now() - make_interval(mins => s.conversation_retention_minutes)
             order by m.created_at
             limit p_max_rows
         ) m
         where s.conversation_retention_minutes is not null
         limit p_max_rows)
        union all
        (select m.id from public.conversation_messages m
         where m.created_at < now() - make_interval(mins => p_default_minutes)
           and not exists (select from public.memory_settings s
                           where s.user_id = m.user_id and s.conversation_retention_minutes is not null)
         order by m.created_at
         limit p_max_rows)
        limit p_max_rows
    ) e;
    delete from public.conversation_messages m
    where m.id in (select l.id from public.conversation_messages l where l.id = any(past) for update skip locked);
    get diagnostics messages = row_count;

    select array_agg(e.id) into past
    from (
        (select c.id
         from public.memory_settings s
         cross join lateral (
             select c.id from public.conversation_sessions c
             where c.user_id = s.user_id and c.created_at < now() - make_interval(mins => s.conversation_retention_minutes)
               and not exists (select from public.conversation_messages m where m.session_id = c.id)
             order by c.created_at
             limit p_max_rows
         ) c
         where s.conversation_retention_minutes is not null
         limit p_max_rows)
        union all
        (select c.id from public.conversation_sessions c
         where c.created_at < now() - make_interval(mins => p_default_minutes)
           and not exists (select from public.memory_settings s
                           where s.user_id = c.user_id and s.conversation_retention_minutes is not null)
           and not exists (select from public.conversation_messages m where m.session_id = c.id)
         order by c.created_at
         limit p_max_rows)
        limit p_max_rows
    ) e;
    -- Locked first, then looked into once more: a message written meanwhile keeps its session.
    with locked as (
        select c.id from public.conversation_sessions c where c.id = any(past) for update skip locked
    )
    select array_agg(l.id) into past from locked l;
    delete from public.conversation_sessions c
    where c.id = any(past) and not exists (select from public.conversation_messages m where m.session_id = c.id);
    get diagnostics sessions = row_count;
end
$$;

-- How big a value may be, of whatever users and agents write. Whoever reads a row, exports it or parses its JSON can rely on it. The
-- length in bytes is asked for first: it is known without reading a long text.
do $$
declare
    each record;
begin
    for each in
        select l.place, c.name, l.most
        from (values
            ('agents', 'identity disabled_reason', 10000),
            ('agent_commands', 'message', 10000000),
            -- More than an executor may keep (MEMORYD_EXECUTOR_OUTPUT_BYTES), less than JSON can hold.
            ('agent_commands', 'output', 250000000),
            ('agent_commands', 'context error', 1000000),
            ('agent_memory', 'content', 10000000),
            ('agent_memory', 'source', 10000),
            ('memory_queries', 'agent_id', 200),
            ('memory_requests', 'query', 10000000),
            ('memory_requests', 'agent_id', 200),
            ('chat_groups', 'platform group_name', 10000),
            ('conversation_sessions', 'title channel', 10000),
            ('conversation_messages', 'content', 10000000),
            ('documents', 'content', 10000000),
            ('documents', 'title source document_type drop_path replica_path', 10000),
            ('memory_chunks', 'chunk_text context', 10000000),
            ('shared_knowledge', 'content', 10000000),
            ('shared_knowledge', 'category title created_by created_by_name source', 10000),
            ('agent_sessions', 'agent_id', 200),
            ('agent_sessions', 'current_step', 10000),
            ('agent_sessions', 'error_message', 1000000),
            ('agent_execution_logs', 'agent_id', 200),
            ('agent_execution_logs', 'step_name tool_name', 10000),
            ('agent_execution_logs', 'reasoning error_message', 10000000),
            ('memory_anchors', 'agent_id', 200),
            ('memory_anchors', 'cid chain_tx', 10000)
        ) as l(place, names, most)
        cross join lateral string_to_table(l.names, ' ') as c(name)
    loop
        execute format(
            'alter table public.%1$I add constraint %2$I check (
                 octet_length(%3$I) <= %4$s or length(%3$I) <= %4$s
                 or memoryd.refuse(%3$L || '' has '' || length(%3$I) || '' characters'', %5$L))',
            each.place, each.place || '_' || each.name || '_size', each.name, each.most,
            'At most ' || to_char(each.most, 'FM999,999,999') || ' characters: give it in parts, or where it can be found.');
    end loop;
    for each in
        select l.place, c.name
        from (values
            ('agent_commands', 'metadata'), ('agent_memory', 'metadata'), ('memory_requests', 'options'),
            ('chat_groups', 'group_metadata'), ('conversation_messages', 'metadata'), ('documents', 'metadata'),
            ('memory_chunks', 'metadata'), ('shared_knowledge', 'decision_context outcome'), ('agent_sessions', 'session_data'),
            ('agent_execution_logs', 'input_data output_data'), ('memory_anchors', 'payload')
        ) as l(place, names)
        cross join lateral string_to_table(l.names, ' ') as c(name)
    loop
        execute format(
            'alter table public.%1$I add constraint %2$I check (
                 %3$I = ''{}'' or memoryd.json_fault(%3$I) is null
                 or memoryd.refuse(%3$L || '' '' || memoryd.json_fault(%3$I), %4$L))',
            each.place, each.place || '_' || each.name || '_size', each.name,
            'At most 1,048,576 bytes of JSON, 64 levels deep, its numbers of 1,000 digits.');
    end loop;
    for each in
        select l.place, c.name
        from (values
            ('memory_queries', 'task_keywords retrieved_memory_ids relevance_scores'), ('conversation_messages', 'visibility_tags'),
            ('memory_chunks', 'visibility_tags'), ('user_memory_access', 'allowed_contexts allowed_tags'),
            ('shared_knowledge', 'tags related_ids'), ('agent_sessions', 'completed_steps')
        ) as l(place, names)
        cross join lateral string_to_table(l.names, ' ') as c(name)
    loop
        execute format(
            'alter table public.%1$I add constraint %2$I check (
                 %3$I = ''{}'' or (cardinality(%3$I) <= 1000 and octet_length(%3$I::text) <= 100000)
                 or memoryd.refuse(%3$L || '' has '' || cardinality(%3$I) || '' entries, '' || octet_length(%3$I::text) || '' bytes'',
                                   ''At most 1,000 entries, and 100,000 bytes together.''))',
            each.place, each.place || '_' || each.name || '_size', each.name);
    end loop;
end
$$;

do $$
declare
    strangers text := 'public';
begin
    select strangers || coalesce(string_agg(format(', %I', rolname), ''), '') into strangers
    from pg_roles where rolname in ('anon', 'authenticated');
    -- Where default privileges give clients everything, they have been given the machinery's tables too.
    execute format('revoke all on all tables in schema memoryd from %s', strangers);
    execute format('revoke all on all sequences in schema memoryd from %s', strangers);
    execute format('revoke all on all functions in schema memoryd from %s', strangers);
    execute format('revoke all on function public.match_memory, public.search_shared_knowledge from %s', strangers);
end
$$;
grant execute on function memoryd.check_match, public.match_memory to memoryd_service, memoryd_user;
grant execute on function public.search_shared_knowledge to memoryd_service;
