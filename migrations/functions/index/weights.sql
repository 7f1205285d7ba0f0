-- What is written beside a text so that recall finds it: lexemes, BM25 weights, prior, says_when.

-- A lexeme's place in a sparse vector: 1 to a billion, which is pgvector's limit.
create or replace function memoryd.sparse_index(p_lexeme text) returns integer
language sql immutable parallel safe
return ((hashtextextended(p_lexeme, 0) & 2147483647) % 1000000000 + 1)::integer;

-- BM25 weights of many texts at once, given each text's lexemes and their (weighted) counts as columns: k1 =
-- 1.2, b = 0.75. The other factor of BM25, the inverse document frequency, is in the weights of the question,
-- so that rows need not be written again when others are added.
create or replace function memoryd.bm25(p_ids uuid[], p_lexemes text[], p_counts real[], p_average real)
returns table (id uuid, weights sparsevec)
language sql immutable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select w.id, ('{' || string_agg(w.place || ':' || w.weight, ',') || '}/1000000000')::sparsevec
    from (
        select v.id, v.place, v.weight,
               row_number() over (partition by v.id order by v.weight desc, v.place) as rank
        from (
            select c.id, c.place,
                   (c.count * 2.2
                    / (c.count + 1.2 * (0.25 + 0.75 * sum(c.count) over (partition by c.id) / p_average))
                   )::real as weight
            from (select l.id, memoryd.sparse_index(l.lexeme) as place,
                         sum(l.count)::double precision as count
                  from unnest(p_ids, p_lexemes, p_counts) as l(id, lexeme, count)
                  group by 1, 2) c
        ) v
    ) w
    -- The largest weights: a sparsevec has at most 16,000.
    where w.rank <= 16000
    group by w.id
$$;

-- The prior of a text: longer texts say more, and a question rarely answers a question.
create or replace function memoryd.prior_of(p_text text, p_lexemes integer) returns real
language sql immutable parallel safe
return (0.15 * ln(1 + 2.5 * p_lexemes)
        - case when right(rtrim(right(p_text, 100)), 1) in ('?', '？', '؟') then 0.2 else 0 end)::real;

-- Whether a text names a time: questions that ask when prefer such texts.
create or replace function memoryd.says_when(p_text text) returns boolean
language sql immutable parallel safe
return left(p_text, 8192) ~*
    '\m(yesterday|today|tonight|tomorrow|last|next|ago|weekend|weeks?|months?|years?'
    '|monday|tuesday|wednesday|thursday|friday|saturday|sunday'
    '|january|february|march|april|june|july|august|september|october|november|december'
    '|recently|since|just|morning|night|\d{4})\M';

-- What is written beside texts that are indexed each by itself. Their words count 3, as the own words of a
-- message do (see memoryd.weigh_messages).
create or replace function memoryd.weigh_texts(p_ids uuid[], p_texts text[])
returns table (id uuid, lexemes tsvector, weights sparsevec, prior real, says_when boolean)
language sql immutable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    with texts as materialized (
        select t.id, t.text, memoryd.lexemes_of(t.text) as lexemes from unnest(p_ids, p_texts) as t(id, text)
    ), counts as (
        select array_agg(t.id) as ids, array_agg(l.lexeme) as lexemes,
               array_agg((3 * cardinality(l.positions))::real) as counts
        from texts t cross join lateral unnest(t.lexemes) l
    )
    select t.id, t.lexemes, coalesce(w.weights, '{}/1000000000'), memoryd.prior_of(t.text, length(t.lexemes)),
           memoryd.says_when(t.text)
    from texts t
    left join (
        select b.* from counts c cross join lateral memoryd.bm25(c.ids, c.lexemes, c.counts, 60) b
    ) w on w.id = t.id
$$;

-- The same for one text.
create or replace function memoryd.weigh_text(
    p_text text, out lexemes tsvector, out weights sparsevec, out prior real, out says_when boolean)
language sql immutable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select w.lexemes, w.weights, w.prior, w.says_when
    from memoryd.weigh_texts(array['00000000-0000-0000-0000-000000000000'::uuid], array[p_text]) w
$$;

-- Each of these messages with its neighbours, and how much the words of each count: what a message is about
-- is often said in those before it, and answered in those after it. Own words count 3; those of the three
-- messages before 1.5, 1 and 0.5; those of the two after 1 and 0.5.
create or replace function memoryd.windows(p_ids uuid[])
returns table (id uuid, neighbour uuid, weight real)
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select m.id, n.neighbour, n.weight
    from public.conversation_messages m
    cross join lateral (
        select m.id as neighbour, 3::real as weight
        union all
        select b.id, (array[1.5, 1, 0.5])[row_number() over (order by b.message_index desc)]
        from (select e.id, e.message_index from public.conversation_messages e
              where e.session_id = m.session_id and e.message_index < m.message_index
              order by e.message_index desc limit 3) b
        union all
        select a.id, (array[1, 0.5])[row_number() over (order by a.message_index)]
        from (select e.id, e.message_index from public.conversation_messages e
              where e.session_id = m.session_id and e.message_index > m.message_index
              order by e.message_index limit 2) a
    ) n
    where m.id = any(p_ids)
$$;

-- What is written beside messages: weights of the words of their windows and of their date (each word of the
-- date counts 2), and their own lexemes, with the speaker's name as '@lexeme Name'.
create or replace function memoryd.weigh_messages(p_ids uuid[])
returns table (id uuid, lexemes tsvector, weights sparsevec, prior real, says_when boolean)
language sql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    with windows as materialized (
        select * from memoryd.windows(p_ids)
    ), texts as materialized (
        select m.id, m.content, m.created_at, m.speaker, memoryd.lexemes_of(m.content) as lexemes
        from (select distinct w.neighbour from windows w) w
        cross join lateral (select * from public.conversation_messages n where n.id = w.neighbour offset 0) m
    ), counts as (
        select array_agg(u.id) as ids, array_agg(u.lexeme) as lexemes, array_agg(u.count) as counts
        from (
            select w.id, l.lexeme, (w.weight * cardinality(l.positions))::real as count
            from windows w
            join texts t on t.id = w.neighbour
            cross join lateral unnest(t.lexemes) l
            union all
            select t.id, l.lexeme, 2
            from texts t
            cross join lateral unnest(
                memoryd.lexemes_of(to_char(t.created_at at time zone 'utc', 'FMMonth FMDD YYYY'))) l
            where t.id = any(p_ids)
        ) u
    )
    select t.id,
           t.lexemes || array_to_tsvector(array(
               select '@' || l || ' ' || btrim(t.speaker)
               from unnest(tsvector_to_array(memoryd.lexemes_of(t.speaker))) l)),
           coalesce(c.weights, '{}/1000000000'),
           memoryd.prior_of(t.content, length(t.lexemes)),
           memoryd.says_when(t.content)
    from texts t
    left join (
        select b.* from counts c cross join lateral memoryd.bm25(c.ids, c.lexemes, c.counts, 100) b
    ) c on c.id = t.id
    where t.id = any(p_ids)
$$;
