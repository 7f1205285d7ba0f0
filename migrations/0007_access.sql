-- Who may do what: row-level security on, and forced, for every table of schema public.

do $$
declare
    t text;
begin
    foreach t in array array['agents', 'agent_commands', 'agent_memory', 'memory_associations', 'memory_queries',
                             'dream_sessions', 'dream_insights', 'memory_requests'] loop
        execute format('alter table public.%I enable row level security', t);
        execute format('alter table public.%I force row level security', t);
        execute format('create policy service on public.%I to memoryd_service using (true) with check (true)', t);
        execute format('revoke all on public.%I from public', t);
        execute format('grant select, insert, update, delete on public.%I to memoryd_service', t);
    end loop;
end
$$;

-- Above all the trigger functions, which run as the owner: nobody may hang one of them on a table of his own.
revoke all on all functions in schema memoryd from public;
revoke all on function public.claim_command, public.complete_command, public.mark_useful, public.build_context,
    public.recall, public.cleanup_expired_memory, public.extract_keywords from public;
-- Supabase grants its clients everything by default, truncate too, which no policy stops.
do $$
declare
    client text;
begin
    for client in select rolname from pg_roles where rolname in ('anon', 'authenticated') loop
        execute format('revoke all on public.agents, public.agent_commands, public.agent_memory, public.memory_associations,
            public.memory_queries, public.dream_sessions, public.dream_insights, public.memory_requests,
            public.shared_memory from %I', client);
        execute format('-- Above all the trigger functions, which run as the owner: nobody may hang one of them on a table of his own.
revoke all on all functions in schema memoryd from public;
revoke all on function public.claim_command, public.complete_command, public.mark_useful,
            public.build_context, public.recall, public.cleanup_expired_memory, public.extract_keywords from %I', client);
    end loop;
end
$$;

-- End users: their own rows, nothing of anyone else's, nothing of the agents' own (user_id null).
create policy own on public.agent_memory to memoryd_user
    using (user_id = memoryd.caller_id()) with check (user_id = memoryd.caller_id() and agent_id <> '_shared');
create policy own_read on public.agent_commands for select to memoryd_user using (user_id = memoryd.caller_id());
-- A user asks for work; what came of it is the agents' word.
create policy own_ask on public.agent_commands for insert to memoryd_user
    with check (user_id = memoryd.caller_id() and status = 'pending');
create policy own on public.memory_queries to memoryd_user
    using (user_id = memoryd.caller_id()) with check (user_id = memoryd.caller_id());
create policy own_read on public.dream_insights for select to memoryd_user using (user_id = memoryd.caller_id());
create policy own_read on public.memory_requests for select to memoryd_user using (user_id = memoryd.caller_id());
create policy own_ask on public.memory_requests for insert to memoryd_user
    with check (user_id = memoryd.caller_id() and kind <> 'dream' and status = 'pending' and result is null);
-- A link is as visible as both its ends.
create policy both_ends_read on public.memory_associations for select to memoryd_user
    using (exists (select from public.agent_memory m where m.id = memory_id)
       and exists (select from public.agent_memory m where m.id = related_memory_id));

-- By column: a user sets no times and no command_id (a command is remembered once, and that by its agent), and does not read
-- a command's context, which holds what the agent knows, the agents' own memories among it.
grant select, delete on public.agent_memory to memoryd_user;
grant insert (id, agent_id, user_id, session_id, kind, memory_type, content, embedding, metadata, source, ttl_hours, expires_at),
    update (session_id, kind, memory_type, content, embedding, metadata, source, ttl_hours, expires_at)
    on public.agent_memory to memoryd_user;
grant select (id, agent_id, user_id, session_id, message, metadata, status, output, exit_code, error,
              created_at, ready_at, started_at, finished_at),
    insert (id, agent_id, user_id, session_id, message, metadata)
    on public.agent_commands to memoryd_user;
grant select, insert (id, kind, agent_id, user_id, query, options) on public.memory_requests to memoryd_user;
grant select, update (useful),
    insert (agent_id, user_id, command_id, task_keywords, retrieved_memory_ids, relevance_scores)
    on public.memory_queries to memoryd_user;
grant select on public.memory_associations, public.dream_insights to memoryd_user;
grant select on public.shared_memory to memoryd_service, memoryd_user;

grant execute on function public.claim_command, public.complete_command, public.mark_useful, public.build_context,
    public.recall, public.cleanup_expired_memory, public.extract_keywords to memoryd_service;
grant execute on function public.build_context, public.recall, public.extract_keywords to memoryd_user;
grant execute on function memoryd.relevance, memoryd.kind_weight, memoryd.recency, memoryd.score_memories,
    memoryd.compose_context to memoryd_service, memoryd_user;
