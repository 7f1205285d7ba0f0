-- The candidates in order: how well each answers the question, and which of them are returned.
--
-- The parts of relevance, each found by measuring on five kinds of text (docs/retrieval.md):
--   lexical  BM25, each word asked for apart: where a message lacks one, the two messages before and the two
--            after it count for it, the less the longer the message is. Relative to the best candidate's. For
--            rows that stand alone, as memories do, 0.3 more for the words of the best three of them.
--   dense    The cosine similarity of the embeddings, relative to the best candidate's, half.
--   prior    A text that says little, as "Sounds good!" does, loses up to a half; a text of one word, and a
--            question, twice that; a question that is nearly the one asked, four times: it was asked before.
--   named    The question names the speaker, or speaks of the role that the message has.
--   timed    The question asks when, and the text names a time.
--   session  0.23 of what the best message of the same session has more.
-- relevance  From 0 to 1: half of the sum between the lowest and the best sum, and a half, times how well the
--            best candidate fits at all: the mean of the part of the question that it has and of its
--            similarity.
-- score      min(1, relevance x weight + recency + association): recency is up to 0.15 of relevance x weight,
--            and association what is missing to a fifth of the strength of the link to one of the best
--            memories
-- Without an embedding the relevance of a memory or an insight is the part of the question's keywords that it
-- has, and recency and association are added as they are.

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
    p_groups bigint[], p_embedding vector)
returns table (source text, id uuid, scope bigint, embedding vector, weights sparsevec, length integer,
               asks boolean, says_when boolean, owner_id uuid, agent_id text, is_current boolean,
               expires_at timestamptz, session_id uuid, "position" integer, speaker text, role text,
               created_at timestamptz, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    return query
    with waiting as materialized (
        (select u.source, u.id, u.scope from memoryd.unindexed u
         where (p_scopes is null or u.scope = any(p_scopes)) and u.source = any(p_sources)
           and memoryd.is_found_here(u.scope, case when u.source = 'knowledge' then u.scope end, p_scopes)
         limit 200)
        union
        (select g.source, g.id, g.scope
         from (select u.source, u.id, u.scope from memoryd.unindexed u
               where u.given and (p_scopes is null or u.scope = any(p_scopes))
                 and u.source = any(p_sources) and p_embedding is not null
                 and memoryd.is_found_here(
                     u.scope, case when u.source = 'knowledge' then u.scope end, p_scopes)
               limit 4000) g
         cross join lateral (
             select t.given_embedding from memoryd.searchable t where t.source = g.source and t.id = g.id
         ) r
         order by r.given_embedding <=> p_embedding
         limit 64)
    ), fresh as materialized (
        select s.*, w.scope as found_in, left(s.searched_text, 8192) as text, row_number() over () as place
        from (-- A message in a group waits in two scopes.
              select distinct on (n.source, n.id) n.* from waiting n
              order by n.source, n.id, n.scope = any(p_groups) desc) w
        cross join lateral (
            select t.* from memoryd.searchable t
            where t.source = w.source and t.id = w.id
              and memoryd.may_find(p_caller, p_access, w.scope, t.owner_id, t.access_level,
                                   t.visibility_tags, t.row_metadata)
        ) s
    ), columns as (
        select array_agg(f.text order by f.place) as texts,
               array_agg(case when f.session_id is not null then f.created_at end order by f.place) as dates,
               array_agg(f.speaker order by f.place) as speakers
        from fresh f
    )
    select f.source, f.id, f.found_in, f.given_embedding, w.weights, w.length, memoryd.asks(f.text),
           memoryd.says_when(f.text), f.owner_id,
           f.agent_id, f.is_current, f.expires_at, f.session_id, f.position, f.speaker, f.role, f.created_at,
           f.weight
    from columns c
    cross join lateral memoryd.weigh_passages(c.texts, c.dates, c.speakers) w
    join fresh f on f.place = w.place;
end
$$;

-- Which part of what each of these messages says was replaced since: of the facts that were found in it,
-- those that another has replaced, from 0 to 1. Such a message is still found, but below what is true now.
-- Messages without facts have no row.
create or replace function memoryd.replaced_parts(p_messages uuid[])
returns table (id uuid, part double precision)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select f.message_id, avg((m.superseded_by is not null)::integer)::double precision
    from memoryd.fact_sources f join public.agent_memory m on m.id = f.memory_id
    where f.message_id = any(p_messages)
    group by f.message_id;
end
$$;

-- The candidates: what ranking asks of them, numbered. Only those that are asked for: of this user (null: of
-- any) or of these groups, for this agent, with these metadata; and in groups nothing of members who have
-- switched memory off. meets: whether it meets the conditions. A message that does not is no result, but its
-- words count for the messages beside it.
create or replace function memoryd.read_passages(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[],
    p_groups bigint[], p_places tid[], p_embedding vector, p_user uuid, p_unowned boolean, p_agent text,
    p_filter jsonb, p_conditions memoryd.conditions)
returns table (number bigint, place tid, source text, id uuid, weights sparsevec, similarity double precision,
               length integer, row_length integer, asks boolean, says_when boolean, session_id uuid,
               "position" integer, speaker text, role text, created_at timestamptz, weight double precision,
               meets boolean)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    sought constant halfvec := l2_normalize(p_embedding)::halfvec;
begin
    return query
    select row_number() over (), r.place, r.source, r.id,
           r.weights, 1 - (r.embedding <=> sought), r.length, r.row_length, r.asks, r.says_when,
           r.session_id, r.position, r.speaker, r.role, r.created_at, r.weight,
           memoryd.meets(p_conditions, r.created_at, r.session_id, r.position, r.role, r.speaker)
    from (select e.ctid as place, e.source, e.id, e.scope, e.weights, e.embedding, e.length, e.row_length,
                 e.asks, e.says_when, e.owner_id,
                 e.agent_id, e.grants_metadata, e.is_current, e.expires_at, e.session_id, e.position,
                 e.speaker, e.role, e.created_at, e.weight::double precision as weight
          from memoryd.entries e
          where e.ctid = any(p_places)
          union all
          select null, f.source, f.id, f.scope, f.weights, l2_normalize(f.embedding)::halfvec, f.length,
                 f.length, f.asks, f.says_when, f.owner_id, f.agent_id, '{}'::jsonb, f.is_current,
                 f.expires_at, f.session_id, f.position,
                 f.speaker, f.role, f.created_at, f.weight
          from memoryd.fresh_passages(p_caller, p_access, p_sources, p_scopes, p_groups, p_embedding) f) r
    where memoryd.is_asked_for(
              r.owner_id, r.agent_id,
              case when (p_conditions).as_of is null
                   then r.is_current and (r.expires_at is null or r.expires_at > now())
                   else memoryd.stood(
                       p_conditions, r.source, r.id, r.is_current, r.created_at, r.expires_at) end,
              case when r.scope <> all (p_groups) then p_user end, p_unowned, p_agent)
      and (r.scope <> all (p_groups) or not memoryd.memory_is_off(r.owner_id))
      and memoryd.in_context(r.grants_metadata)
      and (p_filter = '{}' or exists (
          select from memoryd.searchable s
          where s.source = r.source and s.id = r.id and s.metadata @> p_filter));
end
$$;

-- The lexical scores of the candidates, by number. Candidates as columns: weights (null: none of the words),
-- length, length of the whole row, session and place in it.
--
-- Each word asked for is apart. A message that lacks one gets a part of it from the messages beside it: from
-- those next to it three quarters, from those after these a half, all the less the longer the message is.
create or replace function memoryd.lexical_scores(
    p_question memoryd.question, p_numbers bigint[], p_weights sparsevec[], p_lengths integer[],
    p_row_lengths integer[], p_sessions uuid[], p_positions integer[])
returns table (number bigint, lexical double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
-- The planner does not know how many candidates there are, and would compare each with each.
set enable_nestloop = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    average constant double precision := (p_question).average_length;
    parts constant sparsevec[] := (p_question).parts;
    nears constant sparsevec[] := (p_question).nears;
    tops constant double precision[] := (p_question).tops;
begin
    return query
    with read as materialized (
        select r.*, 0.5 + 0.5 * greatest(1, r.length) / average as norm, 80.0 / (80 + r.row_length) as share
        from unnest(p_numbers, p_weights, p_lengths, p_row_lengths, p_sessions, p_positions)
             as r(number, weights, length, row_length, session_id, position)
    ), hits as materialized (
        select h.*
        from (select r.number, r.session_id, r.position, w.word, w.top,
                     greatest(-(r.weights <#> w.own), -(r.weights <#> w.near)) / r.norm as has
              from read r
              cross join unnest(parts, nears, tops) with ordinality as w(own, near, top, word)
              where r.weights is not null) h
        where h.has > 0
    ), said as (
        select h.session_id, h.position, h.word, h.top, max(h.has) as has
        from hits h
        where h.session_id is not null
        group by h.session_id, h.position, h.word, h.top
    ), beside as materialized (
        select s.session_id, s.position + b.step as position, s.word, s.top, sum(b.weight * s.has) as has
        from said s
        cross join (values (-2, 0.5), (-1, 0.75), (1, 0.75), (2, 0.5)) as b(step, weight)
        group by s.session_id, s.position + b.step, s.word, s.top
    ), pieces as (
        select h.number, h.word, h.top, h.has, 0 as beside from hits h
        union all
        select r.number, b.word, b.top, 0, least(b.top, b.has * r.share)
        from beside b
        join read r on r.session_id = b.session_id and r.position = b.position
    )
    select w.number, sum(w.has + greatest(0, 1 - w.has / w.top) * w.beside)
    from (select p.number, p.word, p.top, max(p.has) as has, max(p.beside) as beside
          from pieces p group by p.number, p.word, p.top) w
    group by w.number;
end
$$;

-- The words that say most of what these passages are about, as weights: the twenty with the most weight,
-- without those asked for and those that only one passage has. Null for a search in all scopes.
create or replace function memoryd.more_words(
    p_caller memoryd.caller, p_scopes bigint[], p_question memoryd.question, p_places tid[])
returns sparsevec
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    counted constant bigint[] := memoryd.counted_scopes(p_caller, p_scopes);
    average constant double precision := (p_question).average_length;
    asked constant text[] := (p_question).asked;
    all_rows double precision;
begin
    if p_scopes is null or p_places is null then
        return null;
    end if;
    all_rows := memoryd.count_all_rows(p_caller, counted);
    return (
        with said as materialized (
            select l.lexeme,
                   sum(cardinality(l.positions) * 2.2 / (cardinality(l.positions) + 1.2)
                       / (0.5 + 0.5 * greatest(1, e.length) / average)) as has
            from memoryd.entries e
            cross join lateral unnest(e.lexemes) l
            where e.ctid = any(p_places) and l.positions is not null and l.lexeme <> all (asked)
            group by l.lexeme
        ), counts as materialized (
            select c.lexeme, sum(c.rows) as rows
            from memoryd.count_lexeme_rows(p_caller, array(select s.lexeme from said s), counted) c
            group by c.lexeme
        ), best as (
            select s.lexeme, i.idf, i.idf * s.has as weight
            from said s
            join counts c on c.lexeme = s.lexeme
            cross join lateral (
                select ln(1 + (greatest(all_rows - c.rows, 0) + 0.5) / (c.rows + 0.5)) as idf offset 0) i
            where c.rows > 1
            order by weight desc, s.lexeme
            limit 20
        ), weights as (
            select memoryd.sparse_index(b.lexeme) as place,
                   max(b.idf * b.weight / (select max(m.weight) from best m))::real as weight
            from best b
            group by 1
        )
        select ('{' || string_agg(w.place || ':' || w.weight, ',') || '}/1000000000')::sparsevec
        from weights w);
end
$$;

-- What a row loses since it says little: p_length words, whether it is a question, and its similarity to the
-- one that is asked. Inlined.
create or replace function memoryd.prior(p_length integer, p_asks boolean, p_near double precision)
returns double precision
language sql immutable parallel safe
return -2.5 / (5 + p_length)
    * case when p_asks and p_near > 0.7 then 4 when p_asks or p_length <= 1 then 2 else 1 end;

-- The candidates in order, with the parts of the relevance of each: see the head of this file. A row is as
-- good as its best passage. The p_count rows with the highest relevance x weight. p_groups: those of p_scopes
-- that are of groups.
create or replace function memoryd.rank_passages(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[],
    p_places tid[], p_question memoryd.question, p_embedding vector, p_user uuid, p_unowned boolean,
    p_agent text, p_filter jsonb, p_count bigint, p_groups bigint[] default '{}',
    p_conditions memoryd.conditions default null)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               lexical double precision, dense double precision, prior double precision,
               named double precision, timed double precision, session double precision,
               relevance double precision, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    asked constant sparsevec := (p_question).weights;
begin
    return query
    with read as materialized (
        select r.*, coalesce(greatest(0, nullif(r.similarity, 'NaN')), 0) as near
        from memoryd.read_passages(p_caller, p_access, p_sources, p_scopes, p_groups, p_places, p_embedding,
                                   p_user, p_unowned, p_agent, p_filter, p_conditions) r
    ), lexical as (
        select l.*
        from (select array_agg(r.number) as numbers,
                     array_agg(case when r.weights <#> asked < 0 then r.weights end) as weights,
                     array_agg(r.length) as lengths, array_agg(r.row_length) as row_lengths,
                     array_agg(r.session_id) as sessions, array_agg(r.position) as positions
              from read r) c
        cross join lateral memoryd.lexical_scores(
            p_question, c.numbers, c.weights, c.lengths, c.row_lengths, c.sessions, c.positions) l
    ), scored as materialized (
        select r.*, coalesce(l.lexical, 0) as lexical from read r left join lexical l using (number)
        where meets
    ), highest as materialized (
        select nullif(max(s.lexical), 0) as lexical, nullif(max(s.near), 0) as near,
               max(case when p_embedding is null then f.lexical_fit
                        else (coalesce(f.lexical_fit, 0) + s.near) / 2 end) as fit
        from scored s
        cross join lateral (select least(1, s.lexical / nullif((p_question).ideal, 0)) as lexical_fit) f
    ), first as materialized (
        select s.*, coalesce(s.lexical / h.lexical, 0) as part,
               coalesce(0.5 * s.near / h.near, 0) as dense_part
        from scored s cross join highest h
        where s.lexical > 0 or s.near > 0.2
    ), more as materialized (
        -- A second pass for rows that stand alone: with the words of the best three of them.
        select memoryd.more_words(p_caller, p_scopes, p_question, array_agg(t.place)) as words
        from (select f.place from first f where f.session_id is null and f.lexical > 0
              order by f.part + f.dense_part desc limit 3) t
    ), hits as materialized (
        select f.*, case when f.session_id is null then -(f.weights <#> m.words) end
            / (0.5 + 0.5 * greatest(1, f.length) / (p_question).average_length) as more
        from first f cross join more m
    ), best as (
        select distinct on (t.id, t.source)
               t.*, memoryd.prior(t.row_length, t.asks, t.near) as prior_part,
               case when t.speaker = any((p_question).speakers) or t.role = (p_question).role then 0.5
                    else 0 end as named_part,
               case when (p_question).asks_when and t.says_when then 0.2 else 0 end as timed_part
        from (select h.*, h.part + coalesce(0.3 * h.more / nullif(m.more, 0), 0) as lexical_part
              from hits h cross join (select max(o.more) as more from hits o) m) t
        order by t.id, t.source, t.lexical_part + t.dense_part desc
    ), sums as (
        select b.*, lexical_part + dense_part + prior_part + named_part + timed_part as total from best b
    ), sessions as materialized (
        select s.*, 0.23 * (max(s.total) over w - s.total) as more_of
        from sums s window w as (partition by coalesce(s.session_id, s.id))
    ), spans as (
        -- least: sums may be below zero
        select max(total + more_of) as highest, least(0, min(total + more_of)) as lowest from sessions
    ), ranked as (
        select s.*, s.weight * (1 - 0.5 * coalesce(t.part, 0)) as now_weight,
               coalesce(h.fit, 0) * (0.5 + 0.5 * coalesce(
                   (s.total + s.more_of - p.lowest) / nullif(p.highest - p.lowest, 0), 1)) as relevance
        from sessions s cross join spans p cross join highest h
        left join memoryd.replaced_parts(array(select m.id from sessions m where m.session_id is not null)) t
            on t.id = s.id and (p_conditions).as_of is null
    )
    select r.source, r.id, r.similarity, r.created_at, r.lexical_part, r.dense_part, r.prior_part::float8,
           r.named_part::float8, r.timed_part::float8, r.more_of, least(1, r.relevance), r.now_weight
    from ranked r order by r.relevance * r.now_weight desc, r.created_at desc, r.id limit p_count;
end
$$;

-- What recall finds, with the parts of each score, in scopes that are open to the caller. The only function
-- of the search that runs with the owner's rights: of a row it gives back its id, its score and its time, and
-- only of rows that the caller may read.
--
-- The settings apply to all functions that are called from here. Their plans are made once in a session.
-- Without the settings, a generic plan, which does not know how few rows are wanted, may read a whole table;
-- and with a million rows the planner would start parallel workers, which takes longer than the search. So
-- would compiling the plans (jit), which Postgres does for what looks expensive, as a plan without a table
-- scan does.
create or replace function memoryd.find(
    p_query text, p_agent text, p_user uuid, p_embedding vector, p_count bigint, p_sources text[],
    p_filter jsonb, p_near jsonb default null, p_conditions memoryd.conditions default null)
returns table (source text, id uuid, similarity double precision, created_at timestamptz,
               lexical double precision, dense double precision, prior double precision,
               named double precision, timed double precision, session double precision,
               relevance double precision, weight double precision)
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    access constant public.user_memory_access :=
        case when not caller.privileged then memoryd.caller_access() end;
    sources constant text[] := memoryd.sources_asked(caller, p_sources);
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
    if (not caller.privileged and caller.user_id is null)
       or memoryd.memory_is_off(coalesce(p_user, caller.user_id)) then
        return;
    end if;
    asked := memoryd.scopes_asked(caller, p_agent, p_user, p_sources);
    scopes := memoryd.open_scopes(caller, asked.scopes);
    question := memoryd.question(caller, p_query, scopes, p_near);
    return query
    select h.*
    from memoryd.rank_passages(
        caller, access, sources, scopes,
        memoryd.candidates(caller, access, sources, scopes, question, p_embedding, reach, p_conditions),
        question, p_embedding, p_user, memoryd.asks_unowned(caller, p_agent, p_user), p_agent, p_filter,
        p_count, asked.groups, p_conditions) h;
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
               h.timed, h.session, h.weight, coalesce(k.part, h.relevance) as relevance
        from memoryd.find(
            p_query, p_agent, p_user, p_embedding, greatest(100, 2::bigint * p_count), p_sources,
            condition, p_near, p_conditions) h
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
        select r.source, r.id, r.similarity, r.created_at, r.lexical, r.dense, r.prior, r.named,
               r.timed, r.session, r.relevance, r.weight,
               memoryd.association(l.strength, r.relevance * r.weight, p_embedding is null) as association
        from ranked r
        left join links l on l.id = r.id and r.source = 'memory'
        union all
        select m.source, m.id, m.similarity, m.created_at, 0, 0, 0, 0, 0, 0, m.relevance, m.weight,
               0.2 * l.strength
        from linked g
        cross join lateral memoryd.linked_rows(g.ids, asked_keywords, p_user, unowned, p_agent, condition) m
        join links l on l.id = m.id
        where memoryd.meets(p_conditions, m.created_at, null, null, null, null)
          and (p_conditions is null or memoryd.stood(p_conditions, m.source, m.id, true, m.created_at, null))
    ), best as materialized (
        select s.*, r.recency, s.relevance * s.weight + r.recency + s.association as rank
        from scored s
        cross join lateral (
            select memoryd.recency(s.created_at)
                   * case when p_embedding is null then 1 else s.relevance * s.weight end as recency
            offset 0) r
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
