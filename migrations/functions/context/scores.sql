-- The scores of memories for a task: score = min(1, relevance x memory_weight + recency + association),
-- association = 0.2 x the strongest link (>= 0.3) to one of the best memories (relevance > 0.3).
-- p_only_user: only memories of p_user; otherwise also those without a user.

-- How similar rows of one source are to an embedding: the calibrated similarity of their nearest passage.
-- Only of
-- rows in these scopes, as far as they are open to the caller: of others nothing is given back.
create or replace function memoryd.similarities(
    p_source text, p_ids uuid[], p_scopes bigint[], p_embedding vector)
returns table (id uuid, similarity double precision)
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
    scopes constant bigint[] := case
        when caller.privileged then p_scopes
        when memoryd.scope_of(caller.user_id, null) = any(p_scopes) and caller.user_id is not null
            then array[memoryd.scope_of(caller.user_id, null)] end;
    sought constant halfvec := l2_normalize(p_embedding)::halfvec;
    scale constant record := memoryd.calibration();
begin
    if p_embedding is null or scopes is null then
        return;
    end if;
    return query
    select e.id, memoryd.calibrated(max(1 - (e.embedding <=> sought)), scale.background, scale.unit)
    from unnest(scopes) as s(scope)
    cross join lateral (
        select t.id, t.embedding from memoryd.entries t
        where t.scope = s.scope and t.id = any(p_ids) and t.source = p_source and t.code is not null
    ) e
    group by e.id;
end
$$;

-- The scopes that memories of these agents for a user are in.
create or replace function memoryd.scopes_of(p_agents text[], p_user uuid, p_only_user boolean)
returns bigint[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select array_remove(
        array[case when p_user is not null then memoryd.scope_of(p_user, null) end]
            || array(select memoryd.scope_of(null, a) from unnest(p_agents) a where not p_only_user),
        null)
$$;

-- The best memories by relevance and recency, among the p_reach newest of each agent and p_older: ids and,
-- beside them, relevances. Null where none is relevant. A generic plan does not know how small p_reach is:
-- without the settings it may read and sort whole tables.
create or replace function memoryd.best_memories(
    p_agents text[], p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector, p_reach integer,
    p_count bigint, p_older uuid[], p_project text, out ids uuid[], out relevances double precision[])
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set enable_bitmapscan = off
as $$
begin
    with recent as materialized (
        select m.*
        from unnest(p_agents) a
        cross join lateral (
            (select m.id, m.kind, m.source, m.created_at, m.keywords
             from public.agent_memory m
             where m.agent_id = a and m.user_id = p_user and (m.expires_at is null or m.expires_at > now())
               and memoryd.is_current(m.superseded_by, m.valid_to)
               and memoryd.in_project(m.metadata, p_project)
             order by m.created_at desc, m.id desc
             limit p_reach)
            union all
            (select m.id, m.kind, m.source, m.created_at, m.keywords
             from public.agent_memory m
             where m.agent_id = a and m.user_id is null and not p_only_user
               and (m.expires_at is null or m.expires_at > now())
               and memoryd.in_project(m.metadata, p_project)
               and memoryd.is_current(m.superseded_by, m.valid_to)
             order by m.created_at desc, m.id desc
             limit p_reach)
            union all
            (select m.id, m.kind, m.source, m.created_at, m.keywords
             from unnest(p_older) o
             join public.agent_memory m on m.id = o
             where m.agent_id = a and (m.expires_at is null or m.expires_at > now())
               and (m.user_id = p_user or (m.user_id is null and not p_only_user))
               and memoryd.is_current(m.superseded_by, m.valid_to)
               and memoryd.in_project(m.metadata, p_project))
        ) m
    ), alike as materialized (
        select s.*
        from memoryd.similarities(
            'memory', array(select r.id from recent r),
            memoryd.scopes_of(p_agents, p_user, p_only_user), p_embedding) s
    )
    select array_agg(b.id), array_agg(b.relevance) into ids, relevances
    from (
        select m.id, r.relevance
        from recent m
        left join alike s on s.id = m.id
        -- Because of the offset it is computed once. Otherwise it would be computed again at each place
        -- where it is used.
        cross join lateral (
            select memoryd.relevance(
                case when m.keywords && p_asked
                     then (select count(*) from unnest(p_asked) k where k = any(m.keywords))
                     else 0 end,
                cardinality(p_asked), s.similarity) as relevance offset 0
        ) r
        where r.relevance > 0
        order by r.relevance * memoryd.memory_weight(m.kind, m.source) + memoryd.recency(m.created_at) desc
        limit p_count
    ) b;
end
$$;

-- The p_limit memories with the highest scores: of the best memories, and of those that are linked to them.
create or replace function memoryd.score_memories(
    p_agents text[], p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector, p_reach integer,
    p_limit integer, p_older uuid[], p_project text
) returns table (id uuid, kind text, content text, metadata jsonb, created_at timestamptz,
                 similarity double precision, relevance double precision, score double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    best constant record := memoryd.best_memories(
        p_agents, p_user, p_only_user, p_asked, p_embedding, p_reach,
        greatest(40, 2::bigint * p_limit), p_older, p_project);
begin
    if best.ids is null then
        return;
    end if;
    return query
    with top as (
        select array_agg(t.id) as ids
        from (select b.id from unnest(best.ids, best.relevances) as b(id, relevance)
              where b.relevance > 0.3
              group by b.id
              order by max(b.relevance) desc
              limit 20) t
    ), links as materialized (
        select l.id, l.strength from top t cross join lateral memoryd.linked_to(t.ids) l
    ), candidates as materialized (
        select c.id from unnest(best.ids) as c(id)
        union
        select l.id from links l
    ), alike as materialized (
        select s.*
        from memoryd.similarities(
            'memory', array(select c.id from candidates c),
            memoryd.scopes_of(p_agents, p_user, p_only_user), p_embedding) s
    )
    select m.id, m.kind, m.content, m.metadata, m.created_at, s.similarity, r.relevance,
           least(1, r.relevance * memoryd.memory_weight(m.kind, m.source)
                    + memoryd.recency(m.created_at) + 0.2 * coalesce(l.strength, 0)) as score
    from candidates c
    join public.agent_memory m on m.id = c.id
    left join links l on l.id = c.id
    left join alike s on s.id = c.id
    cross join lateral (
        select memoryd.relevance(
            (select count(*) from unnest(p_asked) k where k = any(m.keywords)), cardinality(p_asked),
            s.similarity) as relevance offset 0
    ) r
    where m.agent_id = any(p_agents)
      and (m.user_id = p_user or (not p_only_user and m.user_id is null))
      and (m.expires_at is null or m.expires_at > now())
      and memoryd.is_current(m.superseded_by, m.valid_to)
      and memoryd.in_project(m.metadata, p_project)
    order by score desc, m.created_at desc, m.id
    limit p_limit;
end
$$;
