-- The scores of memories for a task: score = min(1, relevance x kind_weight + recency + association),
-- association = 0.2 x the strongest link (>= 0.3) to one of the best memories (relevance > 0.3).
-- p_only_user: only memories of p_user; otherwise also those without a user.

-- The best memories by relevance and recency, among the p_reach newest of each agent and p_older: ids and,
-- beside them, relevances. Null where none is relevant. A generic plan does not know how small p_reach is:
-- without the settings it may read and sort whole tables.
create or replace function memoryd.best_memories(
    p_agents text[], p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector, p_reach integer,
    p_count bigint, p_older uuid[], out ids uuid[], out relevances double precision[])
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
set enable_bitmapscan = off
as $$
begin
    select array_agg(b.id), array_agg(b.relevance) into ids, relevances
    from (
        select w.id, r.relevance
        from unnest(p_agents) a
        cross join lateral (
            (select m.id, m.kind, m.created_at, m.keywords, m.embedding
             from public.agent_memory m
             where m.agent_id = a and m.user_id = p_user and (m.expires_at is null or m.expires_at > now())
               and memoryd.in_context(m.metadata)
             order by m.created_at desc, m.id desc
             limit p_reach)
            union all
            (select m.id, m.kind, m.created_at, m.keywords, m.embedding
             from public.agent_memory m
             where m.agent_id = a and m.user_id is null and not p_only_user
               and (m.expires_at is null or m.expires_at > now()) and memoryd.in_context(m.metadata)
             order by m.created_at desc, m.id desc
             limit p_reach)
            union all
            (select m.id, m.kind, m.created_at, m.keywords, m.embedding
             from unnest(p_older) o
             join public.agent_memory m on m.id = o
             where m.agent_id = a and (m.expires_at is null or m.expires_at > now())
               and (m.user_id = p_user or (m.user_id is null and not p_only_user))
               and memoryd.in_context(m.metadata))
        ) m
        cross join lateral (
            select m.id, m.kind, m.created_at, 1 - (m.embedding <=> p_embedding) as similarity,
                   case when m.keywords && p_asked
                        then (select count(*) from unnest(p_asked) k where k = any(m.keywords))
                        else 0 end as hits
        ) w
        -- Because of the offset it is computed once, and with it the distance. Otherwise it would be
        -- computed again at each place where it is used.
        cross join lateral (
            select memoryd.relevance(w.hits, cardinality(p_asked), w.similarity) as relevance offset 0
        ) r
        where r.relevance > 0
        order by r.relevance * memoryd.kind_weight(w.kind) + memoryd.recency(w.created_at) desc
        limit p_count
    ) b;
end
$$;

-- The p_limit memories with the highest scores: of the best memories, and of those that are linked to them.
create or replace function memoryd.score_memories(
    p_agents text[], p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector, p_reach integer,
    p_limit integer, p_older uuid[] default '{}'
) returns table (id uuid, kind text, content text, metadata jsonb, created_at timestamptz,
                 similarity double precision, relevance double precision, score double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    best constant record := memoryd.best_memories(
        p_agents, p_user, p_only_user, p_asked, p_embedding, p_reach,
        greatest(40, 2::bigint * p_limit), p_older);
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
    cross join lateral (
        select memoryd.relevance(s.hits, cardinality(p_asked), s.similarity) as relevance offset 0
    ) r
    where m.agent_id = any(p_agents)
      and (m.user_id = p_user or (not p_only_user and m.user_id is null))
      and (m.expires_at is null or m.expires_at > now())
      and memoryd.in_context(m.metadata)
    order by score desc, m.created_at desc, m.id
    limit p_limit;
end
$$;
