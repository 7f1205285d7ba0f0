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

-- How big a value may be, of whatever users and agents write: whoever reads a row, exports it or parses its JSON can rely on it.
do $$
declare
    each record;
begin
    for each in
        select l.place, c.name, format('memoryd.%s_fits(%L, %I%s)', l.kind, c.name, c.name, ', ' || l.most) as condition
        from (values
            ('agents', 'identity disabled_reason', 'text', 10000),
            ('agent_commands', 'message', 'text', 10000000),
            -- More than an executor may keep (MEMORYD_EXECUTOR_OUTPUT_BYTES), less than JSON can hold.
            ('agent_commands', 'output', 'text', 250000000),
            ('agent_memory', 'content', 'text', 10000000),
            ('agent_memory', 'source', 'text', 10000),
            ('memory_queries', 'agent_id', 'text', 200),
            ('memory_requests', 'query', 'text', 10000000),
            ('memory_requests', 'agent_id', 'text', 200),
            ('chat_groups', 'platform group_name', 'text', 10000),
            ('conversation_sessions', 'title channel', 'text', 10000),
            ('conversation_messages', 'content', 'text', 10000000),
            ('documents', 'content', 'text', 10000000),
            ('documents', 'title source document_type drop_path replica_path', 'text', 10000),
            ('memory_chunks', 'chunk_text context', 'text', 10000000),
            ('shared_knowledge', 'content', 'text', 10000000),
            ('shared_knowledge', 'category title created_by created_by_name source', 'text', 10000),
            ('agent_sessions', 'agent_id', 'text', 200),
            ('agent_sessions', 'current_step error_message', 'text', 10000),
            ('agent_execution_logs', 'agent_id', 'text', 200),
            ('agent_execution_logs', 'step_name tool_name', 'text', 10000),
            ('agent_execution_logs', 'reasoning error_message', 'text', 1000000),
            ('memory_anchors', 'agent_id', 'text', 200),
            ('memory_anchors', 'cid chain_tx', 'text', 10000),
            ('agent_commands', 'metadata', 'json', null),
            ('agent_memory', 'metadata', 'json', null),
            ('memory_requests', 'options', 'json', null),
            ('chat_groups', 'group_metadata', 'json', null),
            ('conversation_messages', 'metadata', 'json', null),
            ('documents', 'metadata', 'json', null),
            ('memory_chunks', 'metadata', 'json', null),
            ('shared_knowledge', 'decision_context outcome', 'json', null),
            ('agent_sessions', 'session_data', 'json', null),
            ('agent_execution_logs', 'input_data output_data', 'json', null),
            ('memory_anchors', 'payload', 'json', null),
            ('memory_queries', 'task_keywords retrieved_memory_ids relevance_scores', 'list', null),
            ('conversation_messages', 'visibility_tags', 'list', null),
            ('memory_chunks', 'visibility_tags', 'list', null),
            ('user_memory_access', 'allowed_contexts allowed_tags', 'list', null),
            ('shared_knowledge', 'tags related_ids', 'list', null),
            ('agent_sessions', 'completed_steps', 'list', null)
        ) as l(place, names, kind, most)
        cross join lateral string_to_table(l.names, ' ') as c(name)
    loop
        execute format('alter table public.%I add constraint %I check (%s)', each.place, each.place || '_' || each.name || '_size',
                       each.condition);
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
