-- The time that a text names: "in January", "last week", "vor zwei Tagen", "la semana pasada", "il y a deux
-- jours", "2024年3月", "between May and July", "two days before Christmas".
--
-- A text is read as a line of signs, one a word, which are the same in all languages (memoryd.plain_signs):
--   m3 a month        s6 a season, by its first month   n14 a number in digits       last, this, next, ago,
--   w1 a weekday      uw a unit: d day, e weekend,      k2 a number in words         before, after, since,
--   d-1 a day from       w week, m month, y year        y2024 a year                 until, early, mid, late,
--      today          _ any other word                  t20240314 a date             in, at, of, and, between
-- A sign with a `?` is one of a word that means something else, too, as "may" does: it counts only beside
-- other signs. The grammar of times is then one for all languages (memoryd.times_in).

-- The words of times.txt as memoryd.time_words(), computed here and not in each session. A line there is a
-- sign and the words that have it: English, German, Spanish, French, Chinese (`signs`). Of these `core` has
-- those without which no text names a time, `long` seasons and decades as they are indexed, without accents,
-- and `characters` the Chinese ones as a pattern, since they are not set apart by spaces. The lines of
-- `talk` have what a question may have beside a time and still asks for nothing but what was then, by
-- language: words of talk and of events, as stems; of Chinese, characters. The lines of `text` have what is
-- written in several words, and the one word that is read instead (`texts`). `lengths`: how long a unit is.
do $do$
declare
    lines constant jsonb := (
        select jsonb_agg(string_to_array(l, E'\t')) from string_to_table($words$
\include base/times.txt
$words$, E'\n') l where l <> '');
    signs constant jsonb := (
        select jsonb_object_agg(w.word, l ->> 0)
        from jsonb_array_elements(lines) l
        -- Montagabend is a Monday.
        cross join lateral string_to_table(concat_ws(' ', l ->> 1, case when l ->> 0 like 'w_?' then (
            select string_agg(split_part(l ->> 1, ' ', 2) || part, ' ')
            from unnest('{s,morgen,früh,vormittag,mittag,nachmittag,abend,nacht}'::text[]) part) end),
            ' ') as w(word)
        where l ->> 0 not like 'talk %' and l ->> 0 not like 'text %');
    talk constant jsonb := (
        select jsonb_object_agg(t.language, case when t.language = 'chinese' then to_jsonb(t.words) else (
            select jsonb_object_agg(coalesce((ts_lexize(
                ('pg_catalog.' || t.language || '_stem')::regdictionary, w.word))[1], w.word), null)
            from string_to_table(t.words, ' ') as w(word)) end)
        from (select substr(l ->> 0, 6) as language, l ->> 1 as words
              from jsonb_array_elements(lines) l where l ->> 0 like 'talk %' offset 0) t);
    texts constant jsonb := (
        select jsonb_agg(jsonb_build_array(l ->> 1, substr(l ->> 0, 6)) order by nth)
        from jsonb_array_elements(lines) with ordinality as t(l, nth) where l ->> 0 like 'text %');
begin
    execute format($s$
create or replace function memoryd.time_words() returns jsonb
language sql immutable parallel safe set search_path = pg_catalog, pg_temp
as $f$ select %L::jsonb $f$;
$s$, jsonb_build_object(
    'signs', signs, 'talk', talk, 'texts', texts,
    'core', (select jsonb_object_agg(w.key, null) from jsonb_each_text(signs) w
             where w.value ~ '^([mwsdY]-?\d|u|last u|k\d+ u|easter)'),
    'long', (select jsonb_agg(regexp_replace(normalize(w.key, NFD), '[\u0300-\u036f]', '', 'g'))
             from jsonb_each_text(signs) w where w.value ~ '^(s|Y)\d'),
    'characters', (select string_agg(w, '|' order by length(w) desc, w)
                   from jsonb_object_keys(signs) w where w ~ '[一-鿿]'),
    'lengths', '{"d": "1 day", "e": "7 days", "w": "7 days", "m": "1 month", "q": "3 months",
                 "y": "1 year"}'::jsonb));
end
$do$;

-- The day of a time, in UTC; null for an infinite one. Inlined.
create or replace function memoryd.day_of(p_at timestamptz) returns date
language sql stable parallel safe
return case when isfinite(p_at) then (p_at at time zone 'utc')::date end;

-- The days of a month, or of as many months as p_months, of a part of it or of one day; empty where there is
-- no such day.
create or replace function memoryd.days_of(
    p_year integer, p_month integer, p_day integer, p_part text, p_months integer default 1)
returns daterange
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    first constant date :=
        case when p_month between 1 and 12 and p_year between 1 and 9999
             then make_date(p_year, p_month, 1) end;
    days constant integer := (first + make_interval(months => p_months))::date - first;
begin
    return case when first is null or p_day > days or p_day < 1 then 'empty'
                when p_day is not null then daterange(first + p_day - 1, first + p_day)
                when p_part = 'early' then daterange(first, first + 11)
                when p_part = 'mid' then daterange(first + 9, first + 21)
                when p_part = 'late' then daterange(first + days - 11, first + days)
                else daterange(first, first + days) end;
end
$$;

-- The sign of each word of a text, with a space before and after each; null where no word of it may name a
-- time: such a text is not read further. In a question (not p_written) any other word follows its sign, _.
-- Numbers and dates are: 14th, 2025, 2025-03-14, 14.3., 14.03.2025, 3/14/2025, 三月, 2025年. Before, what is
-- no time is taken out (the second may; Easter eggs; his nineties; what has passed, which has happened), and
-- decades are written as years (the 1990s, die 1990er Jahre, los años 90, 90年代).
create or replace function memoryd.signs_in(p_text text, p_written boolean) returns text
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    words constant jsonb := memoryd.time_words();
    ascii constant boolean := octet_length(p_text) = length(p_text);
    text text := translate(lower(left(p_text, 2000)), '’', '''');
    word text := '\d+(?:[./-]\d+){0,2}\.?(?:st|nd|rd|th|er)?|[a-zà-öø-ÿœß]+|[^\s,.''’-]';
    digit text := '^\d';
    year text; each jsonb;
begin
    if not coalesce(
        words -> 'core' ?| regexp_split_to_array(lower(p_text), '[^a-zà-öø-ÿœß]+')
        or (not ascii or translate(p_text, '0123456789', '') <> p_text)
           and p_text ~ '\d{4}|\d[./-]\d|\m[qQ][1-4]\M|[月日号天周年时昨]|星期|礼拜|圣[诞灵]|复活|[春夏秋冬]季',
        false) then
        return null;
    end if;
    for each in select jsonb_array_elements(words -> 'texts') loop
        text := replace(text, each ->> 0, each ->> 1);
    end loop;
    if text like any ('{%second%,%third%,%fourth%,%fifth%}') then
        text := regexp_replace(text, '\m(second|third|fourth|fifth)([ ,.;:]+(?:may|march))\M', '\1 _\2', 'g');
    end if;
    if text ~ 'easter[ -]|pascua|pâques|复活节' then
        text := regexp_replace(text, '\measter[ -](eggs?|islands?|bunn|basket|hunt)|'
            '\m(isla|huevos?|conejos?|île|œufs?|oeufs?|lapins?) de (?:pascua|pâques)\M|复活节(岛|彩?蛋|兔)',
            '\1\2\3', 'g');
    end if;
    text := regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        text, '\m(my|his|her|their|low|high)( early| late)? (fif|six|seven|eigh|nine)ties\M', '\1', 'g'),
        '\m((?:est|était)(?:-il|-elle)?|-t-il|été) passée?\M', '\1 arrivé', 'g'),
        '\m(ha|han|había|haya) pasado\M', '\1 pasó', 'g'), '\mq([1-4])\M', '\1. quarter', 'g');
    if text like any ('{%0s%,%0er%,%0年代%,%s años %,%s années %}') then
        text := regexp_replace(regexp_replace(text,
            '\m(\d{3})0(?:s\M|er(?:n| jahren?)?\M|年代)|(?:años|années) (\d{3})0\M', '\1\20-\1\29', 'g'),
            '\m([2-9])0年代|\m[ldc]es années ([2-9])0\M|\mlos años ([2-9])0\M', '19\1\2\30-19\1\2\39', 'g');
    end if;
    if not ascii and text ~ '[一-鿿]' then
        text := regexp_replace(text, '(\d) +(?=[年月日号])', '\1', 'g');
        text := regexp_replace(
            text, '((?:[上下本这]个?|[\d一二三四五六七八九十]+)月)份?的?第([二三四五])个?(周|星期)', '\2\3的\1', 'g');
        year := substring(text from '([〇零一二三四五六七八九]{4})年');
        text := coalesce(replace(text, year, translate(year, '〇零一二三四五六七八九', '00123456789')), text);
        digit := '^[\d一二三四五六七八九十两]';
        word := '[\d一二三四五六七八九十两]+(?:月份?|[日号年]|)|' || (words ->> 'characters') || '|' || word;
    end if;
    return (
        select ' ' || string_agg(coalesce(
            words -> 'signs' ->> t.m[1],
            case when t.m[1] ~ digit then (
                select case
                    when t.m[1] ~ '[一-鿿]' then case
                        when t.m[1] ~ '月' then 'm' || c.number
                        when t.m[1] ~ '年' and length(c.number) = 4 then 'Y' || c.number
                        else 'n' || left(c.number, 3) || case when t.m[1] ~ '年' then ' uy' else '' end end
                    when t.m[1] ~ '^\d{4}$' then 'y' || t.m[1]
                    when t.m[1] ~ '^\d\d?-\d\d?$' then 'n' || d[1] || ' to n' || d[2]
                    when t.m[1] ~ '^\d{4}-\d{4}$' then 'Y' || d[1] || ' to Y' || d[2]
                    when cardinality(d) = 1 or d[2] = '' then case when length(d[1]) < 4 then 'n' || d[1] end
                    when t.m[1] ~ '^\d{4}-\d\d?$' then 'Y' || d[1] || ' m' || d[2]::integer
                    when t.m[1] ~ '^\d{4}[-/]\d\d?[-/]\d\d?$'
                        then 't' || d[1] || lpad(d[2], 2, '0') || lpad(d[3], 2, '0')
                    when t.m[1] ~ '^\d\d?\.\d\d?\.$' then 'n' || d[1] || ' m' || d[2]::integer
                    when t.m[1] ~ '^\d\d?\.\d\d?\.\d{4}$'
                        then 't' || d[3] || lpad(d[2], 2, '0') || lpad(d[1], 2, '0')
                    when t.m[1] ~ '^\d\d?/\d\d?/\d{4}$' -- The month is written first or second.
                        then 't' || d[3] || lpad(d[1], 2, '0') || lpad(d[2], 2, '0')
                            || ' t' || d[3] || lpad(d[2], 2, '0') || lpad(d[1], 2, '0') end
                from regexp_split_to_array(t.m[1], '\D+') as d
                cross join lateral (
                    -- 十 is 10, 十二 12, 二十 20, 二十三 23.
                    select replace(regexp_replace(regexp_replace(regexp_replace(translate(
                        substring(t.m[1], '^[\d一二三四五六七八九十两]*'), '一二三四五六七八九两', '1234567892'),
                        '^十$', '10'), '^十', '1'), '十$', '0'), '十', '') as number) c) end,
            concat('_', case when not (p_written or memoryd.asks_nothing(t.m[1])) then t.m[1] end)),
            ' ' order by t.nth) || ' ' from regexp_matches(text, word, 'g') with ordinality as t(m, nth));
end
$$;

-- A line of signs with what is counted from today: the week before last, Tuesday of last week, a year ago
-- today, the third of last month, its end; and with quarters and parts of years as months.
create or replace function memoryd.relative_days(p_line text, p_text text, p_today date) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    year constant integer := extract(year from p_today);
    line text := p_line;
    m text[];
    month date;
begin
    if line like '% before last %' then
        line := regexp_replace(line, '\m(u[demqwy]|w\d) before last\M(?! [mswuY])', 'prev \1', 'g');
    end if;
    if line like '% prev uy %' then
        line := replace(line, ' prev uy ', ' Y' || year - 2 || ' ');
    end if;
    -- Two weeks are fourteen days, or fifteen.
    line := replace(replace(line, ' k14 ud ', ' k2 uw '), ' k15 ud ', ' k2 uw ');
    if line like '% uq %' then
        line := replace(line, ' first uq ', ' n1 uq ');
        for n in 1 .. 4 loop
            line := replace(line, ' n' || n || ' uq ', ' s' || 3 * n - 2 || ' ');
        end loop;
        line := regexp_replace(line, '\m(s\d+) y(\d+)', '\1 Y\2', 'g');
    end if;
    if line like any ('{% early Y%,% mid Y%,% late Y%}') then
        line := replace(replace(replace(line, ' early Y', ' s1 Y'), ' mid Y', ' s5 Y'), ' late Y', ' s10 Y');
    end if;
    if line like '% d0 %' then
        m := regexp_match(
            line, '\m([nk](\d+) u([wmy]) ago d0|d0 [nk](\d+) u([wmy]) ago|Y(\d+) d0)\M');
        line := coalesce(replace(line, m[1], 't' || to_char(
            p_today - coalesce(m[2], m[4], (year - m[6]::integer)::text)::integer
                * ('{"w": "1 week", "m": "1 month", "y": "1 year"}'::jsonb
                   ->> coalesce(m[3], m[5], 'y'))::interval,
            'YYYYMMDD')), line);
    end if;
    if line like '% um %' then
        m := regexp_match(line, '\m((?:nth(\d+)|(early|mid|late)) (last|this) um)\M');
        month := date_trunc('month', p_today::timestamp)
            - case when m[4] = 'last' then interval '1 month' else interval '0' end;
        line := coalesce(replace(line, m[1], coalesce(
            't' || to_char(month, 'YYYYMM') || lpad(m[2], 2, '0'),
            m[3] || to_char(month, '" m"FMMM" Y"YYYY'))), line);
    end if;
    if line like '% last %' then
        line := regexp_replace(line, '\m(?:(w\d) last uw|last uw (?:in )?(w\d))\M', 'prior \1\2', 'g');
        if p_text ~ '上个?(?:周|星期|礼拜)[一二三四五六日天]' then
            line := replace(line, ' last w', ' prior w');
        end if;
    end if;
    if line like '% n% m% n%' then
        -- 1 May, 3 May: the second number is of the next day.
        line := regexp_replace(line, '\m(n\d+ m\d+) (?=n\d)', '\1 _ ', 'g');
    end if;
    if line like '% uh %' then
        -- Times are days: what was within hours is of today or the day before.
        m := regexp_match(
            line, '\m((?:last|before) (?:[nk](\d+) )?uh|(?:[nk](\d+) )?uh ago|[nk](\d+) last uh)\M');
        line := coalesce(replace(line, m[1], format(
            'last n%s ud', (coalesce(m[2], m[3], m[4], '1')::integer + 23) / 24)), line);
        line := replace(line, ' uh ', ' _hour ');
    end if;
    return line;
end
$$;

-- A line of signs with Easter and Pentecost, and with weeks of a month, as their days: the second week, the
-- first two, the last two. What ends after the month is cut off; the fifth week of February is the 29th.
create or replace function memoryd.weeks_and_feasts(p_line text, p_text text, p_today date) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    year constant integer := extract(year from p_today);
    line text := p_line;
    m text[];
    named integer;
    begins integer;
begin
    if line like '% easter%' then
        -- From Good Friday to Easter Monday; two days of Pentecost, eight of Holy Week. Of this year if that
        -- has begun (Gauss; 1900 to 2099).
        for n in 1 .. 2 loop
            m := regexp_match(
                line, '\m((?:(last|next) |[yY](\d+) )?easter(-?\d+)?(?: (?:in |of )*(?:uy )?[yY](\d+))?)\M');
            named := coalesce(m[3], m[5])::integer;
            begins := coalesce(m[4]::integer, -2);
            line := coalesce(regexp_replace(line, m[1], (
                select format('t%s to t%s', to_char(e.at + begins, 'YYYYMMDD'), to_char(
                    e.at + case begins when -7 then 0 when 49 then 50 else coalesce(m[4]::integer, 1) end,
                    'YYYYMMDD'))
                from generate_series(coalesce(named, year - 1), coalesce(named, year + 1)) as y(y)
                cross join lateral (select (19 * (y.y % 19) + 24) % 30 as d) d
                cross join lateral (select (2 * (y.y % 4) + 4 * (y.y % 7) + 6 * d.d + 5) % 7 as e) w
                cross join lateral (
                    select make_date(y.y, 3, 22) + d.d + w.e
                        - case when w.e = 6 and d.d + (y.y % 19 > 10)::integer >= 29 then 7 else 0 end as at
                ) e
                where y.y between 1900 and 2099
                  and (named is not null or (e.at + begins > p_today) = (m[2] is not distinct from 'next'))
                order by abs(e.at + begins - p_today) limit 1)), line);
        end loop;
        line := regexp_replace(line, '\msince (t\d+) to t\d+', 'since \1');
        line := regexp_replace(line, '\mbetween (t\d+) to t\d+ and (?:t\d+ to )?', 'between \1 and ');
    end if;
    if not line like any ('{% uw of %m%,% uw in %m%}') then
        return line;
    end if;
    m := regexp_match(line, '\muw (?:of|in)(?: of)* ((this|last|next) um|um (last|next))\M');
    line := coalesce(replace(line, m[1], to_char(
        date_trunc('month', p_today::timestamp) + case coalesce(m[2], m[3])
            when 'last' then interval '-1 month' when 'next' then interval '1 month' else interval '0' end,
        '"m"FMMM "Y"YYYY')), line);
    for n in 1 .. 2 loop
        m := regexp_match(line, '\m((?:[yY](\d+) )?(?:(first|last) [nk]([2-4])|[nk]([2-4]) (first|last)'
                                '|n([2-5])) uw (?:of|in)(?: of)* m(1[0-2]|[1-9]))(?!\d)');
        exit when m is null or m[7] is not null and p_text ~* '\m(weeks|wochen|semanas|semaines)\M';
        line := (
            select replace(line, m[1], format('n%1$s m%3$s%4$s to n%2$s m%3$s%4$s', f.first, greatest(
                f.first, least(f.first + w.days - 1, d.days)), m[8], ' Y' || m[2]))
            from extract(day from make_date(2001, m[8]::integer, 1) + interval '1 month - 1 day') as d(days)
            cross join lateral (select 7 * coalesce(m[4], m[5], '1')::integer) as w(days)
            cross join lateral (select case
                when m[7] is not null then 7 * m[7]::integer - 6
                when 'last' in (m[3], m[6]) then d.days - w.days + 1 else 1 end) as f(first));
    end loop;
    return replace(replace(line, ' last uw of m', ' late m'), ' first uw of m', ' early m');
end
$$;

-- The line of signs of a text in which every sign that is left stands for a time: words that mean something
-- else, too, are decided by the signs beside them, and what languages write in different ways is written in
-- one. Two weeks in May are not the second week of May.
-- Postgres keeps 32 compiled patterns: a pattern is applied only where the line has what it is for.
create or replace function memoryd.plain_signs(
    p_signs text, p_text text, p_today date, p_written boolean) returns text
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    year constant integer := extract(year from p_today);
    line text := replace(p_signs, ' last last ', ' prev ');
begin
    if line like any ('{% uw of %m%,% uw in %m%,% easter%}') then
        line := memoryd.weeks_and_feasts(line, p_text, p_today);
    end if;
    if line like '%?%' then
        if line like '% d%?%' then
            if p_text ~* '\m(ich|ist|wir|was|wo|wer|sind|hat|habe|haben|das|die|der|nicht|gibt|steht)\M' then
                line := replace(line, ' d-1? ', ' _ ');
            end if;
            line := regexp_replace(line, '\m(in|of|this|good|d0|d-1) d1\?', '\1 ud', 'g');
            line := replace(replace(line, ' d1? ', ' d1 '), ' d-1? ', ' d-1 ');
        end if;
        line := regexp_replace(
            line,
            '\m((?:in|at|since|until|before|after|between|early|mid|late|last|prev|this(?! m5)|next|um'
                '|n\d+(?=(?: of)* m)|of(?= w))'
                '(?: of)*) ([mws]\d+)\?', '\1 \2', 'g');
        line := regexp_replace(line, '\m((?:last|this|next|prev) uy|last uw) ([sw]\d+)\?', '\1 \2', 'g');
        line := regexp_replace(line, '\m([mws]\d+)\?(?= (last|next|[nyY]\d|of [yY]\d))', '\1', 'g');
        line := regexp_replace(
            line, '\m([mws]\d+(?: [nyY]\d+)* (?:and|to|until)(?: of)*) ([mws]\d+)\?', '\1 \2', 'g');
        -- Of these words may alone says nothing.
        line := regexp_replace(replace(line, ' m5? ', ' _ '), '\m[mws]\d+\?', '_~', 'g');
    end if;
    if not p_written and line like '% ue %' then
        -- The weekend, of which a question says no more.
        line := regexp_replace(line, '(^ |\m(?:in|of|in of) )ue (?!before|after|last|next)', ' in ue ');
        line := replace(line, ' this ue ', ' in ue this ue ');
    end if;
    if line like '% um %' then
        line := regexp_replace(line, '\mn(\d+) of(?: of)* ((?:last|this) um|um last)\M', 'nth\1 \2', 'g');
    end if;
    if line like '% in of n%' then
        -- In the second week, which is not in two weeks.
        line := regexp_replace(line, '\min of(?: of)* (n\d+ u)', '\1', 'g');
    end if;
    -- An article stands before something: what ends a question is the German "los".
    line := replace(replace(regexp_replace(line, ' of(?=[ _]*$)', ' _los'), ' of ', ' '), ' of ', ' ');
    if line like '% n%' then
        -- From 3 to 7 May; May 3 to 7; in the year 476.
        line := regexp_replace(line, '\mn(\d+) (to|until|and|at) n(\d+) (m\d+(?: [yY]\d+)?)\M',
                               'n\1 \4 \2 n\3 \4', 'g');
        line := regexp_replace(line, '\m(m\d+) n(\d+) (to|until|and|at) n(\d+)(?! [umn])\M',
                               '\1 n\2 \3 \1 n\4', 'g');
        line := regexp_replace(line, '\min uy n(\d+)\M', 'Y\1', 'g');
    end if;
    if line like '% uy %' then
        line := replace(replace(line, ' uy last ', ' last uy '), ' uy next ', ' next uy ');
        line := replace(line, ' last uy ', ' Y' || year - 1 || ' ');
        line := replace(line, ' this uy ', ' Y' || year || ' ');
        line := replace(line, ' next uy ', ' Y' || year + 1 || ' ');
    end if;
    if line like '% y%' then
        line := regexp_replace(
            line,
            '\m(in|since|until|before|after|between|early|mid|late|uy|m\d+|s\d+|m\d+ n\d+|n\d+) y(\d+)',
            '\1 Y\2', 'g');
        line := regexp_replace(line, '\m(Y\d+ (?:and|to|until|at)) y(\d+)', '\1 Y\2', 'g');
    end if;
    if line like '%Y% in %' then
        line := regexp_replace(line, '\m(Y\d+) in (?=n\d+ m|m|s)', '\1 ', 'g');
    end if;
    -- What stands behind in one language, before in another.
    if line like '% u%' or line like any ('{% last %,% next %,% prev %}') then
        line := regexp_replace(line, '\m((?:[nk]\d+ )?u[demqwy]|[mws]\d+) (last|next|prev)\M', '\2 \1', 'g');
        line := regexp_replace(line, '\mbefore ([nk]\d+ u[demwy])\M', '\1 ago', 'g');
        line := regexp_replace(line, '\min ([nk]\d+ u[demwy])\M', '\1 ahead', 'g');
        line := regexp_replace(line, '\m([nk]\d+) (last|next) (u[demwy])\M', '\2 \1 \3', 'g');
    end if;
    return memoryd.relative_days(line, p_text, p_today);
end
$$;

-- The first time in a line of signs: where it stands, its days (null: there are none such), and whether these
-- are of any year. phrase is null where there is none. p_written: the line is of a row that was
-- written today, not of a question. A month or a season is of the year that is named; with last and next of
-- the nearest before and after today; else of the nearest, in a question of one in which it has begun.
-- "Two months ago" is the less sure, the longer the unit. prior: of the week before this one, which began on
-- a Monday.
create or replace function memoryd.next_time(
    p_line text, p_today date, p_written boolean, out phrase text, out days daterange, out yearly boolean)
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    m text[];
    at date;
    half integer;
    named integer;
    year constant integer := extract(year from p_today);
    lengths constant jsonb := memoryd.time_words() -> 'lengths';
begin
    yearly := false;
    if p_line like '% t%' then
        m := regexp_match(p_line, '\m(t(\d{4})(\d\d)(\d\d))\M');
        days := memoryd.days_of(m[2]::integer, m[3]::integer, m[4]::integer, null);
    end if;
    if m is null and (p_line like '% m%' or p_line like '% s%') then
        m := regexp_match(
            p_line, '\m((?:(last|this|next) )?(?:Y(\d+) )?(?:(early|mid|late) )?(?:n(\d+) )?([ms])(\d+)'
            '(?: (early|mid|late))?(?: n(\d+))?(?: Y(\d+))?)\M');
        yearly := m is not null and coalesce(m[2], m[3], m[10]) is null;
        named := coalesce(m[3], m[10])::integer;
        days := (
            select d
            from generate_series(coalesce(named, year - 8), coalesce(named, year + 8)) as y(year)
            cross join lateral memoryd.days_of(
                y.year, m[7]::integer, coalesce(m[5], m[9])::integer, coalesce(m[4], m[8]),
                case m[6] when 's' then 3 else 1 end) d
            where not isempty(d)
              and (named is not null
                   or case m[2] when 'last' then upper(d) <= p_today
                                when 'next' then lower(d) > p_today
                                else p_written or lower(d) <= p_today end)
            order by abs(lower(d) - p_today) limit 1);
    end if;
    if m is null and p_line like '% d%' then
        m := regexp_match(p_line, '\m(d(-?\d))\M');
        days := daterange(p_today + m[2]::integer, p_today + m[2]::integer + 1);
    end if;
    if m is null and p_line like '% w%' then
        m := regexp_match(p_line, '\m((?:(last|next|prev|prior) )?w(\d))\M');
        at := p_today - (extract(isodow from p_today)::integer - m[3]::integer + 7) % 7;
        at := at + 7 * case m[2] when 'next' then 1 when 'last' then -(at = p_today)::integer
                                 when 'prev' then -1 - (at = p_today)::integer when 'prior'
                                 then -(at >= date_trunc('week', p_today::timestamp))::integer else 0 end;
        days := daterange(at, at + 1);
    end if;
    if m is null and p_line like '% u%' then
        m := regexp_match(
            p_line, '\m((last|this|next|prev) (?:[nk](\d+) )?u([demqwy])|'
            '[nk](\d+) u([demqwy]) (ago|ahead)|in ue)\M');
        if m[1] = 'in ue' or m[6] = 'e' and m[7] = 'ago' then
            at := p_today - (extract(dow from p_today)::integer + 1) % 7 - coalesce(m[5]::integer * 7 - 7, 0);
            days := daterange(at, at + 2);
        elsif m[3] is not null then
            at := p_today + (2 * (m[2] = 'next')::integer - 1) * m[3]::integer * (lengths ->> m[4])::interval;
            days := daterange(least(at, p_today + 1), greatest(at, p_today) + 1);
        elsif m[2] is not null then
            -- The day, weekend, week, month that this day is in, or one before or after it.
            at := (date_trunc('{"d": "day", "m": "month", "q": "quarter", "e": "week", "w": "week"}'::jsonb
                                  ->> m[4], p_today::timestamp)
                   + case m[2] when 'prev' then -2 when 'last' then -1 when 'this' then 0 else 1 end
                     * (lengths ->> m[4])::interval)::date;
            days := case m[4] when 'e' then daterange(at + 5, at + 7)
                              else daterange(at, (at + (lengths ->> m[4])::interval)::date) end;
        elsif m is not null then
            half := case m[6] when 'w' then 3 when 'm' then 15 when 'q' then 45 when 'y' then 45 else 0 end;
            at := p_today + m[5]::integer * (1 - 2 * (m[7] = 'ago')::integer) * (lengths ->> m[6])::interval;
            days := daterange(at - half, at + half + 1);
        end if;
    end if;
    if m is null and p_line like '% Y%' then
        m := regexp_match(p_line, '\m(Y(\d+))\M');
        days := memoryd.days_of(m[2]::integer, 1, null, null, 12);
    end if;
    phrase := m[1];
end
$$;

-- The days that a line of signs gives as before, after, since or until these, or as so many units from them:
-- since March; two days before Christmas; the week before Christmas.
create or replace function memoryd.days_beside(
    p_days daterange, p_number integer, p_unit text, p_side text, p_today date) returns daterange
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    step constant interval := memoryd.time_words() #>> array['lengths', p_unit];
    half constant integer := case p_unit when 'w' then 3 when 'm' then 15 when 'q' then 45
                                                when 'y' then 45 else 0 end;
    at date;
begin
    if isempty(p_days) then
        return p_days;
    elsif p_number is not null and p_side in ('before', 'after') then
        at := lower(p_days) + case p_side when 'before' then -1 else 1 end * p_number * step;
        return daterange(at - half, at + (upper(p_days) - lower(p_days)) + half);
    elsif p_unit = 'e' and p_side in ('before', 'after') then
        -- The nearest Saturday, and the day after it.
        at := case p_side
            when 'before' then lower(p_days) - 1 - extract(isodow from lower(p_days))::integer % 7
            else upper(p_days) + (13 - extract(isodow from upper(p_days))::integer) % 7 end;
        return daterange(at, at + 2);
    end if;
    return case p_side
        when 'since' then daterange(lower(p_days), greatest(lower(p_days), p_today) + 1)
        when 'after' then daterange(
            upper(p_days), coalesce((upper(p_days) + step)::date, greatest(upper(p_days), p_today) + 1))
        else daterange(case p_side when 'before' then (lower(p_days) - step)::date end, lower(p_days)) end;
end
$$;

-- From the first days to the last ones: between March and May. Of days of any year (yearly) they are those
-- next to the others.
create or replace function memoryd.days_between(
    p_first daterange, p_last daterange, p_first_yearly boolean, p_last_yearly boolean) returns daterange
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    first daterange := p_first;
    last daterange := p_last;
    move constant interval := make_interval(years => case
        when p_first_yearly = p_last_yearly then (lower(last) < lower(first))::integer
        else extract(year from lower(first))::integer - extract(year from lower(last))::integer
            + (to_char(lower(last), 'MMDD') < to_char(lower(first), 'MMDD'))::integer end);
begin
    if p_first_yearly > p_last_yearly then
        first := daterange((lower(first) - move)::date, (upper(first) - move)::date);
    else
        last := daterange((lower(last) + move)::date, (upper(last) + move)::date);
    end if;
    return case when lower(last) >= lower(first) then range_merge(first, last) else 'empty' end;
end
$$;

-- Whether a question's line of signs has, beside times, only words of talk and stop words of one language. A
-- year that stands alone (Y) may be any number: it needs a word of talk beside it, of a language that gives a
-- year without a word before it ("Was geschah 1789?").
create or replace function memoryd.is_talk(p_line text) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return not p_line ~ '\m[ny]\d' and exists (
        select from jsonb_each(memoryd.time_words() -> 'talk') as t(language, words)
        where (p_line !~ '\mY\d' or t.language <> 'english'
                and p_line !~ ' _(con|mit|avec|über|sobre|sur|für|para|pour) Y' and exists (
            select from regexp_matches(p_line, ' _?(last|[^ _]\S+)', 'g') as w(word)
            cross join lateral ts_lexize(
                ('pg_catalog.' || nullif(t.language, 'chinese') || '_stem')::regdictionary, w.word[1]) as stem
            where w.word[1] = 'last' or t.words ?| stem))
          and not exists (
            select from regexp_matches(p_line, ' _(\S+)', 'g') as w(word)
            where case when t.language = 'chinese' then position(w.word[1] in t.words #>> '{}') = 0
                       else (select l.stem <> '{}' and not t.words ?| (l.stem || w.word)
                             from (select ts_lexize(('pg_catalog.' || t.language || '_stem')::regdictionary,
                                                    w.word[1]) as stem) l) end));
end
$$;

-- The days that a text names, as of the day on which it is asked or, with p_written, was written; null where
-- it names none. A month, a season or a day without a year is that of each year in a question, and the
-- nearest in a row. alone: a question asks for nothing beside this time. Each time gets a name in the line of
-- signs, X1, X2 ...
create or replace function memoryd.times_in(
    p_text text, p_today date, p_written boolean, out days datemultirange, out alone boolean)
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    today constant date := least(greatest(p_today, '0001-01-01'), '9999-12-31');
    -- The traditional characters of times, and of talk about them, as the simplified ones.
    said constant text := translate(
        p_text, '週兩個禮號節聖誕復靈難這後過從時間內當來於們談說講論訴嗎麼幹發沒與給記話題對樣關憶總結況還鮮請幾',
        '周两个礼号节圣诞复灵难这后过从时间内当来于们谈说讲论诉吗么干发没与给记话题对样关忆总结况还鲜请几');
    line text := memoryd.signs_in(said, p_written);
    next record;
    named daterange[] := '{}';
    yearly boolean[] := '{}';
    m text[];
    n integer;
begin
    if line is null then
        return;
    end if;
    if not p_written and line like '% w_? %' and line like '% \__%'
       and p_text !~* '\m(who|wer|wen|wem|quién|qui)\M' and memoryd.is_talk(replace(line, '? ', ' ')) then
        -- Where nothing else is asked, a day of the week is one.
        line := regexp_replace(line, '\m(w\d)\?', '\1', 'g');
    end if;
    line := memoryd.plain_signs(line, left(said, 2000), today, p_written);
    line := case when not p_written and line like '% y%' and memoryd.is_talk(replace(line, ' y', ' Y'))
                 then replace(line, ' y', ' Y') else line end;
    for n in 1 .. case when p_written then 20 else 100 end loop
        next := memoryd.next_time(line, today, p_written);
        exit when next.phrase is null;
        named[n] := coalesce(next.days, 'empty');
        yearly[n] := next.yearly and not p_written;
        line := overlay(line placing 'X' || n from position(' ' || next.phrase || ' ' in line) + 1
                        for length(next.phrase));
    end loop;
    while line like any ('{% and X%,% to X%,% until X%,% at X%,% k1 X%}') loop -- Between March and May.
        m := regexp_match(
            line, '\m(?:between X(\d+) (?:and|to|until)|(?:since )?X(\d+) (?:to|until|at|k1)) X(\d+)\M');
        exit when m is null;
        n := coalesce(m[1], m[2])::integer;
        named[n] := memoryd.days_between(named[n], named[m[3]::integer], yearly[n], yearly[m[3]::integer]);
        yearly[n] := yearly[n] and yearly[m[3]::integer];
        named[m[3]::integer] := 'empty';
        line := regexp_replace(
            line, '\m(?:between X\d+ (?:and|to|until)|(?:since )?X\d+ (?:to|until|at|k1)) X\d+\M', 'X' || n);
    end loop;
    if line like any ('{% ago %,% hence %}') then
        -- In Chinese what is before and after stands behind.
        line := regexp_replace(
            line, '\m(X\d+) (ago|hence)(?: [nk]1 (u[demwy])| ([nk]\d+ u[demwy]))?\M', '\3\4 \2 \1', 'g');
        line := replace(replace(line, ' ago X', ' before X'), ' hence X', ' after X');
    end if;
    loop
        exit when not line like any ('{%since X%,%after X%,%before X%,%until X%,%before k1 X%}');
        m := regexp_match(
            line, '\m(?:(?:([nk]\d+) )?u([demwy]) )?(since|after|before|until)(?: k1)? X(\d+)\M');
        exit when m is null;
        n := m[4]::integer;
        named[n] := memoryd.days_beside(named[n], substr(m[1], 2)::integer, m[2], m[3], today);
        yearly[n] := yearly[n] and m[2] is not null;
        line := regexp_replace(
            line, '\m(?:(?:[nk]\d+ )?u[demwy] )?(?:since|after|before|until)(?: k1)? X(\d+)\M', 'x\1');
    end loop;
    days := (
        select nullif(range_agg(daterange((lower(t.days) + y.by)::date, (upper(t.days) + y.by)::date)), '{}')
        from unnest(named, yearly) as t(days, yearly)
        cross join lateral unnest(case when t.yearly then array(
            select make_interval(years => g) from generate_series(-30, 1) g) else '{0}' end) as y(by)
        where not isempty(t.days)
          -- 29 February is not of every year.
          and extract(day from lower(t.days) + y.by) is not distinct from extract(day from lower(t.days)));
    alone := not p_written and days is not null and memoryd.is_talk(line);
end
$$;
