-- What is written beside a passage so that recall finds it: lexemes, weights, length, asks.

-- A lexeme's index in a sparse vector: 1 to a billion, which is pgvector's limit.
create or replace function memoryd.sparse_index(p_lexeme text) returns integer
language sql immutable parallel safe
return ((hashtextextended(p_lexeme, 0) & 2147483647) % 1000000000 + 1)::integer;

-- Whether a text ends as a question, which rarely answers one.
create or replace function memoryd.asks(p_text text) returns boolean
language sql immutable parallel safe
return right(rtrim(right(p_text, 100)), 1) in ('?', '？', '؟');

-- The lexemes by which passages are found, and their weights: how often a lexeme occurs in the passage, with
-- less for each further time (BM25's term frequency, k1 = 1.2). The other factors of BM25, the inverse
-- document frequency and the length, come with the question: so no passage is written again because others
-- are added. Columns: a passage each.
create or replace function memoryd.weigh_passages(p_texts text[])
returns table (nth bigint, language text, lexemes tsvector, weights sparsevec, length integer)
language sql stable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    with known as materialized (
        select t.*, memoryd.language_of(t.text, a.allowed) as language
        -- Read once, not for each text.
        from (select memoryd.allowed_languages() as allowed offset 0) a
        cross join unnest(p_texts) with ordinality as t(text, nth)
    ), texts as materialized (
        select k.nth, k.language, memoryd.lexemes_in(k.text, k.language) as lexemes
        from known k
    ), counts as (
        select t.nth, memoryd.sparse_index(l.lexeme) as index, sum(cardinality(l.positions)) as count
        from texts t cross join lateral unnest(t.lexemes) l
        group by 1, 2
    ), weighed as (
        select c.nth, c.index, (c.count * 2.2 / (c.count + 1.2))::real as weight, c.count,
               row_number() over (partition by c.nth order by c.count desc, c.index) as rank
        from counts c
    ), vectors as (
        select w.nth, sum(w.count)::integer as length,
               ('{' || string_agg(w.index || ':' || w.weight, ',') || '}/1000000000')::sparsevec as weights
        from weighed w
        -- The largest weights: a sparsevec has at most 16,000.
        where w.rank <= 16000
        group by w.nth
    )
    select t.nth, t.language, t.lexemes, coalesce(v.weights, '{}/1000000000'), coalesce(v.length, 0)
    from texts t
    left join vectors v on v.nth = t.nth
$$;
