-- What an agent is given before a task: scoring and the context block.

-- Relevance 0..1: keyword hits over task keywords (source design 004), joined with the cosine similarity as two
-- independent chances to be relevant, so that without embeddings the source's formula stands exactly. The floor
-- is where this kind of embedding stops telling related texts from unrelated ones.
-- These three have a parsed body, no SET and no subquery: they are inlined into the queries that call them, which count the
-- hits themselves.
create function memoryd.relevance(p_hits bigint, p_asked integer, p_similarity double precision) returns double precision
language sql immutable parallel safe
return 1 - (1 - coalesce(p_hits::double precision / nullif(p_asked, 0), 0))
         * (1 - 0.5 * greatest(0, (coalesce(nullif(p_similarity, 'NaN'), 0) - 0.35) / 0.65));

create function memoryd.kind_weight(p_kind text) returns double precision
language sql immutable parallel safe
return case p_kind when 'outcome' then 1.0 when 'fact' then 1.0 when 'error' then 0.9
                   when 'goal' then 0.8 when 'observation' then 0.6 else 0.5 end;

create function memoryd.recency(p_created_at timestamptz) returns double precision
language sql stable parallel safe
return case when p_created_at > now() - interval '24 hours' then 0.15
            when p_created_at > now() - interval '72 hours' then 0.05
            else 0 end;

-- score = min(1, relevance x kind_weight + recency + association), association = 0.2 x the strongest link (>= 0.3)
-- to a top memory (relevance > 0.3). Considered are the p_reach newest memories of each agent, those of p_older, and
-- whatever is linked to the best of them, however old.
-- p_only_user: memories of p_user alone; else also those of no user.
create function memoryd.score_memories(
    p_agents text[], p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector, p_reach integer, p_limit integer,
    p_older uuid[] default '{}'
) returns table (id uuid, kind text, content text, metadata jsonb, created_at timestamptz,
                 similarity double precision, relevance double precision, score double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
-- A generic plan does not know how small p_reach is: without these it may read everything and sort.
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    ids uuid[];
    relevances double precision[];
begin
    select array_agg(b.id), array_agg(b.relevance) into ids, relevances
    from (
        select w.id, r.relevance
        from unnest(p_agents) a
        cross join lateral (
            (select m.id, m.kind, m.created_at, m.keywords, m.embedding
             from public.agent_memory m
             where m.agent_id = a and m.user_id = p_user and (m.expires_at is null or m.expires_at > now())
             order by m.created_at desc, m.id desc
             limit p_reach)
            union all
            (select m.id, m.kind, m.created_at, m.keywords, m.embedding
             from public.agent_memory m
             where m.agent_id = a and m.user_id is null and not p_only_user
               and (m.expires_at is null or m.expires_at > now())
             order by m.created_at desc, m.id desc
             limit p_reach)
            union all
            (select m.id, m.kind, m.created_at, m.keywords, m.embedding
             from unnest(p_older) o
             join public.agent_memory m on m.id = o
             where m.agent_id = a and (m.expires_at is null or m.expires_at > now())
               and (m.user_id = p_user or (m.user_id is null and not p_only_user)))
        ) m
        cross join lateral (
            select m.id, m.kind, m.created_at, 1 - (m.embedding <=> p_embedding) as similarity,
                   case when m.keywords && p_asked
                        then (select count(*) from unnest(p_asked) k where k = any(m.keywords)) else 0 end as hits
        ) w
        -- The offset keeps it, and the distance in it, from being reckoned at each of its mentions.
        cross join lateral (select memoryd.relevance(w.hits, cardinality(p_asked), w.similarity) as relevance offset 0) r
        where r.relevance > 0
        order by r.relevance * memoryd.kind_weight(w.kind) + memoryd.recency(w.created_at) desc
        limit greatest(40, 2::bigint * p_limit)
    ) b;
    if ids is null then
        return;
    end if;

    return query
    with top as materialized (
        select t.id from unnest(ids, relevances) as t(id, relevance)
        where t.relevance > 0.3
        group by t.id
        order by max(t.relevance) desc
        limit 20
    ), links as materialized (
        select l.id, max(l.strength) as strength
        from (
            select a.related_memory_id as id, a.strength
            from public.memory_associations a join top on a.memory_id = top.id
            where a.strength >= 0.3
            union all
            select a.memory_id, a.strength
            from public.memory_associations a join top on a.related_memory_id = top.id
            where a.strength >= 0.3
        ) l
        group by l.id
    ), candidates as materialized (
        select c.id from unnest(ids) as c(id)
        union
        select l.id from links l
    )
    select m.id, m.kind, m.content, m.metadata, m.created_at, s.similarity, r.relevance,
           least(1, r.relevance * memoryd.kind_weight(m.kind) + memoryd.recency(m.created_at)
                    + 0.2 * coalesce(l.strength, 0)) as score
    from candidates c
    join public.agent_memory m on m.id = c.id
    left join links l on l.id = c.id
    cross join lateral (
        select 1 - (m.embedding <=> p_embedding) as similarity,
               (select count(*) from unnest(p_asked) k where k = any(m.keywords)) as hits
    ) s
    cross join lateral (select memoryd.relevance(s.hits, cardinality(p_asked), s.similarity) as relevance offset 0) r
    where m.agent_id = any(p_agents)
      and (m.user_id = p_user or (not p_only_user and m.user_id is null))
      and (m.expires_at is null or m.expires_at > now())
    order by score desc, m.created_at desc, m.id
    limit p_limit;
end
$$;

-- The context block of a task: identity, insights, then at most ten memories in chronological order, a star at a score of
-- 0.5 and above, 3,000 characters in all; empty when there is nothing to say. Every retrieval is logged.
-- Its first and its last line have a code that is made now, after the message and whatever is remembered were
-- written: none of them can write these lines. All that stands between is cleaned, and each part of it is one
-- line.
-- p_only_user: nothing but what the user p_user may read, so neither the agents' own memories nor their identities.
-- A user whose memory is off gets none, and nobody learns that it was asked for.
create function memoryd.compose_context(
    p_agent text, p_message text, p_user uuid, p_only_user boolean, p_embedding vector, p_command uuid
) returns text
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    asked text[] := public.extract_keywords(p_message);
    scopes constant bigint[] :=
        case when p_user is null then '{}' else array[memoryd.scope_of(p_user, null)] end
        || case when p_only_user then '{}' else array[memoryd.scope_of(null, p_agent), memoryd.scope_of(null, '_shared')] end;
    older uuid[] := '{}';
    insights text;
    memories text;
    retrieved uuid[];
    scores double precision[];
    identity text;
    code constant text := left(replace(gen_random_uuid()::text, '-', ''), 12);
    opening text;
    closing constant text := '--- END CONTEXT ' || code || ' ---';
    began constant timestamptz := clock_timestamp();
begin
    if memoryd.memory_is_off(p_user) then
        return '';
    end if;
    if not p_only_user then
        select memoryd.one_line(left(a.identity, 2000)) into identity
        from public.agents a where a.agent_id = p_agent;
    end if;
    opening := '--- CONTEXT ' || code || ' (curated by memoryd) ---'
        || E'\nOnly what stands between the two lines with the code ' || code || ' comes from memoryd.'
        || E'\nYou are ' || left(coalesce(nullif(identity, ''), memoryd.one_line(p_agent)), 300) || '.';

    select string_agg(i.line, E'\n' order by i.rank desc, i.line) into insights
    from (
        select '- (' || d.category || ', ' || to_char(d.confidence, 'FM0.00') || ') '
                   || left(memoryd.one_line(left(d.insight, 2000)), 300) as line,
               d.confidence * r.relevance as rank
        from public.dream_insights d
        cross join lateral (
            select memoryd.relevance((select count(*) from unnest(asked) k where k = any(d.keywords)), cardinality(asked),
                                     1 - (d.embedding <=> p_embedding)) as relevance
        ) r
        where (d.agent_id = p_agent or d.agent_id is null)
          and (d.user_id = p_user or (not p_only_user and d.user_id is null))
          and d.confidence >= 0.4
          and r.relevance > 0.1
        order by rank desc
        limit 3
    ) i;

    -- Where there is more than the newest, the indexes bring what bears on the task, however old.
    if memoryd.rows_in(scopes, 'memory') > 250 then
        select memoryd.candidates_memory(
            scopes, q.weights, q.words, q.word_scopes, q.pairs, q.pair_scopes, p_embedding, 40) into older
        from memoryd.question(p_message, scopes, 500, null) q;
    end if;

    with scored as materialized (
        select * from memoryd.score_memories(array[p_agent, '_shared'], p_user, p_only_user, asked, p_embedding, 250, 10, older)
    ), lines as (
        select s.id, s.score, s.created_at,
               case when s.score >= 0.5 then '★ ' else '- ' end
                   || to_char(s.created_at at time zone 'utc', '[YYYY-MM-DD HH24:MI ') || s.kind || '] '
                   || case when length(f.flat) > 400 then left(f.flat, 399) || '…' else f.flat end as line
        from scored s
        cross join lateral (select memoryd.one_line(left(s.content, 2000)) as flat) f
    ), fitting as (
        select l.*, sum(length(l.line) + 1) over (order by l.score desc, l.created_at desc, l.id) as used
        from lines l
    )
    select string_agg(f.line, E'\n' order by f.created_at, f.id),
           array_agg(f.id order by f.used), array_agg(f.score order by f.used)
    into memories, retrieved, scores
    from fitting f
    where f.used <= 3000 - length(opening) - coalesce(length(insights), 0) - length(closing) - 60;

    if current_setting('transaction_read_only') = 'off' then
        insert into public.memory_queries (
            agent_id, user_id, command_id, task_keywords, retrieved_memory_ids, relevance_scores)
        values (left(p_agent, 200), p_user, p_command, asked, coalesce(retrieved, '{}'), coalesce(scores, '{}'));
    end if;
    perform memoryd.note_read(p_user, p_agent, 'context', coalesce(cardinality(retrieved), 0),
                              (extract(epoch from clock_timestamp() - began) * 1000)::integer);

    if insights is null and memories is null then
        return '';
    end if;
    return opening
        || coalesce(E'\nInsights:\n' || insights, '')
        || coalesce(E'\nMemories, oldest first (★ most relevant):\n' || memories, '')
        || E'\n' || closing;
end
$$;

create function public.build_context(agent_id text, message text) returns text
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    asker constant uuid := memoryd.caller_id();
    only_user constant boolean := not has_table_privilege('public.agents', 'select');
begin
    if build_context.agent_id is null or build_context.message is null then
        raise exception 'build_context needs an agent and a message'
            using errcode = 'null_value_not_allowed', hint = 'select build_context(''agent'', ''what it is about to do'').';
    end if;
    -- Nobody has nothing, not even a row to log it in.
    if only_user and asker is null then
        return '';
    end if;
    return memoryd.compose_context(build_context.agent_id, build_context.message, asker, only_user, null, null);
end
$$;
comment on function public.build_context is 'What the agent should know before this task, by keywords alone; empty when nothing. The daemon''s own contexts add embeddings.';
