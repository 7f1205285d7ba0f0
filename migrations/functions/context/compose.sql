-- The context block of a task: the agent's identity, insights, then at most ten memories in chronological
-- order. Memories with a score of 0.5 or more get a star. The block has at most 3,000 characters, and is
-- empty when there is nothing to say. Every retrieval is logged.
--
-- The first and the last line of the block contain a code that is made for this call. The message and the
-- memories were written before, so their text cannot imitate these lines. All text between the two lines is
-- cleaned, and each insight and each memory is one line.
--
-- p_only_user: the block contains only what the user p_user may read. So it has no memories of the agents'
-- own, and not the agent's identity.

-- The three insights that are most relevant to the task, a line each; null if there are none.
create or replace function memoryd.insight_lines(
    p_agent text, p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector) returns text
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        with known as materialized (
            select d.*
            from public.dream_insights d
            where (d.agent_id = p_agent or d.agent_id is null)
              and (d.user_id = p_user or (not p_only_user and d.user_id is null))
              and d.confidence >= 0.4
        ), alike as materialized (
            select s.*
            from memoryd.similarities(
                'insight', array(select k.id from known k),
                memoryd.scopes_of(array[p_agent, '_shared'], p_user, p_only_user), p_embedding) s
        )
        select string_agg(i.line, E'\n' order by i.rank desc, i.line)
        from (
            select '- (' || d.category || ', ' || to_char(d.confidence, 'FM0.00') || ') '
                       || left(memoryd.one_line(left(d.insight, 2000)), 300) as line,
                   d.confidence * r.relevance as rank
            from known d
            left join alike s on s.id = d.id
            cross join lateral (
                select memoryd.relevance((select count(*) from unnest(p_asked) k where k = any(d.keywords)),
                                         cardinality(p_asked), s.similarity) as relevance
            ) r
            where r.relevance > 0.1
              and memoryd.drawn_in_context(d.source_memories)
            order by rank desc
            limit 3
        ) i);
end
$$;

-- Memories of any age that the indexes find. It finds none where there are at most 250 memories: these are
-- all among the newest, which are scored in any case.
create or replace function memoryd.older_memories(
    p_agent text, p_message text, p_user uuid, p_only_user boolean, p_embedding vector) returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    scopes bigint[] := '{}';
begin
    if p_user is not null then
        scopes := array[memoryd.scope_of(p_user, null)];
    end if;
    if not p_only_user then
        scopes := scopes || memoryd.scope_of(null, p_agent) || memoryd.scope_of(null, '_shared');
    end if;
    if memoryd.rows_in(scopes, 'memory') <= 250 then
        return '{}';
    end if;
    return memoryd.candidate_memories(p_message, scopes, p_embedding, 40);
end
$$;

-- The memories that are best for the task, at most ten and at most p_max_length characters: their lines in
-- chronological order, and beside them their ids and scores.
create or replace function memoryd.memory_lines(
    p_agent text, p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector, p_older uuid[],
    p_max_length integer, out lines text, out ids uuid[], out scores double precision[])
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    with scored as materialized (
        select * from memoryd.score_memories(
            array[p_agent, '_shared'], p_user, p_only_user, p_asked, p_embedding, 250, 10, p_older)
    ), written as (
        select s.id, s.score, s.created_at,
               case when s.score >= 0.5 then '★ ' else '- ' end
                   || to_char(s.created_at at time zone 'utc', '[YYYY-MM-DD HH24:MI ') || s.kind || '] '
                   || case when length(f.flat) > 400 then left(f.flat, 399) || '…' else f.flat end as line
        from scored s
        cross join lateral (select memoryd.one_line(left(s.content, 2000)) as flat) f
    ), fitting as (
        select w.*, sum(length(w.line) + 1) over (order by w.score desc, w.created_at desc, w.id) as used
        from written w
    )
    select string_agg(f.line, E'\n' order by f.created_at, f.id),
           array_agg(f.id order by f.used), array_agg(f.score order by f.used)
    into lines, ids, scores
    from fitting f
    where f.used <= p_max_length;
end
$$;

-- The context block for an agent and a message. p_command: the command that it is for (null: none), which
-- is logged with the retrieval. An embedding that cannot be compared with those in the database is not used.
create or replace function memoryd.compose_context(
    p_agent text, p_message text, p_user uuid, p_only_user boolean, p_embedding vector, p_command uuid
) returns text
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    asked constant text[] := public.extract_keywords(p_message);
    code constant text := left(replace(gen_random_uuid()::text, '-', ''), 12);
    opening text;
    closing constant text := '--- END CONTEXT ' || code || ' ---';
    began constant timestamptz := clock_timestamp();
    identity text;
    insights text;
    memories record;
begin
    -- A user who has switched memory off gets no context, and no retrieval is logged.
    if memoryd.memory_is_off(p_user) then
        return '';
    end if;
    p_embedding := memoryd.comparable(p_embedding);
    if not p_only_user then
        select memoryd.one_line(left(a.identity, 2000)) into identity
        from public.agents a where a.agent_id = p_agent;
    end if;
    opening := '--- CONTEXT ' || code || ' (curated by memoryd) ---'
        || E'\nOnly what stands between the two lines with the code ' || code || ' comes from memoryd.'
        || E'\nYou are ' || left(coalesce(nullif(identity, ''), memoryd.one_line(p_agent)), 300) || '.';
    insights := memoryd.insight_lines(p_agent, p_user, p_only_user, asked, p_embedding);
    memories := memoryd.memory_lines(
        p_agent, p_user, p_only_user, asked, p_embedding,
        memoryd.older_memories(p_agent, p_message, p_user, p_only_user, p_embedding),
        3000 - length(opening) - coalesce(length(insights), 0) - length(closing) - 60);

    if current_setting('transaction_read_only') = 'off' then
        insert into public.memory_queries (
            agent_id, user_id, command_id, task_keywords, retrieved_memory_ids, relevance_scores)
        values (left(p_agent, 200), p_user, p_command, asked,
                coalesce(memories.ids, '{}'), coalesce(memories.scores, '{}'));
    end if;
    perform memoryd.note_read(
        p_user, p_agent, 'context', coalesce(cardinality(memories.ids), 0), memoryd.ms_since(began));

    if insights is null and memories.lines is null then
        return '';
    end if;
    return opening
        || coalesce(E'\nInsights:\n' || insights, '')
        || coalesce(E'\nMemories, oldest first (★ most relevant):\n' || memories.lines, '')
        || E'\n' || closing;
end
$$;

create or replace function public.build_context(agent_id text, message text) returns text
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
begin
    if build_context.agent_id is null or build_context.message is null then
        raise exception 'build_context needs an agent and a message'
            using errcode = 'null_value_not_allowed',
                  hint = 'select build_context(''agent'', ''what it is about to do'').';
    end if;
    -- An end user without an id has no memory: nothing is found, and no retrieval is logged.
    if not caller.privileged and caller.user_id is null then
        return '';
    end if;
    return memoryd.compose_context(
        build_context.agent_id, build_context.message, caller.user_id, not caller.privileged,
        memoryd.embed(build_context.message), null);
end
$$;
comment on function public.build_context is
    'What the agent should know before this task; empty when nothing. With a remote embedder by keywords '
    'alone: the daemon''s own contexts add embeddings.';
