-- The lexicon: the words of the indexed texts, which a daemon then compares by meaning.

-- Those of these words whose lexeme is not in the lexicon, one for each lexeme.
create or replace function memoryd.unknown_words(p_words text[]) returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select distinct on (s.lexeme collate "C") w.word
    from unnest(p_words) as w(word)
    cross join lateral (select (ts_lexize('english_stem', w.word))[1] as lexeme) s
    where s.lexeme is not null
      and not exists (select from memoryd.lexicon l where l.lexeme = s.lexeme offset 0)
    -- The shortest form of a lexeme is usually the word without an ending.
    order by s.lexeme collate "C", length(w.word), w.word
$$;

-- Adds those of these words that are new and that one of these rows, with their scopes, is found by (p_rows
-- null: the rows are not checked); a job embeds them. Returns how many it added. Called in the transaction
-- that writes those rows, as its last statement, since it waits for transactions that add or delete the same
-- words. A row teaches at most 500 words: what has more is no text, and the rest of a long text is learnt
-- with others.
create or replace function memoryd.learn_words(
    p_words text[], p_rows uuid[] default null, p_scopes bigint[] default null) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    added integer;
begin
    with given as materialized (
        select w.word, (ts_lexize('english_stem', w.word))[1] as lexeme
        from memoryd.unknown_words(p_words) as w(word)
    ), indexed as materialized (
        select distinct l.lexeme
        from unnest(p_rows, p_scopes) as r(id, scope)
        join memoryd.entries e on e.scope = r.scope and e.id = r.id
        cross join lateral (
            select t.lexeme from unnest(tsvector_to_array(e.lexemes)) as t(lexeme)
            where t.lexeme in (select g.lexeme from given g)
            limit 500
        ) l
        where exists (select from given)
    )
    insert into memoryd.lexicon (lexeme, word)
    select g.lexeme, g.word
    from given g
    where p_rows is null or g.lexeme in (select i.lexeme from indexed i)
    order by g.lexeme collate "C"
    on conflict do nothing;
    get diagnostics added = row_count;
    if added > 0 then
        insert into memoryd.jobs (topic, lane) values ('lexicon', 'words');
        perform memoryd.wake('lexicon');
    end if;
    return added;
end
$$;

-- Deletes the words that no row contains any more: those among p_lexemes, or all (null).
create or replace function memoryd.forget_words(p_lexemes text[] default null) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    gone text[];
begin
    with locked as materialized (
        select l.lexeme from memoryd.lexicon l
        where (p_lexemes is null or l.lexeme in (select unnest(p_lexemes)))
          and not exists (select from memoryd.lexeme_statistics s where s.lexeme = l.lexeme)
        order by l.lexeme
        for update of l
    )
    select array_agg(k.lexeme) into gone from locked k;
    if gone is not null then
        delete from memoryd.lexeme_neighbours n
        using memoryd.lexeme_neighbours own
        where own.lexeme = any(gone)
          and n.lexeme = own.neighbour and n.similarity = own.similarity and n.neighbour = own.lexeme;
        delete from memoryd.lexeme_neighbours n where n.lexeme = any(gone);
        delete from memoryd.lexicon l where l.lexeme = any(gone);
    end if;
end
$$;
