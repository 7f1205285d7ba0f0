-- The candidates in order: how well each answers the question, and which of them are returned.
--
-- The parts of relevance, each found by measuring on five kinds of text (docs/retrieval.md):
--   lexical  BM25, each word asked for apart: where a message lacks one, the two messages before and the two
--            after it count for it, the less the longer the message is. It stays below the one of these that
--            says most by itself, unless that asks. Relative to the best candidate's. For rows that
--            stand alone, as memories do, 0.3 more for the words of the best three of them. A short text
--            that shares only a name with the question stays below each that has another word of it, and
--            below each longer one that has the name.
--   dense    The cosine similarity of the embeddings, relative to the best candidate's, half.
--   prior    A text that says little, as "Sounds good!" does, loses up to a half; a text of one word, and a
--            question, twice that; a question that is nearly the one asked, four times: it was asked before.
--   named    The question names the speaker, or speaks of the role that the message has.
--   timed    The row was written at a time that the question names, is valid from there or names it itself;
--            half of it for one near that time.
--   session  0.23 of what the best message of the same session has more. For a long question, which goes on
--            with a whole session, also 0.3 of what its second to fourth message have. Long is one of
--            40 words, half of it one of 30, nothing of it one of 20; two letters without spaces are a word.
-- relevance  From 0 to 1: half of the sum between the lowest and the best sum, and a half, times how well the
--            best candidate fits at all: the mean of the part of the question that it has and of its
--            similarity.
--            What shares no word with the question, and of whose meaning less than 0.2 is near, comes after
--            all others, by half of its own fit, where there are some, and none fits the question: left_out
--            says which. Not for a question about a time and nothing else.
-- score      min(1, relevance x weight + recency + association): recency is up to 0.15 of relevance x weight,
--            and association what is missing to a fifth of the strength of the link to one of the best
--            memories. For a long question recency is up to 0.2, for what is near now or when it is asked.
-- Rare words: a row that has a word asked for which hardly any row has is never below one that shares no word
-- with the question, not even a near one or one of a message beside it. The kind of such a memory does not
-- lower it (memoryd.read_passages), and where more is missing, memoryd.search() adds it to the weight.
-- left_out   Why a row does not belong to the question, though it is one of the best. For a question about
--            something that was never said there is a best row, too, which fits by chance: better, the more
--            rows there are (by_chance, measured with questions about other conversations). So nothing
--            belongs where the best fit and a twentieth of the best sum are no more. (The sum is high where
--            one row is the best by words, by its embedding and by who said it.) Else what counts
--            is where a row's sum lies between the lowest and the best, and how much better than by chance
--            the row itself fits: together 0.4. The time that the question names counts for neither.
-- Without an embedding the relevance of a memory or an insight is the part of the question's keywords that
-- it has, and recency and association are added as they are.

-- Rows that are not indexed yet, since they were written a moment ago: of 5,000 the latest 200, and of 4,000
-- that came with an embedding the nearest 64; where rows are asked for by their ids, 5,000 of these. They are
-- weighed here.
create or replace function memoryd.fresh_passages(p_request memoryd.search_request)
returns setof memoryd.passage
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    scopes constant bigint[] := p_request.scopes;
    sources constant text[] := p_request.sources;
    sought constant vector := p_request.embedding;
    groups constant bigint[] := p_request.groups;
    ids constant uuid[] := p_request.ids;
    wanted constant jsonb := p_request.filter;
begin
    if not exists (select from memoryd.unindexed u
                   where (scopes is null or u.scope = any(scopes)) and u.source = any(sources)) then
        return;
    end if;
    return query
    with waiting as materialized (
        (select n.source, n.id, n.scope
         from (select u.* from memoryd.unindexed u
               where ids is null and (scopes is null or u.scope = any(scopes)) and u.source = any(sources)
                 and (scopes is not null or u.source <> 'knowledge' or u.scope = any(groups))
               limit 5000) n
         order by n.since desc limit 200)
        union
        (select u.source, u.id, u.scope
         from unnest(ids) as i(id)
         cross join unnest(scopes) as s(scope)
         cross join lateral (
             select t.* from memoryd.unindexed t where t.scope = s.scope and t.id = i.id
             offset 0) u
         where u.source = any(sources)
         limit 5000)
        union
        (select g.source, g.id, g.scope
         from (select u.source, u.id, u.scope from memoryd.unindexed u
               where ids is null and u.given and (scopes is null or u.scope = any(scopes))
                 and u.source = any(sources) and sought is not null
                 and (scopes is not null or u.source <> 'knowledge' or u.scope = any(groups))
               limit 4000) g
         cross join lateral (
             select t.given_embedding from memoryd.searchable t where t.source = g.source and t.id = g.id
         ) r
         order by r.given_embedding <=> sought
         limit 64)
    ), fresh as materialized (
        select s.*, w.scope as found_in, left(s.searched_text, 8192) as text, row_number() over () as nth
        from (-- A message in a group waits in two scopes.
              select distinct on (n.source, n.id) n.* from waiting n
              order by n.source, n.id, n.scope = any(groups) desc) w
        cross join lateral (
            select t.* from memoryd.searchable t
            where t.source = w.source and t.id = w.id
              and memoryd.may_find(p_request, w.scope, null, t.owner_id, t.access_level, t.visibility_tags,
                                   t.row_metadata)
        ) s
    ), columns as (
        select array_agg(f.text order by f.nth) as texts, array_agg(f.found_in order by f.nth) as scopes,
               array_agg(f.created_at order by f.nth) as written,
               array_agg(f.valid_from order by f.nth) as valid
        from fresh f
    )
    select null::tid, f.found_in, f.source, f.id, l2_normalize(f.given_embedding)::halfvec,
           w.weights::sparsevec(1000000000), w.length, w.length, w.times, w.asks, f.owner_id,
           f.agent_id, '{}'::jsonb, f.is_current, f.expires_at, f.session_id, f.position, f.speaker, f.role,
           f.created_at, f.weight::real
    from columns c
    cross join lateral memoryd.weigh_passages(c.texts, c.scopes, c.written, c.valid) w
    join fresh f on f.nth = w.nth
    where wanted = '{}' or f.metadata @> wanted;
end
$$;

-- The candidates, and p_fresh: what ranking asks of them, numbered. Only those that are asked for: of this
-- user (null: of any), of these groups, or shared with this user; for this agent, with these metadata, in
-- this project; and of what others say in groups or share nothing of users who have switched memory off.
-- meets: whether it meets the conditions. A message that does not is no result, but its words count for the
-- messages beside it. as_of: what stood at this time. A memory did from its valid_from, or else its
-- created_at, to its valid_to, also where another has replaced it since; any other row that stands now did
-- since it was written. What has expired is found at no time.
-- rare: it has a word asked for that hardly any row has. Of such passages of memories the kind says only
-- which counts more than another: the heaviest counts whole.
create or replace function memoryd.read_passages(
    p_request memoryd.search_request, p_question memoryd.question, p_tids tid[], p_fresh memoryd.passage[])
returns table (number bigint, tid tid, source text, id uuid, weights sparsevec, rare boolean,
               similarity double precision, length integer, row_length integer, asks boolean,
               times datemultirange, session_id uuid, "position" integer, speaker text, role text,
               created_at timestamptz, weight double precision, meets boolean)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    sought constant halfvec := l2_normalize(p_request.embedding)::halfvec;
    rare_words constant sparsevec := (p_question).rare;
    groups constant bigint[] := p_request.groups;
    about constant uuid := p_request.about;
    -- Who may find what is shared is asked when it is looked for.
    about_shared constant uuid :=
        case when about is distinct from (p_request.reader).user_id then about end;
    wanted constant jsonb := p_request.filter;
    conditions constant memoryd.conditions := p_request.conditions;
    project constant text := conditions.project;
    scale constant record := memoryd.calibration();
    tids tid[] := p_tids;
begin
    -- A statement of its own, which is planned only where a filter is given.
    if wanted <> '{}' then
        tids := array(
            select e.ctid from memoryd.entries e
            where e.ctid = any(p_tids) and exists (
                select from memoryd.searchable s
                where s.source = e.source and s.id = e.id and s.metadata @> wanted));
    end if;
    return query
    select row_number() over (), r.tid, r.source, r.id, r.weights, h.rare,
           nullif((h.cosine - scale.background) / scale.unit, 'NaN'), r.length, r.row_length,
           r.asks, r.times, r.session_id, r.position, r.speaker, r.role, r.created_at,
           r.weight::float8 / case when h.rare and r.source = 'memory' then least(
               1, max(r.weight) filter (where h.rare and r.source = 'memory') over ()) else 1 end,
           memoryd.meets(conditions, r.created_at, r.session_id, r.position, r.role, r.speaker)
    from (select e.ctid as tid, e.scope, e.source, e.id, e.embedding, e.weights, e.length, e.row_length,
                 e.times, e.asks, e.owner_id, e.agent_id, e.grants_metadata, e.is_current, e.expires_at,
                 e.session_id, e.position, e.speaker, e.role, e.created_at, e.weight
          from memoryd.entries e where e.ctid = any(tids)
          union all
          select f.* from unnest(p_fresh) f) r
    cross join lateral (select coalesce(r.weights <#> rare_words < 0, false) as rare,
                               1 - (r.embedding <=> sought) as cosine offset 0) h
    cross join lateral (select case when r.scope = any(groups) then null
                                    when r.scope = 0 then about_shared else about end as id) u
    where case when conditions.as_of is null or r.source <> 'memory'
               then r.is_current and (r.expires_at is null or r.expires_at > now())
                    and (conditions.as_of is null or r.created_at <= conditions.as_of)
               else exists (
                   select from public.agent_memory m
                   where m.id = r.id and coalesce(m.valid_from, m.created_at) <= conditions.as_of
                     and (m.valid_to is null or m.valid_to > conditions.as_of)
                     and (m.expires_at is null or m.expires_at > now())) end
      and (u.id is null or r.owner_id = u.id)
      and (not p_request.unowned or r.owner_id is null)
      and (p_request.agent is null or r.agent_id is null or r.agent_id = p_request.agent)
      and ((r.scope <> 0 and r.scope <> all (groups)) or not memoryd.memory_is_off(r.owner_id))
      and memoryd.in_project(r.grants_metadata, project)
      and (conditions.exclude is null or r.id::text <> all (conditions.exclude))
      and (conditions.project_only is not true or r.source in ('memory', 'insight')
           or r.grants_metadata ->> 'project' = project)
      -- An insight quotes its memories: all of them are there, and none names another project.
      and (r.source <> 'insight' or project is null and conditions.project_only is not true or (
          select coalesce(bool_and(m.id is not null and memoryd.in_project(m.metadata, project)), true)
             and (conditions.project_only is not true or coalesce(
                  r.grants_metadata ->> 'project' = project or bool_or(m.metadata ->> 'project' = project),
                  false))
          from public.dream_insights i
          cross join unnest(i.source_memories) as s(id)
          left join public.agent_memory m on m.id = s.id
          where i.id = r.id));
end
$$;

-- The lexical scores of the candidates, by number. Candidates as columns: weights (null: none of the words),
-- length, length of the whole row, session and index in it.
--
-- Each word asked for is apart. A message that lacks one gets a part of it from the messages beside it: from
-- those next to it three quarters, from those after these a half, all the less the longer the message is.
create or replace function memoryd.lexical_scores(
    p_question memoryd.question, p_numbers bigint[], p_weights sparsevec[], p_lengths integer[],
    p_row_lengths integer[], p_sessions uuid[], p_positions integer[])
returns table (number bigint, lexical double precision, lent double precision, said integer)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
-- The planner does not know how many candidates there are, and would compare each with each.
set enable_nestloop = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    average constant double precision := (p_question).average_length;
begin
    return query
    with read as materialized (
        select r.*, 0.5 + 0.5 * greatest(1, r.length) / average as norm, 80.0 / (80 + r.row_length) as share
        from unnest(p_numbers, p_weights, p_lengths, p_row_lengths, p_sessions, p_positions)
             as r(number, weights, length, row_length, session_id, position)
    ), hits as materialized (
        select h.*
        from (select r.number, r.session_id, r.position, w.word, w.top,
                     greatest(-(r.weights <#> w.own), -(r.weights <#> w.near)) / r.norm as has,
                     case when r.weights <#> w.own < 0 then 1 << w.word::integer else 0 end as own
              from read r
              cross join unnest((p_question).parts, (p_question).nears, (p_question).tops)
                   with ordinality as w(own, near, top, word)
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
        select h.number, h.word, h.top, h.has, 0 as beside, h.own from hits h
        union all
        select r.number, b.word, b.top, 0, least(b.top, b.has * r.share), 0
        from beside b
        join read r on r.session_id = b.session_id and r.position = b.position
    )
    select w.number, sum(w.has + w.lent), sum(w.lent), bit_or(w.own)
    from (select p.number, p.word, max(p.has) as has, max(p.own) as own,
                 greatest(0, 1 - max(p.has) / p.top) * max(p.beside) as lent
          from pieces p group by p.number, p.word, p.top) w
    group by w.number;
end
$$;

-- The words that say most of what these passages are about, as weights: the twenty with the most weight,
-- without those asked for and those that only one passage has. Null for a search in all scopes.
create or replace function memoryd.more_words(
    p_request memoryd.search_request, p_question memoryd.question, p_tids tid[])
returns sparsevec
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    reader constant memoryd.caller := p_request.reader;
    counted constant bigint[] :=
        case when reader.privileged then p_request.scopes else array_remove(p_request.scopes, 0) end;
    average constant double precision := (p_question).average_length;
    asked constant text[] := (p_question).asked;
    all_rows constant double precision := (p_question).rows;
    language constant text := memoryd.language_of(p_request.query);
begin
    if p_request.scopes is null or p_tids = '{}' then
        return null;
    end if;
    return (
        with said as materialized (
            select l.lexeme,
                   sum(cardinality(l.positions) * 2.2 / (cardinality(l.positions) + 1.2)
                       / (0.5 + 0.5 * greatest(1, e.length) / average)) as has
            from memoryd.entries e
            cross join lateral unnest(e.lexemes) l
            where e.ctid = any(p_tids) and l.positions is not null and l.lexeme <> all (asked)
            group by l.lexeme
        ), counts as materialized (
            select c.lexeme, sum(c.rows) as rows
            from memoryd.count_lexeme_rows(reader, array(select s.lexeme from said s), counted) c
            group by c.lexeme
        ), best as (
            select s.lexeme, i.idf, i.idf * s.has as weight
            from said s
            join counts c on c.lexeme = s.lexeme
            cross join lateral (
                select memoryd.telling_part(language, c.rows, all_rows)
                       * ln(1 + (greatest(all_rows - c.rows, 0) + 0.5) / (c.rows + 0.5)) as idf offset 0) i
            where c.rows > 1
            order by weight desc, s.lexeme
            limit 20
        ), weights as (
            select memoryd.sparse_index(b.lexeme) as index,
                   max(b.idf * b.weight / (select max(m.weight) from best m))::real as weight
            from best b
            group by 1
        )
        select ('{' || string_agg(w.index || ':' || w.weight, ',') || '}/1000000000')::sparsevec
        from weights w);
end
$$;

-- The candidates that meet the conditions, with how well each fits the question: 0 to 1, the mean of the
-- part of the question that it has and of its similarity, which counts alone where no word of the question
-- does. time_fit: 1 if it was written at a time that is asked about or names it, a season, a year and a
-- decade only where these alone are asked about. tid, weights: of rows that stand alone, whose words are
-- asked for once more. The less a candidate brings along, the quicker it is sorted. lent: the part of
-- lexical that messages beside it give. said: the words asked for that it has, a bit each. only_name: a
-- short text whose only words of the question are names, as its capitals show. weight: half of it for a
-- message whose facts others replaced, which stands below what is true now. kin: for a context, which rows
-- set the measure for each other (memoryd.kin_of).
create or replace function memoryd.fit_passages(
    p_request memoryd.search_request, p_question memoryd.question, p_tids tid[], p_fresh memoryd.passage[])
returns table (number bigint, tid tid, source text, id uuid, weights sparsevec, rare boolean,
               similarity float8, near float8, length integer, row_length integer, asks boolean,
               session_id uuid, "position" integer, speaker text, role text, created_at timestamptz,
               weight float8, lexical float8, lent float8, said integer, only_name boolean, fit float8,
               time_fit float8, kin text)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    ideal constant double precision := nullif((p_question).ideal, 0);
    times_asked constant datemultirange := (p_question).times;
    long_asked sparsevec;
    -- What was written on later days is not of a time that was still to come.
    last_day constant date := coalesce(memoryd.day_of((p_request.conditions).asked_at), 'infinity');
begin
    if (p_question).only_times then
        select ('{' || string_agg(distinct memoryd.sparse_index(a) || ':1', ',') || '}/1000000000')
        into long_asked from unnest((p_question).asked) a, unnest(times_asked) as t(days)
        where upper(t.days) - lower(t.days) > 31 and (a ~ '^\d{4}s?$' or exists (
            select from jsonb_array_elements_text(memoryd.time_words() -> 'long') as w(word)
            where w.word = a or length(a) > 3 and starts_with(w.word, a)));
    end if;
    return query
    with read as materialized (
        select r.*, least(1, greatest(0, r.similarity)) as near
        from memoryd.read_passages(p_request, p_question, p_tids, p_fresh) r
    ), lexical as materialized (
        select l.* from (
              select array_agg(r.number) as numbers, array_agg(
                         case when r.weights <#> (p_question).weights < 0 then r.weights end) as weights,
                     array_agg(r.length) as lengths, array_agg(r.row_length) as row_lengths,
                     array_agg(r.session_id) as sessions, array_agg(r.position) as positions
              from read r) c
        cross join lateral memoryd.lexical_scores(
            p_question, c.numbers, c.weights, c.lengths, c.row_lengths, c.sessions, c.positions) l
    ), short as materialized (
        select r.number, r.source, r.id from read r join lexical l using (number)
        where r.row_length <= 4 and l.said > 0 order by l.lexical - l.lent desc limit 8
    ), names as materialized (
        select b.number
        from (select array_agg(s.source) as sources, array_agg(s.id) as ids from short s) c
        cross join lateral memoryd.show_rows(c.sources, c.ids) t join short b using (source, id)
        cross join lateral (
            select regexp_replace(normalize(t.searched_text, NFD), '[\u0300-\u036f]', '', 'g') as text) n
        where c.ids is not null and n.text ~ '[[:upper:]]' and not exists (
            select from unnest((p_question).asked) a
            cross join lateral (select initcap(regexp_replace(a, '(\W)', '\\\1', 'g')) as word) w
            where n.text ~* ('\m' || w.word)
              and n.text !~ ('\S\s+\m' || w.word || '|^\W*' || w.word || '\w*\W*($|\s[[:upper:]])'))
    )
    select r.number, case when r.session_id is null then r.tid end, r.source, r.id,
           case when r.session_id is null then r.weights end, r.rare, r.similarity, r.near, r.length,
           r.row_length, r.asks, r.session_id, r.position, r.speaker, r.role, r.created_at,
           r.weight * (1 - 0.5 * coalesce(o.part, 0)), coalesce(l.lexical, 0), coalesce(l.lent, 0),
           coalesce(l.said, 0), n.number is not null, f.fit, t.fit, k.kin
    from read r left join lexical l using (number) left join names n using (number) cross join lateral (
        select case when p_request.embedding is null
                    then least(1, coalesce(l.lexical, 0) / coalesce(ideal, 10))
                    when ideal is null then r.near
                    else (least(1, coalesce(l.lexical, 0) / ideal) + r.near) / 2 end as fit) f
    cross join lateral (
        select case when times_asked is null then 0
                    when times_asked @> d.day or times_asked && r.times or r.weights <#> long_asked < 0 then 1
                    when (p_question).near_times @> d.day then 0.5 else 0 end::double precision as fit
        from (select case when o.day <= last_day then o.day end as day
              from memoryd.day_of(r.created_at) as o(day)) d) t
    left join lateral (
        select memoryd.kin_of(r.source, (
            select m.kind from public.agent_memory m where m.id = r.id and r.source = 'memory')) as kin
        where p_request.by_kind) k on true
    left join (
        select f.message_id as id, avg((m.superseded_by is not null)::integer)::double precision as part
        from memoryd.fact_sources f join public.agent_memory m on m.id = f.memory_id
        where f.message_id = any(array(select t.id from read t where t.session_id is not null))
        group by f.message_id) o on o.id = r.id and (p_request.conditions).as_of is null
    where r.meets;
end
$$;

-- The candidates with the parts of the relevance of each: see the head of this file, and `weights` for their
-- factors beside that of the words, 1. A row is as good as its best passage. more: a second pass for rows
-- that stand alone, with the words of the best three. too_much: what a row loses so that it stays below
-- another: a short message (at most 20 words, as its prior says) below the one beside it, a bare name (of at
-- most three words) below a text of more words that has it. Where rows are
-- asked for by their ids, each may have a place. p_long: from 0 to 1, how long the question is.
-- p_shared: the part of the question's words that a row must have; 0: similarity alone may say that it fits.
create or replace function memoryd.rank_passages(
    p_request memoryd.search_request, p_question memoryd.question, p_tids tid[], p_fresh memoryd.passage[],
    p_long double precision, p_shared double precision) returns setof memoryd.search_result
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare weights record;
begin
    select 0.5::float8 dense, 0.3::float8 more, -2.5::float8 prior, 0.5::float8 named, 0.8::float8 timed,
           0.23::float8 session, 0.7::float8 asked, 0.05::float8 margin, 0.4::float8 fits into weights;
    return query with parts as materialized (select h.* from (
            select s.*, coalesce(s.lexical / nullif(max(s.lexical) over w, 0), 0) as part,
                   coalesce(weights.dense * s.near / nullif(max(s.near) over w, 0), 0) as dense_part,
                   max(s.fit) over w as best_fit, max(s.fit * (s.lexical / coalesce(nullif(
                       (p_question).ideal, 0), 'infinity') >= p_shared)::integer) over w known,
                   least(0.36::double precision, 0.03 + 0.06 * ln(greatest(
                       1, (p_question).rows * count(*) over w / count(*) over ()))) as by_chance,
                   s.lexical > 0 or s.near > case when p_request.ids is null then 0.2 else 0 end or (
                       s.time_fit = 1 and coalesce(cardinality((p_question).tops), 0) <= 3) as close
            from memoryd.fit_passages(p_request, p_question, p_tids, p_fresh) s window w as (partition by kin)
        ) h where h.close or h.near > 0 and p_question.only_times is not true
    ), words as materialized (
        select memoryd.more_words(p_request, p_question, array(select tid from parts where session_id is null
            and lexical > 0 order by part + dense_part desc limit 3)) as words
    ), passages as (
        select p.id, p.source, p.session_id, p.position, p.created_at, p.similarity, p.weight, p.rare,
               p.lexical, p.lent, p.part * p.lent / nullif(p.lexical, 0) as lent_part, p.asks, p.said,
               p.only_name, p.kin, p.by_chance, p.fit, p.best_fit, p.known, p.dense_part,
               p.part + coalesce(weights.more * m.more / nullif(max(m.more) over w, 0), 0) as lexical_part,
               weights.prior / (5 + p.row_length) * case when p.asks and p.near > weights.asked then 4
                   when p.asks or p.row_length <= 1 then 2 else 1 end as prior_part,
               case when p.speaker = any((p_question).speakers) or p.role = (p_question).role
                   then weights.named else 0 end as named_part, weights.timed * p.time_fit as timed_part
        from parts p cross join words a cross join lateral (
            select case when p.session_id is null then -(p.weights <#> a.words) end / (
                0.5 + 0.5 * greatest(1, p.length) / (p_question).average_length) as more) m
        where p.close window w as (partition by p.kin)
    ), best as (
        select distinct on (id, source) *, bool_or(rare) over (partition by id, source) as has_rare,
               lexical_part + dense_part + prior_part + named_part + timed_part as total
        from passages order by id, source, lexical_part + dense_part desc
    ), bounded as (
        select b.*, greatest(0, case when b.beside[1] > b.total - b.lent_part and b.beside[3] = 0
                    and b.prior_part <= -0.1 then least(b.lent_part, b.total + 0.01 - b.beside[2]) end,
                b.total + 0.01 - (select max(o.total) from best o where b.only_name and (
                    o.said & b.said = b.said and -0.3 between b.prior_part and o.prior_part or not o.only_name
                    and o.said & ~b.said <> 0 and 4 * (o.lexical - o.lent) > b.lexical))) as too_much
        from (select *, max(array[total - lent_part, total, asks::integer]) filter (where lexical > lent)
                  over (partition by coalesce(session_id, id) order by position
                  range between 2 preceding and 2 following exclude current row) as beside from best) b
    ), sessions as (
        select b.*, weights.session * (max(b.net) over w - b.net) + 0.3 * p_long * coalesce(
                   sum(greatest(0, net)) filter (where nth_here between 2 and 4) over w, 0) as more_of
        from (select *, total - too_much as net, row_number() over (
                  partition by coalesce(session_id, id) order by total - too_much desc, id) as nth_here
              from bounded) b window w as (partition by coalesce(b.session_id, b.id))
    ), spans as (
        select s.*, max(s.sum) over w as highest, least(0, min(s.sum) over w) as lowest
        from (select *, total - too_much + more_of as sum from sessions) s window w as (partition by kin))
    select r.source, r.id, null, null::float8, r.similarity, null::jsonb, r.created_at,
           r.lexical_part - r.too_much, r.dense_part, r.prior_part, r.named_part, r.timed_part, r.more_of,
           (0.5 + 0.5 * r.standing) * case when p_question.only_times is not true then r.best_fit when
               r.timed_part = weights.timed then 0.5 else r.best_fit / 2 end, r.weight, p_long, 0::float8,
           case when r.has_rare then 2 when r.lexical > 0 then 1 else 0 end, case when p_question.only_times
                    then case when r.timed_part < weights.timed then 'not of that time' end
                when known + better < 0 then concat_ws(' ', 'nothing', 'that ' || kin, 'fits the question')
                when r.untimed + r.fit + r.better < weights.fits then 'others fit much better'
                when r.kin <> '' and r.nth > 60 then 'others are more relevant' end
    from (select *, coalesce((sum - lowest) / nullif(highest - lowest, 0), 1) as standing,
                 coalesce((sum - timed_part - lowest) / nullif(highest - lowest, 0), 1) as untimed,
                 weights.margin * highest - by_chance as better,
                 row_number() over (partition by kin order by sum desc, id) as nth from spans) r
    union all
    (select distinct on (id) source, id, null, null, similarity, null, created_at, 0, dense_part, 0, 0, 0, 0,
            fit / 2, weight, 0, 0, 0, concat_ws(' ', 'nothing', 'that ' || kin, 'fits the question')
     from parts p where not close and id not in (select id from spans) and exists (
         select from spans s where s.kin is not distinct from p.kin
             and known + weights.margin * highest < by_chance) order by id, near desc);
end
$$;

-- The rows of the time that a question names, where it asks for nothing else: in order of time, and spread
-- over it, of each part the one that says most; first those of the speakers that it names. After them, and no
-- more than these where there are many, rows written before whose text names what of it is still to come. No
-- row fits better than another, so the relevance only falls with the order.
create or replace function memoryd.rows_of_time(
    p_request memoryd.search_request, p_question memoryd.question, p_fresh memoryd.passage[])
returns setof memoryd.search_result
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    asked constant datemultirange := (p_question).times;
    speakers constant text[] := (p_question).speakers;
    shown constant integer := least(p_request.shown, 1000);
    coming constant datemultirange := asked * datemultirange(daterange(
        memoryd.day_of(coalesce((p_request.conditions).asked_at, now())), null));
begin
    return query
    with read as (
        select distinct on (r.source, r.id) r.*, coalesce(r.speaker = any(speakers), false) as named,
               asked @> memoryd.day_of(r.created_at) as written
        from memoryd.read_passages(
            p_request, p_question, memoryd.passages_of_time(p_request, p_question), p_fresh) r
        where r.meets and (asked @> memoryd.day_of(r.created_at) or coming && r.times)
        order by r.source, r.id
    ), windows as (
        select r.*, w.nth as "window", dense_rank() over (order by w.nth)
                   + dense_rank() over (order by w.nth desc) - 1 as windows
        from read r cross join lateral (
            select count(*) as nth from unnest(asked) as t(days)
            where r.written and lower(t.days) <= memoryd.day_of(r.created_at)) w
    ), parts as (
        select w.*, ntile(greatest(1, ceil(shown::numeric / w.windows))::integer) over (
                   partition by w.named, w."window"
                   order by w.created_at, w.session_id, w.position, w.id) as part
        from windows w
    ), best as (
        select * from (select p.*, row_number() over (partition by p.named, p."window", p.part
                                                      order by p.asks, p.row_length desc, p.id) as nth
                       from parts p) b
        order by b.named desc, b.nth, b.part, b."window" limit shown
    )
    select b.source, b.id, null, null::float8, b.similarity, null::jsonb, b.created_at, 0::float8, 0::float8,
           0::float8, 0::float8, 1::float8, 0::float8,
           1 - 0.4 * (row_number() over w - 1)::float8 / count(*) over (), 1::float8, 0::float8, 0::float8, 3,
           null
    from best b window w as (order by b.written desc, b.created_at, b.session_id, b.position, b.id);
end
$$;
