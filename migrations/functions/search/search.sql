-- The whole search: from a question to the rows that the caller may read, with the parts of each score.

-- Refuses arguments that the search cannot work with.
create or replace function memoryd.check_search(
    p_embedding vector, p_count integer, p_sources text[], p_filter jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    known constant text[] := memoryd.sources();
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
    if vector_dims(p_embedding) <> memoryd.searched_dimensions() then
        raise exception 'query_embedding has % dimensions, this database''s have %',
                        vector_dims(p_embedding), memoryd.searched_dimensions()
            using errcode = 'invalid_parameter_value',
                  hint = 'Embed the query with the model that the rows are embedded with.';
    end if;
end
$$;

-- What recall finds for a caller, with the parts of each score, in scopes that are open to them. Not for
-- clients: they would say who they are.
create or replace function memoryd.find_as(
    p_caller memoryd.caller, p_query text, p_agent text, p_user uuid, p_embedding vector, p_count bigint,
    p_sources text[], p_filter jsonb, p_near jsonb, p_conditions memoryd.conditions)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               lexical double precision, dense double precision, prior double precision,
               named double precision, timed double precision, session double precision,
               relevance double precision, weight double precision, shares integer)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    -- Whose rights decide what is found of what is shared: a service that asks for a user has that user's.
    reader memoryd.caller := p_caller;
    access public.user_memory_access;
    sources constant text[] := memoryd.sources_asked(p_caller, p_sources);
    -- A filter, or a context, may exclude many of the nearest. Without one, 100 find no more among the best
    -- twenty than 60 do (`python -m benchmarks.evidence`). p_count is twice what is shown.
    reach constant integer :=
        case when p_filter = '{}' and memoryd.current_context() is null
             then least(4000, greatest(60, p_count / 2)) else 4000 end;
    asked record;
    scopes bigint[];
    question memoryd.question;
begin
    -- An end user without an id finds nothing. Nothing is found of a user who has switched memory off.
    if (not (p_caller).privileged and (p_caller).user_id is null)
       or memoryd.memory_is_off(coalesce(p_user, (p_caller).user_id)) then
        return;
    end if;
    asked := memoryd.scopes_asked(p_caller, p_agent, p_user, p_sources);
    scopes := memoryd.open_scopes(p_caller, asked.scopes);
    if (p_caller).privileged and p_user is not null and memoryd.has_shared(p_user) then
        scopes := scopes || 0::bigint;
        reader := (p_user, false, false)::memoryd.caller;
    end if;
    if not reader.privileged then
        access := memoryd.access_of(reader.user_id);
    end if;
    question := memoryd.question(reader, p_query, scopes, p_near);
    return query
    select h.*
    from memoryd.rank_passages(
        reader, access, sources, scopes,
        memoryd.candidates(reader, access, sources, scopes, question, p_embedding, reach, p_conditions),
        question, p_embedding, p_user, memoryd.asks_unowned(p_caller, p_agent, p_user), p_agent, p_filter,
        asked.groups, p_conditions) h
    order by greatest(h.relevance * h.weight, case when h.shares = 2 then
                 max(h.relevance * h.weight) filter (where h.shares = 0) over () end) desc,
             h.created_at desc, h.id
    limit p_count;
end
$$;

-- What the caller may find, or (p_as) what this user may, which only a service may ask: for an agent that
-- works for the user. The only function of the search that runs with the owner's rights: of a row it gives
-- back its id, its score and its time, and only of rows that the caller may read.
--
-- The settings apply to all functions that are called from here. Their plans are made once in a session.
-- Without the settings, a generic plan, which does not know how few rows are wanted, may read a whole table;
-- and with a million rows the planner would start parallel workers, which takes longer than the search. So
-- would compiling the plans (jit), which Postgres does for what looks expensive, as a plan without a table
-- scan does.
create or replace function memoryd.find(
    p_query text, p_agent text, p_user uuid, p_embedding vector, p_count bigint, p_sources text[],
    p_filter jsonb, p_near jsonb default null, p_conditions memoryd.conditions default null,
    p_as uuid default null)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               lexical double precision, dense double precision, prior double precision,
               named double precision, timed double precision, session double precision,
               relevance double precision, weight double precision, shares integer)
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
begin
    return query
    select f.*
    from memoryd.find_as(
        case when p_as is not null and caller.is_service then (p_as, false, false)::memoryd.caller
             else caller end,
        p_query, p_agent, p_user, p_embedding, p_count, p_sources, p_filter, p_near, p_conditions) f;
end
$$;

-- The ids, grouped by source. Inlined.
create or replace function memoryd.by_source(p_sources text[], p_ids uuid[])
returns table (source text, ids uuid[])
language sql immutable parallel safe
begin atomic
    select c.source, array_agg(c.id) from unnest(p_sources, p_ids) as c(source, id) group by c.source;
end;

-- The metadata that a result shows: of a chunk also which document it is of. Inlined.
create or replace function memoryd.shown_metadata(p_source text, p_id uuid, p_metadata jsonb) returns jsonb
language sql stable parallel safe
return case when p_source = 'document' then p_metadata || memoryd.document_of_chunk(p_id)
            else p_metadata end;

-- What the results show of these rows, read with the caller's own rights. End
-- users have no right to the view of all sources, because it contains the agents' knowledge: so there are
-- two queries. The offset keeps each source a query of its own, which reads only that source's table.
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
            select t.source, t.id, t.content, memoryd.shown_metadata(t.source, t.id, t.metadata)
            from memoryd.searchable t
            where t.source = c.source and t.id = any(c.ids)
            offset 0
        ) r;
    else
        return query
        select r.*
        from memoryd.by_source(p_sources, p_ids) c
        cross join lateral (
            select t.source, t.id, t.content, memoryd.shown_metadata(t.source, t.id, t.metadata)
            from memoryd.searchable_by_users t
            where t.source = c.source and t.id = any(c.ids)
            offset 0
        ) r;
    end if;
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
    p_ids uuid[], p_asked text[], p_user uuid, p_unowned boolean, p_agent text, p_filter jsonb)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               relevance double precision, weight double precision)
language sql stable
begin atomic
    select m.source, m.id, null::double precision, m.created_at, coalesce(k.part, 0), m.weight
    from memoryd.source_memory m
    left join lateral memoryd.keyword_part(m.keywords, p_asked) k on true
    where m.id = any(p_ids)
      and memoryd.is_asked_for(m.owner_id, m.agent_id, m.is_current, p_user, p_unowned, p_agent)
      and (m.expires_at is null or m.expires_at > now())
      and (p_filter = '{}' or m.metadata @> p_filter);
end;

-- What a link of this strength to one of the best memories adds to a score: a fifth of it, where keywords
-- alone decide (p_added); else what is missing to that, so that a link brings a memory in, and changes
-- nothing among those that answer the question themselves.
create or replace function memoryd.association(
    p_strength double precision, p_score double precision, p_added boolean) returns double precision
language sql immutable parallel safe
return coalesce(case when p_added then 0.2 * p_strength else greatest(0, 0.2 * p_strength - p_score) end, 0);

-- The whole search, with the parts of each score; recall() and explain_recall() show its result. Row-level
-- security decides what is found.
create or replace function memoryd.search(
    p_query text, p_agent text, p_user uuid, p_embedding vector, p_count integer, p_sources text[],
    p_filter jsonb, p_near jsonb default null, p_conditions memoryd.conditions default null)
returns table (source text, id uuid, content text, score double precision, similarity double precision,
               metadata jsonb, created_at timestamptz, lexical double precision, dense double precision,
               prior double precision, named double precision, timed double precision,
               session double precision, relevance double precision, weight double precision,
               recency double precision, association double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
    condition constant jsonb := coalesce(p_filter, '{}');
    -- They count only without an embedding.
    asked_keywords constant text[] := case when p_embedding is null then public.extract_keywords(p_query) end;
    unowned constant boolean := memoryd.asks_unowned(caller, p_agent, p_user);
begin
    perform memoryd.check_search(p_embedding, p_count, p_sources, condition);
    -- An end user without an id finds nothing. Nothing is found of a user who has switched memory off.
    if (not caller.privileged and caller.user_id is null and p_user is null)
       or memoryd.memory_is_off(coalesce(p_user, caller.user_id)) then
        return;
    end if;
    return query
    with ranked as materialized (
        select h.source, h.id, h.similarity, h.created_at, h.lexical, h.dense, h.prior, h.named,
               h.timed, h.session, coalesce(k.part, h.relevance) as relevance, h.weight, h.shares
        from memoryd.find(p_query, p_agent, p_user, p_embedding, greatest(100, 2::bigint * p_count),
                          p_sources, condition, p_near, p_conditions) h
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
        select r.*,
               memoryd.association(l.strength, r.relevance * r.weight, p_embedding is null) as association
        from ranked r left join links l on l.id = r.id and r.source = 'memory'
        union all
        select m.source, m.id, m.similarity, m.created_at, 0, 0, 0, 0, 0, 0, m.relevance, m.weight,
               0, 0.2 * l.strength
        from linked g
        cross join lateral memoryd.linked_rows(g.ids, asked_keywords, p_user, unowned, p_agent, condition) m
        join links l on l.id = m.id
        where memoryd.meets(p_conditions, m.created_at, null, null, null, null)
          and (p_conditions is null or memoryd.stood(p_conditions, m.source, m.id, true, m.created_at, null))
    ), summed as (
        select s.*, r.recency, s.relevance * s.weight + r.recency + s.association as total
        from scored s
        cross join lateral (
            select memoryd.recency(s.created_at)
                   * case when p_embedding is null then 1 else s.relevance * s.weight end as recency
            offset 0) r
        where s.relevance > 0 or s.association > 0
    ), best as materialized (
        select s.*, greatest(s.total, case when s.shares = 2 then
                   max(s.total) filter (where s.shares = 0) over () end) as rank
        from summed s order by rank desc, s.shares desc, s.created_at desc, s.id limit p_count
    )
    select b.source, b.id, s.content, least(1, b.rank), b.similarity, s.metadata, b.created_at, b.lexical,
           b.dense, b.prior, b.named, b.timed, b.session, b.relevance,
           b.weight + coalesce((b.rank - b.total) / nullif(b.relevance, 0), 0), b.recency, b.association
    from best b
    join memoryd.show_rows(caller, array(select b.source from best b order by b.id),
                           array(select b.id from best b order by b.id)) s
        on s.id = b.id and s.source = b.source
    order by b.rank desc, b.shares desc, b.created_at desc, b.id;
end
$$;
