-- The candidates in order: what each says of the question, and which are given back.
--
-- relevance   lexical + dense + prior + named + timed + session, lexical and dense each relative to the
-- best candidate's, the whole
--             relative to the best again, times how well the best fits at all: from 0 to 1. Without an embedding a memory's or an
--             insight's relevance is the part of the question's keywords that it has.
-- score       min(1, relevance x weight + recency + association)

-- Refuses what cannot be searched for.
create or replace function memoryd.check_search(
    p_embedding vector, p_count integer, p_sources text[], p_filter jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    known constant text[] := array['memory', 'conversation', 'document', 'knowledge', 'insight'];
    unknown text[];
begin
    if p_count is null or p_count < 0 then
        raise exception 'match_count is %', coalesce(p_count::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give how many results you want, 0 or more.';
    end if;
    if cardinality(p_sources) > 100 then
        raise exception 'sources has % entries', cardinality(p_sources)
            using errcode = 'invalid_parameter_value', hint = 'Sources: ' || array_to_string(known, ', ') || '.';
    end if;
    select array_agg(coalesce(s, 'null')) into unknown from unnest(p_sources) s where s <> all (known) or s is null;
    if unknown is not null then
        raise exception 'unknown source %', unknown[1]
            using errcode = 'invalid_parameter_value', hint = 'Sources: ' || array_to_string(known, ', ') || '.';
    end if;
    if jsonb_typeof(p_filter) <> 'object' then
        raise exception 'filter is of type %', jsonb_typeof(p_filter)
            using errcode = 'invalid_parameter_value',
                  hint = 'Give an object that the metadata contain, such as {"kind": "fact"}.';
    end if;
    if vector_dims(p_embedding) <> :dimensions then
        raise exception 'query_embedding has % dimensions, this database''s have :dimensions', vector_dims(p_embedding)
            using errcode = 'invalid_parameter_value',
                  hint = 'Embed the query with the model that the rows are embedded with.';
    end if;
end
$$;

-- Whether a row is one of those asked for: of this user (null: any), of nobody (p_unowned), for this agent
-- (null: any). Inlined.
create or replace function memoryd.is_asked_for(
    p_owner uuid, p_for_agent text, p_is_current boolean, p_user uuid, p_unowned boolean, p_agent text) returns boolean
language sql immutable parallel safe
return p_is_current
    and (p_user is null or p_owner = p_user)
    and (not p_unowned or p_owner is null)
    and (p_agent is null or p_for_agent is null or p_for_agent = p_agent);

-- The ids of each source together. Inlined.
create or replace function memoryd.by_source(p_sources text[], p_ids uuid[]) returns table (source text, ids uuid[])
language sql immutable parallel safe
begin atomic
    select c.source, array_agg(c.id) from unnest(p_sources, p_ids) as c(source, id) group by c.source;
end;

-- The candidates as they are now, read with the caller's own rights: an end user's may not touch the view
-- of all sources, which holds the agents' knowledge. A row without an index is weighed here (the inner
-- offset keeps that from being done for all). The outer offset keeps each source a query of its own, which
-- reads that source's table alone.
create or replace function memoryd.candidate_rows(
    p_caller memoryd.caller, p_sources text[], p_ids uuid[], p_weights sparsevec, p_embedding vector,
    p_user uuid, p_unowned boolean, p_agent text, p_filter jsonb)
returns table (source text, id uuid, lexical double precision, similarity double precision, prior real, says_when boolean,
               session_id uuid, speaker text, created_at timestamptz, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
begin
    if (p_caller).privileged then
        return query
        select r.*
        from memoryd.by_source(p_sources, p_ids) c
        cross join lateral (
            select t.source, t.id, greatest(0, -(coalesce(t.sparse_embedding, w.weights) <#> p_weights)),
                   1 - (t.embedding <=> p_embedding), coalesce(t.prior, w.prior), coalesce(t.says_when, w.says_when),
                   t.session_id, t.speaker, t.created_at, t.weight
            from memoryd.searchable t
            left join lateral (
                select w.* from (select 1 where t.lexemes is null offset 0) fresh
                cross join lateral memoryd.weigh_text(t.searched_text) w
            ) w on true
            where t.source = c.source and t.id = any(c.ids)
              and memoryd.is_asked_for(t.owner_id, t.agent_id, t.is_current, p_user, p_unowned, p_agent)
              and (p_filter = '{}' or t.metadata @> p_filter)
            offset 0
        ) r;
    else
        return query
        select r.*
        from memoryd.by_source(p_sources, p_ids) c
        cross join lateral (
            select t.source, t.id, greatest(0, -(coalesce(t.sparse_embedding, w.weights) <#> p_weights)),
                   1 - (t.embedding <=> p_embedding), coalesce(t.prior, w.prior), coalesce(t.says_when, w.says_when),
                   t.session_id, t.speaker, t.created_at, t.weight
            from memoryd.searchable_by_users t
            left join lateral (
                select w.* from (select 1 where t.lexemes is null offset 0) fresh
                cross join lateral memoryd.weigh_text(t.searched_text) w
            ) w on true
            where t.source = c.source and t.id = any(c.ids)
              and memoryd.is_asked_for(t.owner_id, t.agent_id, t.is_current, p_user, p_unowned, p_agent)
              and (p_filter = '{}' or t.metadata @> p_filter)
            offset 0
        ) r;
    end if;
end
$$;

-- What is shown of rows, read with the caller's own rights.
create or replace function memoryd.show_rows(p_caller memoryd.caller, p_sources text[], p_ids uuid[])
returns table (source text, id uuid, content text, metadata jsonb)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
begin
    if (p_caller).privileged then
        return query
        select r.*
        from memoryd.by_source(p_sources, p_ids) c
        cross join lateral (
            select t.source, t.id, t.content, t.metadata
            from memoryd.searchable t
            where t.source = c.source and t.id = any(c.ids)
            offset 0
        ) r;
    else
        return query
        select r.*
        from memoryd.by_source(p_sources, p_ids) c
        cross join lateral (
            select t.source, t.id, t.content, t.metadata
            from memoryd.searchable_by_users t
            where t.source = c.source and t.id = any(c.ids)
            offset 0
        ) r;
    end if;
end
$$;

-- Each candidate's parts and their sum, relative to the best: the most relevant p_count.
create or replace function memoryd.hybrid_scores(
    p_caller memoryd.caller, p_question memoryd.question, p_sources text[], p_ids uuid[], p_embedding vector,
    p_user uuid, p_unowned boolean, p_agent text, p_filter jsonb, p_count bigint)
returns table (source text, id uuid, similarity double precision, created_at timestamptz, lexical double precision,
               dense double precision, prior double precision, named double precision, timed double precision,
               session double precision, hybrid double precision, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    weights constant sparsevec := (p_question).weights;
    speakers constant text[] := (p_question).speakers;
    ideal constant double precision := (p_question).ideal;
    asks_when constant boolean := (p_question).asks_when;
begin
    return query
    with candidates as materialized (
        select r.*, coalesce(greatest(0, nullif(r.similarity, 'NaN')), 0) as near
        from memoryd.candidate_rows(
            p_caller, p_sources, p_ids, weights, p_embedding, p_user, p_unowned, p_agent, p_filter) r
    ), parts as (
        select c.*,
               coalesce(c.lexical / nullif(max(c.lexical) over (), 0), 0) as lexical_part,
               coalesce(0.5 * c.near / nullif(max(c.near) over (), 0), 0) as dense_part,
               coalesce(c.prior, 0) as prior_part,
               case when c.speaker = any(speakers) then 0.5 else 0 end as named_part,
               case when asks_when and c.says_when then 0.2 else 0 end as timed_part,
               max(least(1, greatest(c.lexical / ideal, c.near))) over () as fit
        from candidates c
        where c.lexical > 0 or c.near > 0.2
    ), sums as (
        select p.*, p.lexical_part + p.dense_part + p.prior_part + p.named_part + p.timed_part as total
        from parts p
    ), sessions as (
        select s.*, case when s.session_id is null then 0
                         else 0.3 * max(s.total) over (partition by s.session_id) end as session_part
        from sums s
    ), hybrids as (
        select s.*, greatest(0, s.total + s.session_part) / nullif(max(s.total + s.session_part) over (), 0) * s.fit as hybrid
        from sessions s
    )
    select h.source, h.id, h.similarity, h.created_at,
           h.lexical_part::double precision, h.dense_part::double precision, h.prior_part::double precision,
           h.named_part::double precision, h.timed_part::double precision, h.session_part::double precision,
           h.hybrid, h.weight::double precision
    from hybrids h
    order by h.hybrid * h.weight desc, h.created_at desc, h.id
    limit p_count;
end
$$;

-- The whole search, with all its parts; recall() and explain_recall() are two views of it. Row-level
-- security decides what is found.
create or replace function memoryd.search(
    p_query text, p_agent text, p_user uuid, p_embedding vector, p_count integer, p_sources text[], p_filter jsonb,
    p_near jsonb default null
) returns table (source text, id uuid, content text, score double precision, similarity double precision, metadata jsonb,
                 created_at timestamptz, lexical double precision, dense double precision, prior double precision,
                 named double precision, timed double precision, session double precision, relevance double precision,
                 weight double precision, recency double precision, association double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
    wanted text[] := coalesce(p_sources, array['memory', 'conversation', 'document', 'knowledge', 'insight']);
    condition constant jsonb := coalesce(p_filter, '{}');
    asked_keywords constant text[] := public.extract_keywords(p_query);
    -- With a filter, many of the nearest may fall away.
    reach constant integer := case when condition = '{}' then 200 else 4000 end;
    asked record;
    candidates record;
begin
    perform memoryd.check_search(p_embedding, p_count, wanted, condition);
    -- Who is nobody finds nothing; who has switched memory off is told nothing.
    if (not caller.privileged and caller.user_id is null and p_user is null)
       or memoryd.memory_is_off(coalesce(p_user, caller.user_id)) then
        return;
    end if;
    if not caller.privileged then
        wanted := array_remove(wanted, 'knowledge'); -- which is the agents'
    end if;
    select * into asked from memoryd.scopes_asked(caller, p_agent, p_user);
    select * into candidates
    from memoryd.find_candidates(p_query, asked.scopes, wanted, p_embedding, reach, p_near);

    return query
    with ranked as materialized (
        select h.*,
               case when k.keywords && asked_keywords
                    then (select count(*) from unnest(asked_keywords) w where w = any(k.keywords))::double precision
                         / cardinality(asked_keywords)
                    else h.hybrid end as relevance
        from memoryd.hybrid_scores(
            caller, candidates.question, candidates.sources, candidates.ids, p_embedding, p_user, asked.unowned, p_agent,
            condition, greatest(100, 2::bigint * p_count)) h
        left join lateral (
            select t.keywords from memoryd.searchable_by_users t
            where p_embedding is null and t.source = h.source and t.id = h.id
            offset 0
        ) k on true
    ), best_memories as (
        select array_agg(t.id) as ids
        from (select r.id from ranked r where r.source = 'memory' and r.relevance > 0.3
              order by r.relevance desc limit 20) t
    ), links as materialized (
        select l.id, l.strength from best_memories b cross join lateral memoryd.linked_to(b.ids) l
    ), scored as (
        select r.source, r.id, r.similarity, r.created_at, r.lexical, r.dense, r.prior, r.named, r.timed, r.session,
               r.relevance, r.weight, coalesce(0.2 * l.strength, 0) as association
        from ranked r
        left join links l on l.id = r.id and r.source = 'memory'
        union all
        -- What is linked to the best belongs to it, whatever its own words.
        select m.source, m.id, 1 - (m.embedding <=> p_embedding), m.created_at, 0, 0, 0, 0, 0, 0,
               case when p_embedding is null and m.keywords && asked_keywords
                    then (select count(*) from unnest(asked_keywords) w where w = any(m.keywords))::double precision
                         / cardinality(asked_keywords)
                    else 0 end,
               m.weight, 0.2 * l.strength
        from links l
        join memoryd.source_memory m on m.id = l.id
        where not exists (select from ranked r where r.id = m.id and r.source = 'memory')
          and memoryd.is_asked_for(m.owner_id, m.agent_id, m.is_current, p_user, asked.unowned, p_agent)
          and (condition = '{}' or m.metadata @> condition)
    ), best as materialized (
        select s.*, memoryd.recency(s.created_at) as recency,
               s.relevance * s.weight + memoryd.recency(s.created_at) + s.association as rank
        from scored s
        where s.relevance > 0 or s.association > 0
        order by rank desc, s.created_at desc, s.id
        limit p_count
    )
    select b.source, b.id, s.content, least(1, b.rank), b.similarity, s.metadata, b.created_at, b.lexical, b.dense, b.prior,
           b.named, b.timed, b.session, b.relevance, b.weight, b.recency, b.association
    from best b
    join memoryd.show_rows(
        caller, array(select b.source from best b order by b.id), array(select b.id from best b order by b.id)) s
        on s.id = b.id and s.source = b.source
    order by b.rank desc, b.created_at desc, b.id;
end
$$;
