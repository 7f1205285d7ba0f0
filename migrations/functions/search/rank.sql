-- The candidates in order: how well each answers the question, and which of them are returned.
--
-- lexical     BM25 of the passage's words, relative to the best candidate's. Each word asked for is apart: where
--             a message lacks one, the messages beside it count for it, the less the longer the message is.
-- dense       The cosine similarity of the embeddings, relative to the best candidate's.
-- relevance   From 0 to 1. The sum of lexical, dense, prior, named, timed and session, relative to the best sum,
--             times how well the best candidate fits at all.
-- score       min(1, relevance x weight + recency + association)

-- Refuses arguments that the search cannot work with.
create or replace function memoryd.check_search(
    p_embedding vector, p_count integer, p_sources text[], p_filter jsonb) returns void
language plpgsql immutable
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

-- Rows that are not indexed yet, since they were written a moment ago: 200, and of 4,000 that came with an
-- embedding the nearest 64. They are weighed here.
create or replace function memoryd.fresh_passages(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[],
    p_embedding vector)
returns table (source text, id uuid, embedding vector, weights sparsevec, length integer,
               says_when boolean, asks boolean, owner_id uuid, agent_id text, is_current boolean,
               expires_at timestamptz, session_id uuid, "position" integer, speaker text,
               created_at timestamptz, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    return query
    with waiting as materialized (
        (select u.source, u.id from memoryd.unindexed u
         where (p_scopes is null or u.scope = any(p_scopes)) and u.source = any(p_sources)
         limit 200)
        union
        (select g.source, g.id
         from (select u.source, u.id from memoryd.unindexed u
               where u.given and (p_scopes is null or u.scope = any(p_scopes))
                 and u.source = any(p_sources) and p_embedding is not null
               limit 4000) g
         cross join lateral (
             select t.given_embedding from memoryd.searchable t where t.source = g.source and t.id = g.id
         ) r
         order by r.given_embedding <=> p_embedding
         limit 64)
    ), fresh as materialized (
        select s.*, left(s.searched_text, 8192) as text, row_number() over () as place
        from waiting w
        cross join lateral (
            select t.* from memoryd.searchable t
            where t.source = w.source and t.id = w.id
              and memoryd.may_find(p_caller, p_access, t.scope, t.owner_id, t.access_level,
                                   t.visibility_tags, t.row_metadata)
        ) s
    ), columns as (
        select array_agg(f.text order by f.place) as texts,
               array_agg(case when f.session_id is not null then f.created_at end order by f.place) as dates,
               array_agg(f.speaker order by f.place) as speakers
        from fresh f
    )
    select f.source, f.id, f.given_embedding, w.weights, w.length, memoryd.says_when(f.text),
           memoryd.asks(f.text), f.owner_id, f.agent_id, f.is_current, f.expires_at, f.session_id,
           f.position, f.speaker, f.created_at, f.weight
    from columns c
    cross join lateral memoryd.weigh_passages(c.texts, c.dates, c.speakers) w
    join fresh f on f.place = w.place;
end
$$;

-- The candidates, each with the score of each part of the question (c1 to c8) by its own words.
create or replace function memoryd.read_passages(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[],
    p_places tid[], p_question memoryd.question, p_embedding vector)
returns table (source text, id uuid, c1 double precision, c2 double precision, c3 double precision,
               c4 double precision, c5 double precision, c6 double precision, c7 double precision,
               c8 double precision, similarity double precision, length integer, says_when boolean,
               asks boolean, owner_id uuid, agent_id text, is_current boolean, expires_at timestamptz,
               session_id uuid, "position" integer, speaker text, created_at timestamptz,
               weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    p1 constant sparsevec := (p_question).parts[1];
    p2 constant sparsevec := (p_question).parts[2];
    p3 constant sparsevec := (p_question).parts[3];
    p4 constant sparsevec := (p_question).parts[4];
    p5 constant sparsevec := (p_question).parts[5];
    p6 constant sparsevec := (p_question).parts[6];
    p7 constant sparsevec := (p_question).parts[7];
    p8 constant sparsevec := (p_question).parts[8];
    sought constant halfvec := l2_normalize(p_embedding)::halfvec;
    average constant double precision := (p_question).average_length;
begin
    return query
    select r.source, r.id, n.f * -(r.weights <#> p1), n.f * -(r.weights <#> p2), n.f * -(r.weights <#> p3),
           n.f * -(r.weights <#> p4), n.f * -(r.weights <#> p5), n.f * -(r.weights <#> p6),
           n.f * -(r.weights <#> p7), n.f * -(r.weights <#> p8), 1 - (r.embedding <=> sought),
           r.length, r.says_when, r.asks, r.owner_id, r.agent_id, r.is_current, r.expires_at, r.session_id,
           r.position, r.speaker, r.created_at, r.weight
    from (select e.source, e.id, e.weights, e.embedding, e.length, e.says_when, e.asks, e.owner_id,
                 e.agent_id, e.is_current, e.expires_at, e.session_id, e.position, e.speaker, e.created_at,
                 e.weight::double precision as weight
          from memoryd.entries e
          where e.ctid = any(p_places)
          union all
          select f.source, f.id, f.weights, l2_normalize(f.embedding)::halfvec, f.length, f.says_when, f.asks, f.owner_id,
                 f.agent_id, f.is_current, f.expires_at, f.session_id, f.position, f.speaker, f.created_at,
                 f.weight
          from memoryd.fresh_passages(p_caller, p_access, p_sources, p_scopes, p_embedding) f) r
    cross join lateral (select 1 / sqrt(0.25 + 0.75 * greatest(1, r.length) / average) as f offset 0) n;
end
$$;

-- The part of the question that a passage has, with what the messages beside it have: the own words count
-- whole; of what is missing, the messages beside it fill a part. Inlined.
create or replace function memoryd.filled(
    p_own double precision, p_beside double precision, p_top double precision, p_share double precision)
returns double precision
language sql immutable parallel safe
return coalesce(p_own + greatest(0, 1 - p_own / p_top) * least(p_top, coalesce(p_beside, 0)) * p_share, 0);

-- The candidates with their lexical score: their own words, and those of the messages beside them. The three
-- messages before a message count 0.75, 0.5 and 0.25, the two after it 0.5 and 0.25, all the less the longer
-- the message itself is.
create or replace function memoryd.lexical_scores(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[],
    p_places tid[], p_question memoryd.question, p_embedding vector, p_user uuid, p_unowned boolean,
    p_agent text, p_filter jsonb)
returns table (source text, id uuid, lexical double precision, similarity double precision,
               length integer, says_when boolean, asks boolean, session_id uuid, speaker text,
               created_at timestamptz, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    t constant double precision[] := (p_question).tops;
begin
    return query
    with read as materialized (
        select r.*
        from memoryd.read_passages(
            p_caller, p_access, p_sources, p_scopes, p_places, p_question, p_embedding) r
        where memoryd.is_asked_for(r.owner_id, r.agent_id, r.is_current, p_user, p_unowned, p_agent)
          and (r.expires_at is null or r.expires_at > now())
          and (p_filter = '{}' or exists (
              select from memoryd.searchable s
              where s.source = r.source and s.id = r.id and s.metadata @> p_filter))
    ), turns as materialized (
        select r.session_id, r.position,
               max(r.c1) as c1, max(r.c2) as c2, max(r.c3) as c3, max(r.c4) as c4,
               max(r.c5) as c5, max(r.c6) as c6, max(r.c7) as c7, max(r.c8) as c8
        from read r
        where r.session_id is not null
        group by r.session_id, r.position
    ), beside as (
        select m.session_id, m.position,
               sum(s.weight * n.c1) as c1, sum(s.weight * n.c2) as c2, sum(s.weight * n.c3) as c3,
               sum(s.weight * n.c4) as c4, sum(s.weight * n.c5) as c5, sum(s.weight * n.c6) as c6,
               sum(s.weight * n.c7) as c7, sum(s.weight * n.c8) as c8
        from turns m
        cross join (values (-3, 0.25), (-2, 0.5), (-1, 0.75), (1, 0.5), (2, 0.25)) as s(step, weight)
        join turns n on n.session_id = m.session_id and n.position = m.position + s.step
        group by m.session_id, m.position
    )
    select r.source, r.id,
           memoryd.filled(r.c1, b.c1, t[1], f.share)
           + memoryd.filled(r.c2, b.c2, t[2], f.share)
           + memoryd.filled(r.c3, b.c3, t[3], f.share)
           + memoryd.filled(r.c4, b.c4, t[4], f.share)
           + memoryd.filled(r.c5, b.c5, t[5], f.share)
           + memoryd.filled(r.c6, b.c6, t[6], f.share)
           + memoryd.filled(r.c7, b.c7, t[7], f.share)
           + memoryd.filled(r.c8, b.c8, t[8], f.share),
           r.similarity, r.length, r.says_when, r.asks, r.session_id, r.speaker, r.created_at, r.weight
    from read r
    cross join lateral (select 80.0 / (80 + r.length) as share offset 0) f
    left join beside b on b.session_id = r.session_id and b.position = r.position;
end
$$;

-- The candidates in order: the parts of the relevance of each, and their sum relative to the best (hybrid). A
-- row is as good as its best passage. The p_count rows with the highest hybrid x weight.
create or replace function memoryd.hybrid_scores(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[],
    p_places tid[], p_question memoryd.question, p_embedding vector, p_user uuid, p_unowned boolean,
    p_agent text, p_filter jsonb, p_count bigint)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               lexical double precision, dense double precision, prior double precision,
               named double precision, timed double precision, session double precision,
               relevance double precision, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    speakers constant text[] := (p_question).speakers;
    ideal constant double precision := (p_question).ideal;
    asks_when constant boolean := (p_question).asks_when;
begin
    return query
    with candidates as materialized (
        select s.*, coalesce(greatest(0, nullif(s.similarity, 'NaN')), 0) as near
        from memoryd.lexical_scores(
            p_caller, p_access, p_sources, p_scopes, p_places, p_question, p_embedding,
            p_user, p_unowned, p_agent, p_filter) s
    ), parts as (
        select c.*,
               coalesce(c.lexical / nullif(max(c.lexical) over (), 0), 0) as lexical_part,
               coalesce(0.5 * c.near / nullif(max(c.near) over (), 0), 0) as dense_part,
               case when c.asks then -0.1 else 0 end as prior_part,
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
                         else 0.3 * max(s.total) over (partition by s.session_id) end as session_part,
               row_number() over (partition by s.source, s.id order by s.total desc) as place
        from sums s
    ), hybrids as (
        select s.*,
               greatest(0, s.total + s.session_part)
                   / nullif(max(s.total + s.session_part) over (), 0)
                   * s.fit as relevance
        from sessions s
        where s.place = 1
    )
    select h.source, h.id, h.similarity, h.created_at,
           h.lexical_part::double precision, h.dense_part::double precision,
           h.prior_part::double precision, h.named_part::double precision,
           h.timed_part::double precision, h.session_part::double precision,
           h.relevance, h.weight::double precision
    from hybrids h
    order by h.relevance * h.weight desc, h.created_at desc, h.id
    limit p_count;
end
$$;

-- What recall finds, with the parts of each score, in scopes that are open to the caller. The only function
-- of the search that runs with the owner's rights: of a row it gives back its id, its score and its time, and
-- only of rows that the caller may read.
--
-- The settings apply to all functions that are called from here. Their plans are made once in a session.
-- Without the settings, a generic plan, which does not know how few rows are wanted, may read a whole table;
-- and with a million rows the planner would start parallel workers, which takes longer than the search.
create or replace function memoryd.find(
    p_query text, p_agent text, p_user uuid, p_embedding vector, p_count bigint, p_sources text[],
    p_filter jsonb, p_near jsonb default null)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               lexical double precision, dense double precision, prior double precision,
               named double precision, timed double precision, session double precision,
               relevance double precision, weight double precision)
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    access constant public.user_memory_access :=
        case when not caller.privileged then memoryd.caller_access() end;
    sources constant text[] := memoryd.sources_asked(caller, p_sources);
    -- A filter may exclude many of the nearest.
    reach constant integer := case when p_filter = '{}' then 200 else 4000 end;
    asked record;
    scopes bigint[];
    question memoryd.question;
begin
    -- An end user without an id finds nothing. Nothing is found of a user who has switched memory off.
    if (not caller.privileged and caller.user_id is null)
       or memoryd.memory_is_off(coalesce(p_user, caller.user_id)) then
        return;
    end if;
    asked := memoryd.scopes_asked(caller, p_agent, p_user);
    scopes := memoryd.open_scopes(caller, asked.scopes);
    question := memoryd.question(caller, p_query, scopes, p_near);
    return query
    select h.*
    from memoryd.hybrid_scores(
        caller, access, sources, scopes,
        memoryd.candidates(caller, access, sources, scopes, question, p_embedding, reach),
        question, p_embedding, p_user, asked.unowned, p_agent, p_filter, p_count) h;
end
$$;

-- The ids, grouped by source. Inlined.
create or replace function memoryd.by_source(p_sources text[], p_ids uuid[])
returns table (source text, ids uuid[])
language sql immutable parallel safe
begin atomic
    select c.source, array_agg(c.id) from unnest(p_sources, p_ids) as c(source, id) group by c.source;
end;

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
    asked record;
begin
    perform memoryd.check_search(p_embedding, p_count, p_sources, condition);
    -- An end user without an id finds nothing. Nothing is found of a user who has switched memory off.
    if (not caller.privileged and caller.user_id is null and p_user is null)
       or memoryd.memory_is_off(coalesce(p_user, caller.user_id)) then
        return;
    end if;
    select * into asked from memoryd.scopes_asked(caller, p_agent, p_user);

    return query
    with ranked as materialized (
        select h.source, h.id, h.similarity, h.created_at, h.lexical, h.dense, h.prior, h.named, h.timed,
               h.session, h.weight, coalesce(k.part, h.relevance) as relevance
        from memoryd.find(
            p_query, p_agent, p_user, p_embedding, greatest(100, 2::bigint * p_count), p_sources,
            condition, p_near) h
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
            g.ids, asked_keywords, p_user, asked.unowned, p_agent, condition) m
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
