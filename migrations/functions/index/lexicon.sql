-- Of these words those whose lexeme is new here. Letters only, of a length that words have.
create or replace function memoryd.unknown_words(p_words text[]) returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select distinct on (s.lexeme collate "C") w.word
    from unnest(p_words) as w(word)
    cross join lateral (select (ts_lexize('english_stem', w.word))[1] as lexeme) s
    where s.lexeme is not null
      and not exists (select from memoryd.lexicon l where l.lexeme = s.lexeme offset 0)
    -- The shortest form is most often the word itself.
    order by s.lexeme collate "C", length(w.word), w.word
$$;

-- Adds words that are new here and that a row of p_rows is found by (null: whatever rows there are); a job embeds them. Called
-- in the transaction that writes those rows, as its last statement: it waits for who is adding or forgetting the same word.
create or replace function memoryd.learn_words(p_words text[], p_rows uuid[] default null) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    learnt integer;
begin
    with given as materialized (
        select w.word, (ts_lexize('english_stem', w.word))[1] as lexeme
        from memoryd.unknown_words(p_words) as w(word)
    ), found as materialized (
        select distinct l.lexeme
        from (select m.lexemes from public.agent_memory m where m.id = any(p_rows)
              union all
              select m.lexemes from public.conversation_messages m where m.id = any(p_rows)
              union all
              select c.lexemes from public.memory_chunks c where c.id = any(p_rows)
              union all
              select k.lexemes from public.shared_knowledge k where k.id = any(p_rows)
              union all
              select i.lexemes from public.dream_insights i where i.id = any(p_rows)) r
        cross join lateral unnest(tsvector_to_array(r.lexemes)) as l(lexeme)
        where exists (select from given)
    )
    insert into memoryd.lexicon (lexeme, word)
    select g.lexeme, g.word
    from given g
    where p_rows is null or g.lexeme in (select f.lexeme from found f)
    order by g.lexeme collate "C"
    on conflict do nothing;
    get diagnostics learnt = row_count;
    if learnt > 0 then
        insert into memoryd.jobs (topic, lane) values ('lexicon', 'words');
        perform memoryd.ring('lexicon');
    end if;
    return learnt;
end
$$;

-- Of words that nobody's rows hold any more nothing stays. Null: of all such words.
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
