-- The local embedder in SQL: memoryd.embed() gives the vector that the daemons' local embedder gives. It
-- needs the tokens of the local embedder (memoryd.tokens), and writes nothing.
--
-- A text becomes tokens as follows. Each space becomes the character U+2581 (▁), and one more is put
-- before the text. The characters are then merged to tokens, pair by pair. Of all pairs, the one with the
-- lowest rank is merged first, of several such pairs the first in the text. A character that is no token
-- becomes one token for each of its bytes. Control tokens (<s>) are recognised before all this; the text
-- between two of them is treated as a text of its own.
--
-- No token has U+2581 behind another character. So a text may be cut before each run of U+2581, into words
-- that do not depend on each other.

-- Whether the database embeds texts itself: with the local embedder, once its tokens are loaded.
create or replace function memoryd.embeds_here() returns boolean
language plpgsql stable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from memoryd.settings s
                   where s.key = 'embedder' and s.value = '"local/wordllama-256"'
                     and getdatabaseencoding() = 'UTF8')
       and exists (select from memoryd.tokens);
end
$$;

-- The vector of a text, of unit length: of its first 8,192 characters, as the daemons' local embedder has it.
-- Null where the database's embeddings are those of another embedder, where the tokens are not loaded, and in
-- a database that is not in UTF-8.
--
-- Where single spaces part the words of the text, no pattern is needed to find them. Of the words that are no
-- tokens themselves all tokens that occur in them are looked up at once. Then each is made, in the order of
-- ranks, if its two parts are there. One pass is enough: the parts of a token have lower ranks than the token
-- itself, and two parts other than those of its own merge never stand side by side, since a token's
-- characters are merged in the same way wherever they stand (the loader of the tokens has checked both).
create or replace function memoryd.embed(p_text text) returns vector
language plpgsql stable parallel safe strict security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    given constant text := left(p_text, 8192);
    words text[];
    dimensions constant integer := memoryd.dimensions();
    joined text;
    parts text[];
    found record;
    more vector;
    total vector;
begin
    if not memoryd.embeds_here() then
        return null;
    end if;
    -- The words, each with the U+2581 before it, and its control tokens as memoryd.tokens names them.
    if given = '' then
        words := '{}';
    elsif (strpos(given, '<') = 0 or given !~ '<(s|/s|unk)>')
          and strpos(given, '  ') = 0 and given not like ' %' and strpos(given, '▁') = 0 then
        words := array(select '▁' || w from string_to_table(given, ' ') w);
    else
        words := array(
            select w[1]
            from regexp_split_to_table(given, '<(?:s|/s|unk)>') as part
            cross join regexp_matches('▁' || replace(part, ' ', '▁'), '▁*[^▁]+|▁+', 'g') as w
            where part <> ''
            union all
            select ' ' || c[1] from regexp_matches(given, '<(?:s|/s|unk)>', 'g') as c);
    end if;
    -- No token is in two words, since none has a space.
    select sum(t.vector::vector), string_agg(w.word, ' ') filter (where t.token is null) into total, joined
    from unnest(words) as w(word)
    left join memoryd.tokens t on t.token = w.word;
    if joined is not null then
        parts := string_to_array(joined, null);
        for found in
            -- Substrings are taken from blocks of 128 characters: in a long text they would take ever longer.
            select b.start + p.index as index, t.head, left(t.token, t.head) as one,
                   substr(t.token, t.head + 1) as other, t.token
            from (select b as start, substr(joined, b + 1, 143) as characters
                  from generate_series(0, length(joined) - 1, 128) as b offset 0) b
            cross join generate_series(1, least(128, length(b.characters))) as p(index)
            cross join lateral (
                select split_part(substr(b.characters, p.index, 16), ' ', 1) as ahead offset 0) a
            cross join generate_series(2, length(a.ahead)) as l(length)
            -- With the offset each is looked up by itself. A join could read the whole table.
            cross join lateral (
                select k.token, k.rank, k.head from memoryd.tokens k
                where k.token = left(a.ahead, l.length) offset 0) t
            order by t.rank, b.start + p.index
        loop
            if parts[found.index] = found.one and parts[found.index + found.head] = found.other then
                parts[found.index] := found.token;
                parts[found.index + found.head] := null;
            end if;
        end loop;
        select sum(t.vector::vector) into more
        from unnest(parts) as p(part)
        cross join lateral (
            select k.vector from memoryd.tokens k where k.token = p.part
            union all
            select k.vector from generate_series(1, octet_length(p.part)) as n
            join memoryd.tokens k on k.token = ' ' || encode(substr(convert_to(p.part, 'UTF8'), n, 1), 'hex')
            where length(p.part) = 1 and not exists (select from memoryd.tokens o where o.token = p.part)
            offset 0) t
        where p.part <> ' ';
        total := case when total is null then more else total + coalesce(more, total - total) end;
    end if;
    if words = '{}' and exists (select from memoryd.tokens t where t.token > '') then
        -- A text that says nothing has the first axis: a vector of zeros has no direction.
        return array_cat(array[1::real], array_fill(0::real, array[dimensions - 1]))::vector;
    end if;
    return l2_normalize(subvector(total, 1, dimensions));
end
$$;
comment on function memoryd.embed(text) is
    'The vector that the local embedder gives for a text; null if the database has another embedder.';

-- The vector of a question; where the database cannot make it, that which a daemon has made for this call
-- (ask_memory), or null.
create or replace function memoryd.vector_of_question(p_text text) returns vector
language sql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select coalesce(
        memoryd.embed(case when memoryd.asks_nothing(p_text) then '' else p_text end),
        memoryd.comparable(nullif(current_setting('memoryd.question_embedding', true), '')::vector))
$$;
