-- Words of every language: which language a text has, and its lexemes in that language.

-- The words of words.txt as memoryd.frequent_words() and memoryd.function_words(), computed here and not in
-- each session. A line there is a language: its name, its configuration in Postgres, its signs beyond ASCII,
-- its function words, other frequent words, and function words by which it is not recognised. The first 27
-- are well known, in order of how many people write them; a language that is recognised by its script alone
-- comes later. Each has a letter, and each frequent word, and each sign with a dot before it, has the letters
-- of its languages. A letter is there three times if only one well-known language has the word, twice if two
-- have it: such a word says more. A word of one letter, which may be anything, counts once, as does one that
-- is somebody's name elsewhere (Mia, Ben). A word is there without its accents too, since many people write
-- so. Behind a blank, which is no word, stands each letter's
-- language, behind two each language's first letter. Of the function words each has the letters of the
-- languages in which it is one; behind `~` stands a pattern of those that are written without spaces, behind
-- `~~` those of Japanese.
do $do$
declare
    words jsonb;
begin
    with languages as materialized (
        select chr(l.nth::integer + 254) as letter, f[2] as language, f[3] as signs,
               concat_ws(' ', f[4], f[5]) as words, concat_ws(' ', f[4], f[6]) as functional,
               l.nth <= 28 as well_known
        from string_to_table($words$
\include index/words.txt
$words$, E'\n') with ordinality as l(line, nth)
        cross join lateral string_to_array(l.line, E'\t') as f
        where cardinality(f) > 1
    ), each_word as (
        select w.word, l.letter, count(*) filter (where l.well_known) over (partition by w.word) as languages
        from languages l
        cross join lateral (
            select word from string_to_table(l.words, ' ') word
            union
            -- Not of a single letter, which says nothing without its accent.
            select regexp_replace(normalize(word, NFD), '[\u0300-\u036f]', '', 'g')
            from string_to_table(l.words, ' ') word
            where l.well_known and word ~ '^[a-z\u00df-\u036f\u1e00-\u1eff]{2,}$'
            union
            select '.' || sign from string_to_table(l.signs, ' ') sign
        ) w
        where w.word not in ('', '.')
    )
    select jsonb_object_agg(k.word, k.letters)
               || jsonb_build_object(
                   ' ', (select jsonb_object_agg(l.letter, l.language) from languages l),
                   '  ', (select jsonb_object_agg(l.language, l.letter order by l.letter collate "C" desc)
                          from languages l))
               || (select jsonb_object_agg('=' || f.word, f.letters)
                   from (select word, string_agg(l.letter, '') as letters
                         from languages l cross join string_to_table(l.functional, ' ') as word
                         where word <> '' group by word) f)
               || (select jsonb_object_agg(p.key, p.pattern)
                   from (select u.key, string_agg(u.word, '|') as pattern
                         from (select case when bool_or(f.word ~ '[\u3041-\u30ff]') over w
                                           then '~~' else '~' end as key, f.word
                               from languages l cross join string_to_table(l.functional, ' ') as f(word)
                               where f.word ~ '^[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u9fff]+$'
                               window w as (partition by l.letter)) u
                         group by u.key) p)
    into words
    from (
        select s.word, string_agg(repeat(s.letter, case
                   when length(s.word) = 1
                       or s.word = any('{mia,ben,kim,sam,ella,ole,hans,nina,ada,ed,dan,mina,din,lei}') then 1
                   else 4 - least(s.languages, 3)::integer end), '') as letters
        from each_word s
        group by s.word
    ) k;
    -- Two, since each connection parses the text once for each function that reads it: as text, since a body
    -- that is stored parsed (`return`) takes three times as long to read.
    execute format($s$
create or replace function memoryd.frequent_words() returns jsonb
language sql immutable parallel safe set search_path = pg_catalog, pg_temp
as $f$ select %L::jsonb $f$;
create or replace function memoryd.function_words() returns jsonb
language sql immutable parallel safe set search_path = pg_catalog, pg_temp
as $f$ select %L::jsonb $f$;
$s$, (select jsonb_object_agg(w.key, w.value) from jsonb_each(words) w where w.key !~ '^[=~]'),
     (select jsonb_object_agg(ltrim(w.key, '='), w.value) from jsonb_each(words) w where w.key ~ '^[=~ ]'));
end
$do$;

-- telling: the words of a question in this language that say something, without function words. These are
-- what Postgres leaves out of texts of the language, and those of words.txt, of the language that has most of
-- the question's words, this one before others: a short question may be taken for one of a neighbour, and
-- several are 'simple'. Null if none is left. So they are looked for in no other language, in which they
-- would be rare. english: whether English has as many of its words as others. What is written without spaces
-- is cut at its function words.
create or replace function memoryd.words_of_question(
    p_text text, p_language text, out telling text, out english boolean)
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    by_word constant jsonb := memoryd.function_words();
    configuration constant regconfig := (
        select coalesce(max(c.oid), 'pg_catalog.simple'::regconfig)::regconfig from pg_ts_config c
        where c.cfgname = p_language and c.cfgnamespace = 'pg_catalog'::regnamespace);
    words constant text[] := regexp_split_to_array(
        -- Postgres keeps 32 compiled patterns: what is for other scripts is applied to these alone.
        case when octet_length(p_text) = length(p_text) or p_text !~ '[\u0e00-\U0010ffff]'
             then normalize(left(p_text, 8192)) else regexp_replace(
                 normalize(left(p_text, 8192)),
                 by_word ->> case when p_text ~ '[\u3041-\u30ff]' then '~~' else '~' end, ' ', 'g') end,
        '[\x01-\x2c\x2e\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\u00a0-\u00a9\u00ab-\u00b4\u00b6-\u00b9'
        '\u00bb-\u00bf\u2000-\u200b\u200d-\u206f\u3000-\u3003\u3008-\u301f\uff01-\uff0f\uff1a-\uff20'
        '\u060c\u061b\u061f\u06d4\u0964]+');
    english_letter constant text := by_word -> '  ' ->> 'english';
    own text;
begin
    select string_agg(k.letter, '') into own
    from (select l.letter, sum(l.points) as points
          from (select k.key as letter, 1.25 as points from jsonb_each_text(by_word -> ' ') k
                where k.value = p_language
                union all
                select f.letter, w.times
                from (select lower(a.word) as word, count(*) as times
                      from unnest(words) as a(word) group by 1) w
                -- Postgres has those of English.
                cross join lateral string_to_table(concat(
                    by_word ->> w.word,
                    case when to_tsvector('pg_catalog.english', w.word) = ''
                              and upper(w.word) <> lower(w.word)
                         then english_letter end), null) as f(letter)) l
          group by l.letter
          order by 2 desc
          fetch first row with ties) k;
    english := strpos(own, english_letter) > 0;
    telling := (
        select string_agg(w.word, ' ' order by w.nth)
        from unnest(words) with ordinality as w(word, nth)
        where exists (
            select from string_to_table(lower(w.word), '-') as part
            cross join lateral (select coalesce(by_word ->> part, '') as letters) f
            where part <> '' and to_tsvector(configuration, part) <> ''
              and translate(f.letters, own, '') = f.letters));
end
$$;

-- How much a word tells that so many of all rows have, beside its inverse document frequency: in a language
-- without stop words in Postgres a word that many rows have is a function word.
create or replace function memoryd.telling_part(p_language text, p_rows numeric, p_all_rows double precision)
returns double precision
language sql immutable parallel safe
return case when p_all_rows < 20 or p_language = any ('{danish,dutch,english,finnish,french,german,hungarian,'
                 'italian,nepali,norwegian,portuguese,russian,spanish,swedish,turkish}'::text[])
            then 1 else greatest(0.1, 1 - 2 * p_rows / p_all_rows) end;

-- The language of a text: the name of a text search configuration of Postgres, or 'simple' for one that has
-- none. p_allowed: only one of these, the first if it is uncertain. Without it, an uncertain text is English.
-- The first 600 characters decide: first their script, then their frequent words. p_usual: the language of
-- most texts beside it, which a single word of another does not outweigh ("Mia" is one in Italian, and a
-- name).
create or replace function memoryd.language_of(
    p_text text, p_allowed text[] default null, p_usual text default null) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    by_word constant jsonb := memoryd.frequent_words();
    languages constant jsonb := by_word -> ' ';
    -- The answer where nothing else is said.
    usual text := coalesce(p_allowed[1], p_usual, 'english');
    sample text := left(p_text, 600);
    beyond_ascii constant integer := octet_length(sample) - length(sample);
    first integer;
    by_script text;
    found text;
    hits text;
    usual_points integer;
begin
    if cardinality(p_allowed) = 1 or sample is null then
        return usual;
    end if;
    if beyond_ascii > 0 and sample is not normalized then
        sample := normalize(sample);
    end if;
    -- A Latin letter has one byte or two, one of another script two or three.
    if beyond_ascii * 5 > length(sample) * 2 then
        -- The first two letters of one script are taken, so that a single sign such as Δ says nothing.
        first := ascii(substring(
            sample from '[\u0370-\u03ff\u1f00-\u1fff]{2}|[\u0400-\u052f]{2}|[\u0530-\u058f]{2}'
            '|[\u05d0-\u05ea]{2}|[\u0620-\u06ff\u0750-\u077f]{2}|[\u0900-\u097f]{2}|[\u0980-\u0dff]{2}'
            '|[\u0e00-\u0eff\u1000-\u10ff\u1100-\u11ff\u1780-\u17ff\u3040-\u9fff\uac00-\ud7a3]'));
        by_script := case
            when first < 1024 or first between 7936 and 8191 then 'greek'
            when first < 1328 then
                case when sample ~* '[ђјљњћџ]' then 'serbian'
                     when sample ~* '[іїєґўәғқңөұүһѓѕќӣӯҷ]' then 'simple' else 'russian' end
            when first < 1424 then 'armenian'
            -- Hebrew has no stemmer. Yiddish, Persian, Urdu and others are known by letters of their own.
            when first < 1536 then case when sample ~ '[װױײ]|[אײי][ַָ]' then 'yiddish' else 'simple' end
            when first < 2304 then case when sample ~ '[پچژگکیٹڈڑےںەۆێ]' then 'simple' else 'arabic' end
            when first < 2432 then 'hindi'
            when first between 2944 and 3071 then 'tamil'
            when first is not null then 'simple' end;
        if by_script = 'hindi' then
            -- Nepali and Marathi have the same script, so words decide.
            usual := case when p_allowed is null or 'hindi' = any(p_allowed) then 'hindi' else usual end;
        elsif by_script <> 'simple' or (by_script = 'simple' and sample !~ '[A-Za-z]{2}') then
            return case when p_allowed is null or by_script = any(p_allowed) then by_script else usual end;
        -- Else words of another language stand in a text that has no stemmer. They decide.
        end if;
    end if;
    -- Digits are left in, so that of an id or a hash no piece looks like a word: "e" is one in six languages.
    -- A pattern starts anew at each place that it replaces, which is slow: the commonest go before it.
    sample := replace(replace(replace(lower(sample), '.', ' '), ',', ' '), E'\n', ' ');
    if sample ~ '[\x01-\x1f\x21-\x2f\x3a-\x60\x7b-\x7f’“”«»।]' then
        sample := regexp_replace(sample, '[\x01-\x2f\x3a-\x60\x7b-\x7f’“”«»।]+', ' ', 'g');
    end if;
    select string_agg(by_word ->> w.word, '') into hits from string_to_table(sample, ' ') as w(word);
    if beyond_ascii > 0 and by_script is null then
        select concat(hits, string_agg(by_word ->> ('.' || w.sign), '')) into hits
        from string_to_table(regexp_replace(sample, '[\x01-\x7f]+', '', 'g'), null) as w(sign);
    end if;
    usual_points := length(hits) - length(replace(hits, by_word -> '  ' ->> usual, ''));
    if hits is null or usual_points * 2 >= length(hits) then
        return usual;
    end if;
    select l.language into found
    from (
        select k.value as language, k.key as letter,
               length(hits) - length(replace(hits, k.key, '')) as points
        from jsonb_each_text(languages) k
        where p_allowed is null or k.value = any(p_allowed)
    ) l
    -- The less there is of the usual language, the less is needed.
    where l.points > case when usual = p_usual then 3 else 1 end + least(usual_points, 3)
    order by l.points desc, l.language = usual desc, l.letter collate "C"
    limit 1;
    return coalesce(found, usual);
end
$$;

-- The lexemes of a text: stems in this language, without accents, of words of any script. Of English in ASCII
-- they are those that memoryd.lexemes_of gives. p_written: also those with accents, as they are written. What
-- can be written in several forms has one: full-width letters, ligatures and the like (NFKC), Arabic letters
-- without vowel marks. Paths, names and addresses are split into their parts, since questions name the parts;
-- characters that are invisible are deleted. Latin and Greek letters have no accents; ё is е, and Cyrillic
-- has no stress marks; forms of the Arabic alef, yeh and kaf are one. Marks in other scripts are letters. Of
-- what is written without spaces (Han, Kana, Thai, Lao, Khmer, Burmese) single characters and pairs of
-- neighbours; of Korean the pairs within a word: what is added to a noun then changes only its last pair.
-- Only the first 32,768 characters.
create or replace function memoryd.lexemes_in(p_text text, p_language text, p_written boolean default false)
returns tsvector
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    configuration regconfig := 'pg_catalog.english';
    unspaced constant text := '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff'
                              '\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+';
    form text := left(p_text, 32768);
    made tsvector;
    characters tsvector;
    plain text;
    alone text[];
    kept tsvector;
    written text;
begin
    if p_text is null then
        return null;
    elsif p_language is distinct from 'english' then
        -- 'simple' if this server does not have it.
        configuration := coalesce((
            select c.oid::regconfig from pg_ts_config c
            where c.cfgname = p_language and c.cfgnamespace = 'pg_catalog'::regnamespace), 'simple');
    end if;
    if octet_length(form) = length(form) then
        return to_tsvector(configuration, translate(form, '/\_.:@=#', '        '));
    end if;
    form := translate(form, '™℠', '  ');
    if form is not nfkc normalized then
        form := left(memoryd.nfkc(form), 32768);
    end if;
    if form ~ '[\u0620-\u06ff\u200b\u00ad\ufeff\u2060]' then
        form := regexp_replace(form, '[\u0640\u064b-\u0655\u0670\u200b\u00ad\ufeff\u2060]+', '', 'g');
    end if;
    form := translate(form, '/\_.:@=#', '        ');
    if form ~ unspaced then
        select string_agg(case when ascii(u.own) not between 0xac00 and 0xd7a3
                               then concat_ws(' ', u.own || p.at, u.own || u.next || p.at)
                               when u.next is not null or u.i = 1
                               then concat(u.own, u.next, p.at) end, ' ')::tsvector into characters
        from (select m.run[1] as run, sum(length(m.run[1])) over (order by m.n) - length(m.run[1]) as before
              from regexp_matches(
                  form, '[\uac00-\ud7a3]+|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30fa'
                  '\u30fc-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+', 'g')
                  with ordinality as m(run, n)) r
        cross join lateral unnest(string_to_array(r.run, null), string_to_array(substr(r.run, 2), null))
            with ordinality as u(own, next, i)
        cross join lateral (select ':' || least(r.before + u.i, 16383) as at) p;
        form := regexp_replace(form, unspaced, ' ', 'g');
    end if;
    made := to_tsvector(configuration, form);
    plain := made::text;
    if plain ~ '[\u00df-\u036f\u0386-\u03ce\u0430-\u0451\u0622-\u06cc\u1e00-\u1fff]' then
        if p_written then
            -- What is written in another way only by habit, as alef and the last sigma are, is no other word.
            written := translate(plain, 'ςأإآٱىکی', 'σاااايكي');
        end if;
        -- A letter alone keeps its accents: without them it is a word of another language (I, a, y).
        alone := array(select w from unnest(tsvector_to_array(made)) as w where w ~ '^[\u00df-\u024f]$');
        if alone <> '{}' then
            plain := ts_delete(made, alone)::text;
            kept := ts_delete(
                made, array(select unnest(tsvector_to_array(made)) except select unnest(alone)));
        end if;
        if plain ~ '[ßæœþøłđðıħŧςёأإآٱىکی]' then
            plain := translate(plain, 'øłđðıħŧςёأإآٱىکی', 'olddihtσеاااايكي');
            plain := replace(replace(replace(replace(plain, 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe'), 'þ', 'th');
        end if;
        plain := normalize(plain, NFD);
        -- й is a letter, not и with a mark.
        plain := normalize(regexp_replace(
            plain, case when plain ~ '[\u0430-\u044f]'
                        then '(?<=[a-z\u0370-\u03ff])[\u0300-\u036f]+|(?<=[аеиоуыэюяі])\u0301+'
                        else '[\u0300-\u036f]+' end, '', 'g'), NFC);
        made := concat_ws(' ', plain, kept, written)::tsvector;
    end if;
    return case when characters is null then made else made || characters end;
end
$$;

-- The words of a text in each of these languages, as lexemes. Without languages: those of a name, or those of
-- a text that may be names. They are the same in every language, so that who speaks is found whatever the
-- language of the question. Where there are no spaces, pairs of characters only: a single one is in the names
-- of many.
create or replace function memoryd.words_in(p_text text, p_languages text[] default null) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(array_agg(distinct w.lexeme collate "C" order by w.lexeme collate "C"), '{}')
        from unnest(coalesce(p_languages, '{english}')) l
        cross join lateral unnest(tsvector_to_array(memoryd.lexemes_in(p_text, l))) as w(lexeme)
        where p_languages is not null
           or length(w.lexeme) > 1 or ascii(w.lexeme) < 3584 or length(btrim(p_text)) = 1);
end
$$;
