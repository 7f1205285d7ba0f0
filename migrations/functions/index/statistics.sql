-- How many passages of a scope contain a lexeme, and how many a scope has. Triggers of memoryd.entries append
-- what a statement changes to memoryd.lexeme_changes, and one daemon at a time adds it to
-- memoryd.lexeme_statistics.

-- What a passage counts: 1 for each of its lexemes, for its source ('#memory') and its language ('=german'),
-- and its length in words ('+'), of which the average length in a scope is computed.
create or replace function memoryd.counted(
    p_source text, p_language text, p_lexemes tsvector, p_length integer)
returns table (lexeme text, count integer)
language sql immutable parallel safe
begin atomic
    select l.lexeme, 1 from unnest(
        array['#' || p_source, memoryd.language_mark(p_language)]
        || tsvector_to_array(p_lexemes)) as l(lexeme)
    union all
    select '+', p_length where p_length > 0;
end;

-- Appends the changes of a statement, in its own transaction, so that a rollback takes them back too.
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
        insert into memoryd.lexeme_changes (scope, lexemes, counts)
        select t.scope, array_agg(t.lexeme), array_agg(t.count)
        from (select n.scope, l.lexeme, sum(l.count)::integer as count
              from new_rows n cross join lateral memoryd.counted(n.source, n.language, n.lexemes, n.length) l
              group by n.scope, l.lexeme) t
        group by t.scope;
    elsif tg_op = 'DELETE' then
        insert into memoryd.lexeme_changes (scope, lexemes, counts)
        select t.scope, array_agg(t.lexeme), array_agg(-t.count)
        from (select o.scope, l.lexeme, sum(l.count)::integer as count
              from old_rows o cross join lateral memoryd.counted(o.source, o.language, o.lexemes, o.length) l
              group by o.scope, l.lexeme) t
        group by t.scope;
    else
        insert into memoryd.lexeme_changes (scope, lexemes, counts)
        -- Passages that have another scope now, or other lexemes. `not in` is always looked up by a hash; a
        -- join might not be.
        select t.scope, array_agg(t.lexeme), array_agg(t.count)
        from (select c.scope, l.lexeme, sum(c.sign * l.count)::integer as count
              from (select n.scope, n.source, n.language, n.lexemes, n.length, 1 as sign
                    from new_rows n
                    where (n.id, n.source, n.passage, n.scope, n.length, n.lexemes::text) not in (
                        select o.id, o.source, o.passage, o.scope, o.length, o.lexemes::text from old_rows o)
                    union all
                    select o.scope, o.source, o.language, o.lexemes, o.length, -1
                    from old_rows o
                    where (o.id, o.source, o.passage, o.scope, o.length, o.lexemes::text) not in (
                        select n.id, n.source, n.passage, n.scope, n.length, n.lexemes::text from new_rows n)
                   ) c
              cross join lateral memoryd.counted(c.source, c.language, c.lexemes, c.length) l
              group by c.scope, l.lexeme
              having sum(c.sign * l.count) <> 0) t
        group by t.scope;
    end if;
    if found then
        insert into memoryd.jobs (topic, lane) values ('statistics', 'lexemes');
        perform memoryd.wake('statistics');
    end if;
    return null;
end
$$;

-- Adds the oldest changes to the statistics, at most p_maximum (null: all), and returns how many. One
-- transaction at a time, in order, so that no count is ever negative. Lexemes whose count is 0 are deleted,
-- also those that were added and removed since the last time.
create or replace function memoryd.fold_lexeme_changes(p_maximum integer default 5000) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    folded integer;
    gone_scopes bigint[];
    gone_lexemes text[];
begin
    perform memoryd.lock('lexeme_statistics');
    with taken as (
        delete from memoryd.lexeme_changes c
        where c.id in (select f.id from memoryd.lexeme_changes f order by f.id limit p_maximum)
        returning c.scope, c.lexemes, c.counts
    ), summed as materialized (
        select t.scope, l.lexeme, sum(l.count) as count
        from taken t cross join lateral unnest(t.lexemes, t.counts) as l(lexeme, count)
        group by t.scope, l.lexeme
    ), changed as (
        update memoryd.lexeme_statistics s set rows = s.rows + t.count
        from summed t
        where s.scope = t.scope and s.lexeme = t.lexeme and t.count <> 0
        returning s.scope, s.lexeme, s.rows
    ), added as (
        -- Not `on conflict`: nobody else writes these rows, and it would write each of them three times.
        insert into memoryd.lexeme_statistics as s (scope, lexeme, rows)
        select t.scope, t.lexeme, t.count
        from summed t
        where t.count <> 0
          and not exists (select from memoryd.lexeme_statistics s
                          where s.scope = t.scope and s.lexeme = t.lexeme offset 0)
        order by t.scope, t.lexeme
        returning s.scope, s.lexeme, s.rows
    ), gone as (
        select c.scope, c.lexeme from changed c where c.rows <= 0
        union all
        select a.scope, a.lexeme from added a where a.rows <= 0
        union all
        select t.scope, t.lexeme from summed t where t.count = 0
    )
    select (select count(*) from taken), array_agg(g.scope), array_agg(g.lexeme)
    into folded, gone_scopes, gone_lexemes
    from gone g;
    if gone_scopes is not null then
        delete from memoryd.lexeme_statistics s
        using unnest(gone_scopes, gone_lexemes) as g(scope, lexeme)
        where s.scope = g.scope and s.lexeme = g.lexeme and s.rows <= 0;
        perform memoryd.forget_words(gone_lexemes);
    end if;
    return folded;
end
$$;
