-- What a context shows of a long text: the part that was asked for.

-- The part of a text that says most of these words (memoryd.lexemes_in), in p_most characters or so: the
-- sentences from the one on that has the rarest of them, or rows of a table, the best first, below the names
-- of its columns. If there is no room for one row, it has its first column, then those that say most of these
-- words. A short text, or one that says none of them, is whole. Null words: none were asked for.
create or replace function memoryd.excerpt(p_text text, p_words text[], p_most integer) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    parts text[] := '{}';
    -- Of each part the header of its table.
    heads text[] := '{}';
    head text;
    line text;
    best integer[];
    scores double precision[];
    rows text[];
    first integer;
begin
    if p_words is null or length(p_text) <= p_most then
        return p_text;
    end if;
    foreach line in array regexp_split_to_array(btrim(left(p_text, 8192)), '\s*\n\s*') loop
        if line ~ '^[|: -]*-[|: -]*$' and strpos(line, '|') > 0 and cardinality(parts) > 0 then
            head := parts[cardinality(parts)];
            heads[cardinality(heads)] := head;
            continue;
        end if;
        head := case when strpos(line, '|') > 0 then head end;
        parts := parts || case
            when head is null then regexp_split_to_array(line, '(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])')
            else array[line] end;
        heads := heads || array_fill(head, array[cardinality(parts) - cardinality(heads)]);
    end loop;
    select array_agg(s.nth order by s.score desc, s.nth), array_agg(s.score order by s.score desc, s.nth)
    into best, scores
    from (select w.nth, sum(w.weight) as score
          from (select p.nth, 1.0 / count(*) over (partition by w.word) as weight
                from unnest(parts, heads) with ordinality as p(part, head, nth)
                cross join lateral unnest(tsvector_to_array(memoryd.lexemes_in(p.part, 'english'))) as w(word)
                where w.word = any(p_words) and p.part is distinct from p.head) w
          group by w.nth) s;
    if best is null then
        return p_text;
    elsif heads[best[1]] is not null then
        head := heads[best[1]];
        rows := array(
            select parts[b.nth]
            from unnest(best, scores) as b(nth, score)
            where heads[b.nth] = head and b.score >= 0.7 * scores[1]
            order by b.score desc, b.nth);
        if length(head) + length(rows[1]) + 3 <= p_most then
            return (
                select head || string_agg(' / ' || r.line, '' order by r.nth)
                from (select u.line, u.nth, sum(length(u.line) + 3) over (order by u.nth) as used
                      from unnest(rows) with ordinality as u(line, nth)) r
                where length(head) + r.used <= p_most);
        end if;
        return (
            select '| ' || string_agg(c.name, ' | ' order by c.nth) || ' | / | '
                   || string_agg(c.cell, ' | ' order by c.nth) || ' |'
            from (select a.*, sum(length(a.name) + length(a.cell) + 6)
                                  over (order by a.nth = 1 desc, a.asked desc, a.nth) as used
                  from (select left(u.name, 100) as name, left(coalesce(u.cell, ''), p_most / 2) as cell,
                               u.nth,
                               (select count(*)
                                from unnest(tsvector_to_array(memoryd.lexemes_in(
                                    concat_ws(' ', u.name, u.cell), 'english'))) as w(word)
                                where w.word = any(p_words)) as asked
                        from unnest(regexp_split_to_array(btrim(head, '| '), '\s*(?<!\\)\|\s*'),
                                    regexp_split_to_array(btrim(rows[1], '| '), '\s*(?<!\\)\|\s*'))
                             with ordinality as u(name, cell, nth)) a) c
            where c.used <= p_most - 8);
    end if;
    first := case when length(array_to_string(parts[:best[1]], ' ')) <= p_most then 1 else best[1] end;
    while first > 1 and length(array_to_string(parts[first - 1:], ' ')) <= p_most loop
        first := first - 1;
    end loop;
    return case when first > 1 then '… ' else '' end || array_to_string(parts[first:], ' ');
end
$$;
