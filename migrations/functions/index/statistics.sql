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

-- The statistics of entries: in how many passages of a scope each lexeme occurs (lexeme_statistics), how many
-- passages and words the scope has (scope_statistics), who speaks there (speaker_statistics). Triggers of
-- memoryd.entries append what a statement adds and deletes to memoryd.lexeme_changes, and one daemon at a
-- time counts it in.

-- Appends the changes of a statement, in its own transaction, so that a rollback takes them back too. Nothing
-- is added up here, where writers wait.
create or replace function memoryd.count_lexemes() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- What is in the generation that recall does not use is not counted.
    if tg_table_name <> 'entries' then
        return null;
    end if;
    if tg_op = 'INSERT' then
        insert into memoryd.lexeme_changes (scope, source, language, speaker, words, lexemes, sign)
        select n.scope, n.source, n.language, btrim(n.speaker), n.length, strip(n.lexemes), 1 from new_rows n;
    elsif tg_op = 'DELETE' then
        insert into memoryd.lexeme_changes (scope, source, language, speaker, words, lexemes, sign)
        select o.scope, o.source, o.language, btrim(o.speaker), o.length, strip(o.lexemes), -1
        from old_rows o;
    else
        insert into memoryd.lexeme_changes (scope, source, language, speaker, words, lexemes, sign)
        -- Of what is counted an update changes nothing but the scope. `not in` is always looked up by a hash;
        -- a join might not be.
        select c.scope, c.source, c.language, btrim(c.speaker), c.length, strip(c.lexemes), c.sign
        from (select n.*, 1 as sign from new_rows n
              where (n.id, n.source, n.passage, n.scope) not in (
                  select o.id, o.source, o.passage, o.scope from old_rows o)
              union all
              select o.*, -1 from old_rows o
              where (o.id, o.source, o.passage, o.scope) not in (
                  select n.id, n.source, n.passage, n.scope from new_rows n)) c;
    end if;
    if found then
        insert into memoryd.jobs (topic, lane) values ('statistics', 'lexemes');
        perform memoryd.wake('statistics');
    end if;
    return null;
end
$$;

-- Counts the oldest changes in, at most p_maximum (null: all), and returns how many. One transaction at a
-- time, in order, so that no count is ever negative. Counts of 0 are deleted.
create or replace function memoryd.fold_lexeme_changes(p_maximum integer default 5000) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- Each count is looked up by its key: other joins would read a whole table.
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
as $$
declare
    taken bigint[];
    lessened text[];
begin
    perform memoryd.lock('lexeme_statistics');
    taken := array(select c.id from memoryd.lexeme_changes c order by c.id limit p_maximum);
    merge into memoryd.lexeme_statistics s
    using (select c.scope, l.lexeme, sum(c.sign) as rows
           from memoryd.lexeme_changes c cross join lateral unnest(tsvector_to_array(c.lexemes)) as l(lexeme)
           where c.id = any(taken)
           group by c.scope, l.lexeme
           having sum(c.sign) <> 0
           order by l.lexeme, c.scope) t
    on s.scope = t.scope and s.lexeme = t.lexeme
    when matched and s.rows + t.rows <= 0 then delete
    when matched then update set rows = s.rows + t.rows
    when not matched then insert (scope, lexeme, rows) values (t.scope, t.lexeme, t.rows);
    merge into memoryd.scope_statistics s
    using (select c.scope, c.source, c.language, sum(c.sign) as passages, sum(c.sign * c.words) as words
           from memoryd.lexeme_changes c
           where c.id = any(taken)
           group by c.scope, c.source, c.language
           having sum(c.sign) <> 0 or sum(c.sign * c.words) <> 0) t
    on s.scope = t.scope and s.source = t.source and s.language = t.language
    when matched and s.passages + t.passages <= 0 then delete
    when matched then update set passages = s.passages + t.passages, words = s.words + t.words
    when not matched then insert (scope, source, language, passages, words)
        values (t.scope, t.source, t.language, t.passages, t.words);
    merge into memoryd.speaker_statistics s
    using (select l.lexeme, c.scope, c.speaker, c.passages
           from (select c.scope, c.speaker, sum(c.sign) as passages
                 from memoryd.lexeme_changes c
                 where c.id = any(taken) and c.speaker is not null
                 group by c.scope, c.speaker
                 having sum(c.sign) <> 0) c
           cross join lateral unnest(memoryd.words_in(c.speaker)) as l(lexeme)) t
    on s.lexeme = t.lexeme and s.scope = t.scope and s.speaker = t.speaker
    when matched and s.passages + t.passages <= 0 then delete
    when matched then update set passages = s.passages + t.passages
    when not matched then insert (lexeme, scope, speaker, passages)
        values (t.lexeme, t.scope, t.speaker, t.passages);
    with counted as (
        delete from memoryd.lexeme_changes c where c.id = any(taken) returning c.sign, c.lexemes)
    select array_agg(distinct l.lexeme) into lessened
    from counted c cross join lateral unnest(tsvector_to_array(c.lexemes)) as l(lexeme)
    where c.sign < 0;
    if lessened is not null then
        perform memoryd.forget_words(lessened);
    end if;
    return cardinality(taken);
end
$$;
