-- The candidates in order: how well each answers the question, and which of them are returned.
--
-- relevance   From 0 to 1. The sum of lexical, dense, prior, named, timed and session. Lexical and dense
-- are
--             relative to the best candidate's. The sum is relative to the best sum, times how well the best
--             candidate fits at all. Without an embedding the relevance of a memory or an insight is the
--             part of the question's keywords that it has.
-- score       min(1, relevance x weight + recency + association)

-- Refuses arguments that the search cannot work with.
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
            using errcode = 'invalid_parameter_value',
                  hint = 'Sources: ' || array_to_string(known, ', ') || '.';
    end if;
    select array_agg(coalesce(s, 'null')) into unknown
    from unnest(p_sources) s
    where s <> all (known) or s is null;
    if unknown is not null then
        raise exception 'unknown source %', unknown[1]
            using errcode = 'invalid_parameter_value',
                  hint = 'Sources: ' || array_to_string(known, ', ') || '.';
    end if;
    if jsonb_typeof(p_filter) <> 'object' then
        raise exception 'filter is of type %', jsonb_typeof(p_filter)
            using errcode = 'invalid_parameter_value',
                  hint = 'Give an object that the metadata contain, such as {"kind": "fact"}.';
    end if;
    if vector_dims(p_embedding) <> :dimensions then
        raise exception 'query_embedding has % dimensions, this database''s have :dimensions',
                        vector_dims(p_embedding)
            using errcode = 'invalid_parameter_value',
                  hint = 'Embed the query with the model that the rows are embedded with.';
    end if;
end
$$;

-- Whether a row is one of those asked for: of this user (null: of any), only without an owner (p_unowned),
-- for this agent (null: for any). Inlined.
create or replace function memoryd.is_asked_for(
    p_owner uuid, p_for_agent text, p_is_current boolean, p_user uuid, p_unowned boolean, p_agent text)
returns boolean
language sql immutable parallel safe
return p_is_current
    and (p_user is null or p_owner = p_user)
    and (not p_unowned or p_owner is null)
    and (p_agent is null or p_for_agent is null or p_for_agent = p_agent);

-- The ids, grouped by source. Inlined.
create or replace function memoryd.by_source(p_sources text[], p_ids uuid[])
returns table (source text, ids uuid[])
language sql immutable parallel safe
begin atomic
    select c.source, array_agg(c.id) from unnest(p_sources, p_ids) as c(source, id) group by c.source;
end;

-- The candidates as they are now, read with the caller's own rights. End users have no right to the view of
-- all sources, because it contains the agents' knowledge: so there are two queries. A row that has no index
-- yet is weighed here; the inner offset prevents that all rows are weighed. The outer offset keeps each
-- source a query of its own, which reads only that source's table.
create or replace function memoryd.candidate_rows(
    p_caller memoryd.caller, p_sources text[], p_ids uuid[], p_weights sparsevec, p_embedding vector,
    p_user uuid, p_unowned boolean, p_agent text, p_filter jsonb)
returns table (source text, id uuid, lexical double precision, similarity double precision, prior real,
               says_when boolean, session_id uuid, speaker text, created_at timestamptz,
               weight double precision)
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
            select t.source, t.id,
                   greatest(0, -(coalesce(t.sparse_embedding, w.weights) <#> p_weights)),
                   1 - (t.embedding <=> p_embedding),
                   coalesce(t.prior, w.prior),
                   coalesce(t.says_when, w.says_when),
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
            select t.source, t.id,
                   greatest(0, -(coalesce(t.sparse_embedding, w.weights) <#> p_weights)),
                   1 - (t.embedding <=> p_embedding),
                   coalesce(t.prior, w.prior),
                   coalesce(t.says_when, w.says_when),
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

-- What the results show of these rows, read with the caller's own rights. See candidate_rows() for why
-- there are two queries.
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

-- The parts of each candidate's relevance, and their sum relative to the best (hybrid). Returns the p_count
-- candidates with the highest hybrid x weight.
create or replace function memoryd.hybrid_scores(
    p_caller memoryd.caller, p_question memoryd.question, p_sources text[], p_ids uuid[], p_embedding vector,
    p_user uuid, p_unowned boolean, p_agent text, p_filter jsonb, p_count bigint)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               lexical double precision, dense double precision, prior double precision,
               named double precision, timed double precision, session double precision,
               hybrid double precision, weight double precision)
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
        select s.*,
               greatest(0, s.total + s.session_part)
                   / nullif(max(s.total + s.session_part) over (), 0)
                   * s.fit as hybrid
        from sessions s
    )
    select h.source, h.id, h.similarity, h.created_at,
           h.lexical_part::double precision, h.dense_part::double precision,
           h.prior_part::double precision, h.named_part::double precision,
           h.timed_part::double precision, h.session_part::double precision,
           h.hybrid, h.weight::double precision
    from hybrids h
    order by h.hybrid * h.weight desc, h.created_at desc, h.id
    limit p_count;
end
$$;

-- The part of the asked keywords that a row has, from 0 to 1; no row where it has none of them. Inlined: as
-- a function that returns a row, since one that returns a value is not inlined if it contains a subquery.
create or replace function memoryd.keyword_part(p_keywords text[], p_asked text[])
returns table (part double precision)
language sql immutable parallel safe
begin atomic
    select count(*)::double precision / cardinality(p_asked)
    from unnest(p_asked) as w(word)
    where w.word = any(p_keywords)
    having count(*) > 0;
end;

-- The same for a row of a source. p_asked null: no row is read. The offset keeps the keywords of one row in
-- a query of their own.
create or replace function memoryd.row_keyword_part(p_source text, p_id uuid, p_asked text[])
returns table (part double precision)
language sql stable
begin atomic
    select k.part
    from (select t.keywords from memoryd.searchable_by_users t
          where p_asked is not null and t.source = p_source and t.id = p_id
          offset 0) r
    cross join lateral memoryd.keyword_part(r.keywords, p_asked) k;
end;

-- Memories that are linked to the best results, among these ids: each belongs to the results because of its
-- link, even if it has none of the question's words. p_asked: the question's keywords (null with an
-- embedding). Inlined, and reads with the caller's rights.
create or replace function memoryd.linked_rows(
    p_ids uuid[], p_embedding vector, p_asked text[], p_user uuid, p_unowned boolean, p_agent text,
    p_filter jsonb)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               relevance double precision, weight double precision)
language sql stable
begin atomic
    select m.source, m.id, 1 - (m.embedding <=> p_embedding), m.created_at, coalesce(k.part, 0), m.weight
    from memoryd.source_memory m
    left join lateral memoryd.keyword_part(m.keywords, p_asked) k on true
    where m.id = any(p_ids)
      and memoryd.is_asked_for(m.owner_id, m.agent_id, m.is_current, p_user, p_unowned, p_agent)
      and (p_filter = '{}' or m.metadata @> p_filter);
end;

-- The whole search, with the parts of each score; recall() and explain_recall() show its result. Row-level
-- security decides what is found.
create or replace function memoryd.search(
    p_query text, p_agent text, p_user uuid, p_embedding vector, p_count integer, p_sources text[],
    p_filter jsonb, p_near jsonb default null)
returns table (source text, id uuid, content text, score double precision, similarity double precision,
               metadata jsonb, created_at timestamptz, lexical double precision, dense double precision,
               prior double precision, named double precision, timed double precision,
               session double precision, relevance double precision, weight double precision,
               recency double precision, association double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
    condition constant jsonb := coalesce(p_filter, '{}');
    -- They count only without an embedding.
    asked_keywords constant text[] := case when p_embedding is null then public.extract_keywords(p_query) end;
    -- A filter may exclude many of the nearest.
    reach constant integer := case when condition = '{}' then 200 else 4000 end;
    asked record;
    candidates record;
begin
    perform memoryd.check_search(p_embedding, p_count, p_sources, condition);
    -- An end user without an id finds nothing. Nothing is found of a user who has switched memory off.
    if (not caller.privileged and caller.user_id is null and p_user is null)
       or memoryd.memory_is_off(coalesce(p_user, caller.user_id)) then
        return;
    end if;
    select * into asked from memoryd.scopes_asked(caller, p_agent, p_user);
    select * into candidates from memoryd.find_candidates(
        p_query, asked.scopes, memoryd.sources_asked(caller, p_sources), p_embedding, reach, p_near);

    return query
    with ranked as materialized (
        select h.*, coalesce(k.part, h.hybrid) as relevance
        from memoryd.hybrid_scores(
            caller, candidates.question, candidates.sources, candidates.ids, p_embedding,
            p_user, asked.unowned, p_agent, condition, greatest(100, 2::bigint * p_count)) h
        left join lateral memoryd.row_keyword_part(h.source, h.id, asked_keywords) k on true
    ), best_memories as (
        select array_agg(t.id) as ids
        from (select r.id from ranked r where r.source = 'memory' and r.relevance > 0.3
              order by r.relevance desc limit 20) t
    ), links as materialized (
        select l.id, l.strength from best_memories b cross join lateral memoryd.linked_to(b.ids) l
    ), linked as (
        select array_agg(l.id) as ids from links l
        where l.id not in (select r.id from ranked r where r.source = 'memory')
    ), scored as (
        select r.source, r.id, r.similarity, r.created_at, r.lexical, r.dense, r.prior, r.named, r.timed,
               r.session, r.relevance, r.weight, coalesce(0.2 * l.strength, 0) as association
        from ranked r
        left join links l on l.id = r.id and r.source = 'memory'
        union all
        select m.source, m.id, m.similarity, m.created_at, 0, 0, 0, 0, 0,
               0, m.relevance, m.weight, 0.2 * l.strength
        from linked g
        cross join lateral memoryd.linked_rows(
            g.ids, p_embedding, asked_keywords, p_user, asked.unowned, p_agent, condition) m
        join links l on l.id = m.id
    ), best as materialized (
        select s.*, memoryd.recency(s.created_at) as recency,
               s.relevance * s.weight + memoryd.recency(s.created_at) + s.association as rank
        from scored s
        where s.relevance > 0 or s.association > 0
        order by rank desc, s.created_at desc, s.id
        limit p_count
    )
    select b.source, b.id, s.content, least(1, b.rank), b.similarity, s.metadata, b.created_at, b.lexical,
           b.dense, b.prior, b.named, b.timed, b.session, b.relevance, b.weight, b.recency, b.association
    from best b
    join memoryd.show_rows(caller, array(select b.source from best b order by b.id),
                           array(select b.id from best b order by b.id)) s
        on s.id = b.id and s.source = b.source
    order by b.rank desc, b.created_at desc, b.id;
end
$$;
