-- What two short texts say, compared by their words: whether one says something that the other does not, or
-- the opposite of it. For knowledge/surprise.sql. An embedding cannot tell "on Fridays" from "on Mondays", or
-- "always" from "never": these functions can, as far as words show it.

-- Numbers that are written as words, and what stands for them.
create or replace function memoryd.number_words() returns jsonb
language sql immutable parallel safe
return '{"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
         "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "fifteen": "15",
         "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70",
         "eighty": "80", "ninety": "90", "hundred": "100", "thousand": "1000", "million": "1000000",
         "twice": "2", "double": "2", "triple": "3"}'::jsonb;

-- The words of a text's first 2,000 characters, in order: lower case, numbers as digits, "don't" as "do not".
create or replace function memoryd.words_in_order(p_text text) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(coalesce(memoryd.number_words() ->> w.word, w.word) order by w.nth), '{}')
    from (select rtrim(m[1], '.,:') as word, m.nth
          from regexp_matches(
              replace(regexp_replace(lower(left(p_text, 2000)), '(n''t|n’t|nnot)\M', 'n not', 'g'),
                      ',000', '000'),
              '[[:alnum:]]+(?:[.,:][0-9]+)*', 'g') with ordinality as m(m, nth)) w
$$;

-- Those of these words that carry meaning, each as its English stem. Words of place and time (before, above),
-- which a search leaves out, are kept.
create or replace function memoryd.stems_in_order(p_words text[]) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(coalesce(nullif(
        (ts_lexize('pg_catalog.english_stem', w.word))[1], ''), w.word) order by w.nth), '{}')
    from unnest(p_words) with ordinality as w(word, nth)
    where w.word <> all (
        '{a,an,the,of,to,in,on,at,for,is,are,be,been,was,were,has,have,had,that,this,it,its,and,with,by,as,we,
          our,us,i,you,your,they,their,will,would,should,must,need,needs,when,do,does,did,so,which,from,every,
          each,all,or}'::text[])
$$;

-- How often a text says no: of two texts that differ in whether this is even, one denies what the other says.
create or replace function memoryd.denials(p_words text[]) returns bigint
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select count(*) from unnest(p_words) as w(word)
    where w.word = any ('{not,never,no,none,nobody,nothing,neither,nor,without,avoid,avoids,avoided,avoiding,
                          stop,stops,stopped,refuse,refuses,refused,forbid,forbids,forbidden,banned,
                          prohibited,unable,hardly,fails,failed,nicht,nie,niemals,kein,keine,keinen,ohne,
                          jamais,pas,sans,nunca,sin,nao,não,sem,mai,senza,nooit,niet,geen,zonder}'::text[])
$$;

-- Words that say the opposite of each other. Two texts that are near and have one each contradict each other.
create or replace function memoryd.opposites() returns jsonb
language sql immutable parallel safe
return '{"always": "never", "before": "after", "above": "below", "over": "under", "more": "less",
         "most": "least", "increase": "decrease", "increased": "decreased", "rise": "fall", "rises": "falls",
         "rose": "fell", "enable": "disable", "enabled": "disabled", "open": "closed", "opened": "closed",
         "success": "failure", "succeeded": "failed", "works": "crashes", "work": "crash", "long": "short",
         "largest": "smallest", "first": "last", "early": "late", "allowed": "forbidden", "true": "false",
         "start": "stop", "started": "stopped", "accept": "reject", "accepted": "rejected", "up": "down",
         "faster": "slower", "fast": "slow", "cheaper": "dearer", "higher": "lower", "high": "low",
         "public": "private", "include": "exclude", "gain": "loss", "won": "lost", "buy": "sell",
         "long term": "short term", "delete": "keep", "deleted": "kept", "doubled": "halved",
         "required": "optional", "on": "off", "day": "night", "best": "worst", "better": "worse"}'::jsonb;

-- Whether one text has a word and the other its opposite, and neither has both.
create or replace function memoryd.has_opposite(p_known text[], p_new text[]) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select from jsonb_each_text(memoryd.opposites()) o
        where (o.key = any(p_known) and o.value = any(p_new)
               and o.value <> all (p_known) and o.key <> all (p_new))
           or (o.value = any(p_known) and o.key = any(p_new)
               and o.key <> all (p_known) and o.value <> all (p_new)))
$$;

-- The numbers of a text that another does not have. A one that may stand for "a" ("one hour", "an hour") does
-- not count, unless the other text has other numbers alone.
create or replace function memoryd.new_numbers(p_known text[], p_new text[]) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select from unnest(p_new) as n(word)
        where n.word ~ '^[0-9]' and n.word <> all (p_known)
          and (n.word <> '1'
               or exists (select from unnest(p_known) as k(word) where k.word ~ '^[0-9]')
                  and not exists (select from unnest(p_known) as k(word)
                                  where k.word ~ '^[0-9]' and k.word = any(p_new))))
$$;

-- The names of a text, days and months among them, in lower case: what has a capital letter within a
-- sentence. German writes all nouns so: there none are found.
create or replace function memoryd.names_in(p_text text) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(distinct lower(m[1])), '{}')
    from regexp_matches(
        left(p_text, 2000),
        '(?:(?<=[[:alnum:],;] )[[:upper:]][[:alnum:]]+'
        '|\m(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\M)', 'g') m(m)
    where memoryd.language_of(p_text) <> 'german'
$$;

-- Whether the new text names somebody or something, or a day, that the known one does not. Forms of one name
-- (Japan, Japanese) begin with the same four letters.
create or replace function memoryd.new_names(p_known text[], p_text text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select from unnest(memoryd.names_in(p_text)) as n(name)
        where not exists (select from unnest(p_known) as k(word)
                          where left(k.word, 4) = left(n.name, 4)))
$$;

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
-- those that tell paraphrases from the rest best (python -m benchmarks.talk.surprise). What differs says
-- something new.
create or replace function memoryd.part_said(
    p_similarity double precision, p_overlap double precision, p_differs boolean) returns double precision
language sql immutable parallel safe
return least(
    1 / (1 + exp(-8.3 * ((coalesce(p_similarity, p_overlap) + p_overlap) / 2 - 0.55))),
    case when p_differs then 0.2 end);

-- The part of the new text's lexemes that a known one has.
create or replace function memoryd.overlap(p_known tsvector, p_new text[]) returns double precision
language sql immutable parallel safe
return (select count(*) from unnest(p_new) as n(lexeme) where n.lexeme = any(tsvector_to_array(p_known)))
    / greatest(cardinality(p_new), 1)::double precision;
