-- Of a question recall knows which of its words hardly any row has; and classify_message(), which names titles give.

alter type memoryd.question add attribute rare sparsevec;

-- What an entry of knowledge may name: the runs of up to three words that its title writes with capital
-- letters, in lower case. Which of them are names is for memoryd.title_names() to say.
-- The cost is what a title takes: no plan may compute it for all rows.
create function memoryd.capital_runs(p_title text) returns text[]
language plpgsql immutable parallel safe cost 5000
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(array_agg(distinct lower(r.run)), '{}')
        from regexp_matches(regexp_replace(left(p_title, 300), '\s+', ' ', 'g'),
                            '\m[[:upper:]][[:alnum:]-]+(?: [[:upper:]][[:alnum:]-]+)*', 'g') m(m)
        cross join lateral (
            select t.word, t.word || ' ' || lead(t.word) over w as two,
                   t.word || ' ' || lead(t.word) over w || ' ' || lead(t.word, 2) over w as three
            from string_to_table(m.m[1], ' ') with ordinality as t(word, place)
            window w as (order by t.place)) w
        cross join lateral unnest(array[w.word, w.two, w.three]) as r(run)
        where r.run is not null);
end
$$;
create index shared_knowledge_capitals on public.shared_knowledge using gin (memoryd.capital_runs(title))
    with (fastupdate = off);
