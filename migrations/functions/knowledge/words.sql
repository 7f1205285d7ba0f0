-- What two short texts say, compared by their words: whether one says something that the other does not, or
-- the opposite of it. An embedding cannot tell "on Fridays" from "on Mondays", or "always" from "never":
-- these functions can, as far as words show it. Below: how much of a new entry is not known yet.

-- The words of a text's first 2,000 characters, in order: lower case, numbers as digits, "don't" as "do not".
create or replace function memoryd.words_in_order(p_text text) returns text[]
language sql immutable parallel safe
return (
    select coalesce(array_agg(coalesce(
        '{"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
          "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "fifteen": "15",
          "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70",
          "eighty": "80", "ninety": "90", "hundred": "100", "thousand": "1000", "million": "1000000",
          "twice": "2", "double": "2", "triple": "3"}'::jsonb ->> w.word, w.word) order by w.nth), '{}')
    from (select rtrim(m[1], '.,:') as word, m.nth
          from regexp_matches(
              replace(regexp_replace(lower(left(p_text, 2000)), '(n''t|n’t|nnot)\M', 'n not', 'g'),
                      ',000', '000'),
              '[[:alnum:]]+(?:[.,:][0-9]+)*', 'g') with ordinality as m(m, nth)) w);

-- Those of these words that carry meaning, each as its English stem. Words of place and time (before, above),
-- which a search leaves out, are kept.
create or replace function memoryd.stems_in_order(p_words text[]) returns text[]
language sql immutable parallel safe
return (
    select coalesce(array_agg(coalesce(nullif(
        (ts_lexize('pg_catalog.english_stem', w.word))[1], ''), w.word) order by w.nth), '{}')
    from unnest(p_words) with ordinality as w(word, nth)
    where w.word <> all (
        '{a,an,the,of,to,in,on,at,for,is,are,be,been,was,were,has,have,had,that,this,it,its,and,with,by,as,we,
          our,us,i,you,your,they,their,will,would,should,must,need,needs,when,do,does,did,so,which,from,every,
          each,all,or}'::text[]));

-- How often a text says no: of two texts that differ in whether this is even, one denies what the other says.
create or replace function memoryd.denials(p_words text[]) returns bigint
language sql immutable parallel safe
return (
    select count(*) from unnest(p_words) as w(word)
    where w.word = any ('{not,never,no,none,nobody,nothing,neither,nor,without,avoid,avoids,avoided,avoiding,
                          stop,stops,stopped,refuse,refuses,refused,forbid,forbids,forbidden,banned,
                          prohibited,unable,hardly,fails,failed,nicht,nie,niemals,kein,keine,keinen,ohne,
                          jamais,pas,sans,nunca,sin,nao,não,sem,mai,senza,nooit,niet,geen,zonder}'::text[]));

-- Whether one text has a word and the other its opposite, and neither has both: two texts that are near
-- contradict each other then.
create or replace function memoryd.has_opposite(p_known text[], p_new text[]) returns boolean
language sql immutable parallel safe
return (
    select exists (
        select from jsonb_each_text(
            '{"always": "never", "before": "after", "above": "below", "over": "under", "more": "less",
              "most": "least", "increase": "decrease", "increased": "decreased", "rise": "fall",
              "rises": "falls", "rose": "fell", "enable": "disable", "enabled": "disabled", "open": "closed",
              "opened": "closed", "success": "failure", "succeeded": "failed", "works": "crashes",
              "work": "crash", "long": "short", "largest": "smallest", "first": "last", "early": "late",
              "allowed": "forbidden", "true": "false", "start": "stop", "started": "stopped",
              "accept": "reject", "accepted": "rejected", "up": "down", "faster": "slower", "fast": "slow",
              "cheaper": "dearer", "higher": "lower", "high": "low", "public": "private",
              "include": "exclude", "gain": "loss", "won": "lost", "buy": "sell", "long term": "short term",
              "delete": "keep", "deleted": "kept", "doubled": "halved", "required": "optional", "on": "off",
              "day": "night", "best": "worst", "better": "worse"}'::jsonb) o
        where (o.key = any(p_known) and o.value = any(p_new)
               and o.value <> all (p_known) and o.key <> all (p_new))
           or (o.value = any(p_known) and o.key = any(p_new)
               and o.key <> all (p_known) and o.value <> all (p_new))));

-- The numbers of a text that another does not have. A one that may stand for "a" ("one hour", "an hour") does
-- not count, unless the other text has other numbers alone.
create or replace function memoryd.new_numbers(p_known text[], p_new text[]) returns boolean
language sql immutable parallel safe
return (
    select exists (
        select from unnest(p_new) as n(word)
        where n.word ~ '^[0-9]' and n.word <> all (p_known)
          and (n.word <> '1'
               or exists (select from unnest(p_known) as k(word) where k.word ~ '^[0-9]')
                  and not exists (select from unnest(p_known) as k(word)
                                  where k.word ~ '^[0-9]' and k.word = any(p_new)))));

-- The names of a text, days and months among them, in lower case: what has a capital letter within a
-- sentence. German writes all nouns so: there none are found.
create or replace function memoryd.names_in(p_text text) returns text[]
language sql immutable parallel safe
return (
    select coalesce(array_agg(distinct lower(m[1])), '{}')
    from regexp_matches(
        left(p_text, 2000),
        '(?:(?<=[[:alnum:],;] )[[:upper:]][[:alnum:]]+'
        '|\m(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\M)', 'g') m(m)
    where memoryd.language_of(p_text) <> 'german');

-- Whether the new text names somebody or something, or a day, that the known one does not. Forms of one name
-- (Japan, Japanese) begin with the same four letters.
create or replace function memoryd.new_names(p_known text[], p_text text) returns boolean
language sql immutable parallel safe
return (
    select exists (
        select from unnest(memoryd.names_in(p_text)) as n(name)
        where not exists (select from unnest(p_known) as k(word)
                          where left(k.word, 4) = left(n.name, 4))));

-- Whether the two are the same words in the same order, but for a few in one place that are others: "owned by
-- Saber" and "owned by Sybil", "once a month" and "once a year".
create or replace function memoryd.is_substitution(p_known text[], p_new text[]) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    known constant integer := cardinality(p_known);
    new constant integer := cardinality(p_new);
    before integer := 0;
    after integer := 0;
begin
    while before < least(known, new) and p_known[before + 1] = p_new[before + 1] loop
        before := before + 1;
    end loop;
    while after < least(known, new) - before and p_known[known - after] = p_new[new - after] loop
        after := after + 1;
    end loop;
    return known - before - after between 1 and 3
        and new - before - after between 1 and 3
        and 2 * (before + after) >= least(known, new)
        and not p_new[before + 1:new - after] <@ p_known[before + 1:known - after]
        and not p_known[before + 1:known - after] <@ p_new[before + 1:new - after];
end
$$;

-- Whether the new text turns a comparison of the known one around: "quality more than speed".
create or replace function memoryd.is_turned(p_known text[], p_new text[]) returns boolean
language sql immutable parallel safe
return coalesce(
    p_known[:array_position(p_known, 'than') - 1] && p_new[array_position(p_new, 'than') + 1:]
    and p_known[array_position(p_known, 'than') + 1:] && p_new[:array_position(p_new, 'than') - 1], false);

-- In what the new text differs from a known one that is near to it, or null: it denies it, has the opposite
-- of one of its words, another number, another name or day, other words in one place, or compares the other
-- way round.
create or replace function memoryd.difference(p_known text, p_new text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    known_words constant text[] := memoryd.words_in_order(p_known);
    new_words constant text[] := memoryd.words_in_order(p_new);
    known_stems constant text[] := memoryd.stems_in_order(known_words);
    new_stems constant text[] := memoryd.stems_in_order(new_words);
begin
    return case
        when memoryd.denials(known_words) % 2 <> memoryd.denials(new_words) % 2 then 'denial'
        when memoryd.has_opposite(known_words, new_words) then 'opposite'
        when memoryd.new_numbers(known_words, new_words) then 'number'
        when memoryd.new_names(known_words, p_new) then 'name'
        when memoryd.is_turned(known_stems, new_stems) then 'comparison'
        when memoryd.is_substitution(known_stems, new_stems) then 'word'
        end;
end
$$;

-- How much of a new text a known one says already, from 0 to 1: of the similarity of their embeddings
-- (null: not known), and of the part of the new text's lexemes that the known one has. The numbers are
-- those that tell paraphrases from the rest best (python -m benchmarks.talk.surprise).
create or replace function memoryd.part_said(p_similarity double precision, p_overlap double precision)
returns double precision
language sql immutable parallel safe
return 1 / (1 + exp(-8.3 * ((coalesce(p_similarity, p_overlap) + p_overlap) / 2 - 0.55)));

-- The part of the new text's lexemes that a known one has.
create or replace function memoryd.overlap(p_known tsvector, p_new text[]) returns double precision
language sql immutable parallel safe
return (select count(*) from unnest(p_new) as n(lexeme) where n.lexeme = any(tsvector_to_array(p_known)))
    / greatest(cardinality(p_new), 1)::double precision;

-- How much of a new entry is not known yet: 1 less what the entry that says most of it says already. What
-- it is compared with are the entries of the same organisation that are nearest to it by embedding; where
-- there is no embedding, those with the most of its words.

-- What an entry says, without its title where the content begins with it.
create or replace function memoryd.said(p_title text, p_content text) returns text
language sql immutable parallel safe
return case when starts_with(p_content, rtrim(p_title, '.… ')) then p_content
            else concat_ws(E'\n', p_title, p_content) end;

-- The entries of a scope that are nearest to an embedding, at most 8, those written a moment ago with an
-- embedding among them.
create or replace function memoryd.nearest_by_meaning(p_scope bigint, p_embedding vector)
returns table (id uuid, similarity double precision)
language plpgsql stable rows 8
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    sought constant halfvec := l2_normalize(p_embedding)::halfvec;
    code_sought constant bit varying := memoryd.signs_of(sought);
    scale constant record := memoryd.calibration();
begin
    return query
    select n.id, max(m.similarity)
    from ((select e.id, 1 - (e.embedding <=> sought) as cosine
           from (select t.ctid from memoryd.entries t
                 where t.scope = p_scope and t.source = 'knowledge' and t.code is not null
                 order by t.code <~> code_sought
                 limit 40) c
           join memoryd.entries e on e.ctid = c.ctid)
          union all
          select k.id, 1 - (k.embedding <=> p_embedding)
          from (select u.id from memoryd.unindexed u
                where u.scope = p_scope and u.source = 'knowledge' and u.given
                order by u.since desc
                limit 40) f
          join public.shared_knowledge k on k.id = f.id
          where vector_dims(k.embedding) = vector_dims(p_embedding)) n
    cross join lateral (
        select memoryd.calibrated(n.cosine, scale.background, scale.unit) as similarity offset 0) m
    where m.similarity > 0.25
    group by n.id
    order by 2 desc
    limit 8;
end
$$;

-- Entries of a scope that have words of a text, with the part of its lexemes that each has: where p_indexed
-- those with the most, else the best of the newest 20 that are not indexed yet.
create or replace function memoryd.nearest_by_words(
    p_scope bigint, p_lexemes text[], p_language text, p_indexed boolean)
returns table (id uuid, overlap double precision)
language plpgsql stable rows 8
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
begin
    if p_indexed then
        return query
        select t.id, max(t.overlap)
        from (select e.id, memoryd.overlap(e.lexemes, p_lexemes) as overlap
              from memoryd.entries e
              where memoryd.search_terms(e.scope, e.lexemes)
                    && array(select hashtextextended(l, p_scope) from unnest(p_lexemes) l)
                and e.scope = p_scope and e.source = 'knowledge'
              limit 2000) t
        group by t.id
        order by 2 desc
        limit 8;
        return;
    end if;
    return query
    select t.id, t.overlap
    from (select k.id,
                 memoryd.overlap(memoryd.lexemes_in(left(memoryd.searched_text(k), 2000), p_language),
                                 p_lexemes) as overlap
          from (select u.id from memoryd.unindexed u
                where u.scope = p_scope and u.source = 'knowledge' and not u.given
                order by u.since desc
                limit 20) f
          join public.shared_knowledge k on k.id = f.id) t
    where t.overlap >= 0.3
    order by t.overlap desc
    limit 3;
end
$$;

-- Up to 8 entries that are nearest to a text, the one that says most of it first, with how much of it each
-- says (said, from 0 to 1), how much it would say if nothing differed (near), and in what they differ.
-- Nothing of another organisation than the caller's, and nothing for callers who are not the service.
-- p_not: an entry to leave out.
create or replace function memoryd.nearest_knowledge(
    p_text text, p_org uuid, p_embedding vector, p_not uuid default null)
returns table (id uuid, said double precision, near double precision, difference text,
               similarity double precision)
language plpgsql stable security definer rows 8
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
    scope constant bigint := memoryd.org_scope(p_org);
    language constant text := memoryd.language_of(p_text);
    lexemes constant text[] := tsvector_to_array(memoryd.lexemes_in(left(p_text, 2000), language));
    scale constant record := memoryd.calibration();
begin
    if not memoryd.caller_is_service()
       or (memoryd.caller_org() is not null and p_org is distinct from memoryd.caller_org()) then
        return;
    end if;
    return query
    with candidates as materialized (
        select n.id, n.similarity
        from memoryd.nearest_by_meaning(scope, p_embedding) n where p_embedding is not null
        union all
        select w.id, null from memoryd.nearest_by_words(scope, lexemes, language, false) w
        union all
        select w.id, null from memoryd.nearest_by_words(scope, lexemes, language, true) w
        where p_embedding is null
    ), compared as materialized (
        select k.id, memoryd.said(k.title, k.content) as text,
               coalesce(c.similarity, memoryd.calibrated(
                   case when p_embedding is not null
                        then 1 - (memoryd.embed(left(memoryd.searched_text(k), 2000)) <=> p_embedding) end,
                   scale.background, scale.unit)) as similarity,
               memoryd.overlap(
                   memoryd.lexemes_in(left(memoryd.searched_text(k), 8192), language), lexemes) as overlap
        from candidates c
        join public.shared_knowledge k on k.id = c.id
        where k.org_id is not distinct from p_org and k.status <> 'archived' and k.id is distinct from p_not
    ), told as materialized (
        -- What says little of it need not be looked at word by word.
        select t.id, t.similarity, n.near,
               case when n.near > 0.2 then memoryd.difference(t.text, p_text) end as difference
        from compared t
        cross join lateral (select memoryd.part_said(t.similarity, t.overlap) as near) n
        order by coalesce(t.similarity, t.overlap) + t.overlap desc
        limit 8
    )
    select t.id, least(t.near, case when t.difference is not null then 0.2 end), t.near, t.difference,
           t.similarity
    from told t
    order by 2 desc, 3 desc, 1;
end
$$;

-- How new a text is, and which entry says most of it (null: none says any of it). Entries that say the very
-- same are found without an index of words or embeddings, also those that this statement has written.
create or replace function memoryd.surprise_of(
    p_title text, p_content text, p_org uuid, p_embedding vector,
    out surprise double precision, out neighbour uuid)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    select k.id into neighbour
    from public.shared_knowledge k
    where hashtextextended(k.title || E'\n' || k.content, 0)
          = hashtextextended(p_title || E'\n' || p_content, 0)
      and k.title = p_title and k.content = p_content
      and k.org_id is not distinct from p_org and k.status <> 'archived'
    order by k.created_at, k.id
    limit 1;
    if found then
        surprise := 0;
        return;
    end if;
    select n.id, 1 - n.said into neighbour, surprise
    from memoryd.nearest_knowledge(memoryd.said(p_title, p_content), p_org, p_embedding) n
    limit 1;
    surprise := coalesce(surprise, 1);
end
$$;

-- Scores an entry that a client inserts without a score. It is stored in any case.
create or replace function memoryd.score_knowledge() returns trigger
language plpgsql
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    if memoryd.importing() then
        return new;
    end if;
    select s.surprise into new.surprise_score
    from memoryd.surprise_of(
        new.title, new.content, new.org_id,
        coalesce(case when vector_dims(new.embedding) = memoryd.dimensions() then new.embedding end,
                 memoryd.embed(left(memoryd.searched_text(new), 2000)))) s;
    return new;
end
$$;
