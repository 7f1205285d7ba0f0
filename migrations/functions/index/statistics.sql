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
           order by c.scope, l.lexeme) t
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
           cross join lateral unnest(memoryd.name_lexemes(c.speaker)) as l(lexeme)) t
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
