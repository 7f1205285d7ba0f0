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

-- The sign of each word: English, German, Spanish, French, Chinese (`signs`); those without which no text
-- names a time (`core`); and the Chinese ones as a pattern, since they are not set apart by spaces
-- (`characters`). Computed here, and not in each session.
do $do$
declare
    -- How long a unit is (`lengths`).
    lengths constant jsonb := '{"d": "1 day", "e": "7 days", "w": "7 days", "m": "1 month", "y": "1 year"}';
    signs constant jsonb := (
    select jsonb_object_agg(w.word, s.sign)
    from (values
        ('m1', 'january januar jänner enero janvier'), ('m1?', 'jan'),
        ('m2', 'february feb februar febrero février'), ('m3', 'märz marzo'), ('m3?', 'march mars'),
        ('m4', 'abril avril'), ('m4?', 'april apr'), ('m5', 'mayo'), ('m5?', 'may mai'),
        ('m6', 'juni junio juin'), ('m6?', 'june jun'), ('m7', 'july juli julio juillet'), ('m7?', 'jul'),
        ('m8', 'agosto août'), ('m8?', 'august aug'),
        ('m9', 'september sept septiembre setiembre septembre'), ('m9?', 'sep'),
        ('m10', 'october oktober octubre octobre'), ('m10?', 'oct okt'),
        ('m11', 'november noviembre novembre'), ('m11?', 'nov'),
        ('m12', 'december dezember diciembre décembre'), ('m12?', 'dec dez'),
        ('w1?', 'monday montag lunes lundi'), ('w1', '周一 星期一 礼拜一'),
        ('w2?', 'tuesday dienstag martes mardi'), ('w2', '周二 星期二 礼拜二'),
        ('w3?', 'wednesday mittwoch miércoles mercredi'), ('w3', '周三 星期三 礼拜三'),
        ('w4?', 'thursday donnerstag jueves jeudi'), ('w4', '周四 星期四 礼拜四'),
        ('w5?', 'friday freitag viernes vendredi'), ('w5', '周五 星期五 礼拜五'),
        ('w6?', 'saturday samstag sonnabend sábado samedi'), ('w6', '周六 星期六 礼拜六'),
        ('w7?', 'sunday sonntag domingo dimanche'), ('w7', '周日 周天 星期日 星期天 礼拜天'),
        ('s3?', 'spring frühling frühjahr primavera printemps 春天 春季'),
        ('s6?', 'summer sommer verano été 夏天 夏季'),
        ('s9?', 'autumn fall herbst otoño automne 秋天 秋季'),
        ('s12?', 'winter invierno hiver 冬天 冬季'),
        ('m12 n25', 'christmas xmas weihnachten weihnachtstag weihnachtstage weihnachtstagen navidad '
                    'navidades noël 圣诞节 圣诞'),
        ('m12 n24', 'heiligabend nochebuena 平安夜'), ('m12 n31', 'silvester nochevieja'),
        ('m1 n1', 'neujahr 元旦'), ('m10 n31', 'halloween 万圣节'),
        ('d0', 'today tonight heute hoy aujourd 今天 今日 今晚'),
        ('d-1', 'yesterday gestern ayer anoche 昨天 昨日 昨晚'), ('d-1?', 'hier'),
        ('d-2', 'vorgestern anteayer 前天'),
        ('d1', 'tomorrow demain 明天'), ('d1?', 'morgen mañana'), ('d2', 'übermorgen 后天'),
        ('last uw', 'vorwoche'), ('last um', 'vormonat'),
        ('last uy', 'vorjahr 去年'), ('this uy', '今年'), ('next uy', '明年'),
        ('ud', 'day days night nights morning evening afternoon noon tag tage tagen nacht abend früh mittag '
               'vormittag nachmittag día días noche tarde jour jours journée nuit soir soirée matin matinée '
               '天 早上 晚上 上午 下午 中午'),
        ('ue', 'weekend wochenende 周末'),
        ('uw', 'week weeks woche wochen semana semanas semaine semaines 周 星期 礼拜 个星期'),
        ('um', 'month months monat monate monaten monats mes meses mois 个月 月'),
        ('uy', 'year years jahr jahre jahren jahres año años an ans année années 年'),
        ('k1', 'a one ein einem einer eine einen un una uno une'), ('k2', 'two couple zwei dos deux'),
        ('k3', 'three drei tres trois'), ('k4', 'four vier cuatro quatre'), ('k5', 'five fünf cinco cinq'),
        ('k6', 'six sechs seis'), ('k7', 'seven sieben siete'), ('k8', 'eight acht ocho huit'),
        ('k9', 'nine neun nueve neuf'), ('k10', 'ten zehn diez dix'), ('k11', 'eleven elf onze'),
        ('k12', 'twelve zwölf doce douze'),
        ('last', 'last past previous letzte letzten letzter letztes letztem vorige vorigen voriges '
                 'vergangene vergangenen vergangenes pasado pasada pasados pasadas último última últimos '
                 'últimas dernier dernière derniers dernières passé passée 上 上个 最近 过去'),
        ('this', 'this diese diesen dieser dieses diesem este esta ce cet cette 这 这个 本'),
        ('next',
         'next nächste nächsten nächster nächstes próximo próxima prochain prochaine 下 下个'),
        ('ago', 'ago 前 以前 之前'), ('before', 'before vor hace antes anterior avant'),
        ('after', 'after following nach después après'), ('hence', '以后 之后'),
        ('since', 'since seit desde depuis 自 从'),
        ('until', 'until till bis hasta jusqu'),
        ('good', 'good guten buen buenos buenas'),
        ('first', 'first erste ersten erster erstes primer primera premier première'),
        ('early', 'early beginning start anfang principios comienzos début 初 上旬'),
        ('mid', 'mid middle mitte mediados mi 中旬'),
        ('late', 'late end ende finales fines fin 下旬 底 末'),
        ('in', 'in on during over im am en around während durante pendant lors'), ('in uy', '公元'),
        ('of', 'of the de del des du der das dem den el los la las le les l d 的'),
        ('and', 'and und y et 和'), ('to', 'to 到 至'), ('at', 'à au al'),
        ('between', 'between from zwischen von entre')
    ) as s(sign, words)
    -- Montagabend is a Monday.
    cross join lateral string_to_table(s.words || case when s.words like '%tag %' and s.sign like 'w%' then
        (select string_agg(' ' || split_part(s.words, ' ', 2) || part, '')
         from unnest('{s,morgen,früh,vormittag,mittag,nachmittag,abend,nacht}'::text[]) part)
        else '' end, ' ') as w(word)
    );
    -- What a question may have beside a time, and still asks for nothing but what was then (`talk`): words of
    -- talk and of events, as stems; beside them the stop words of the language. Chinese: characters.
    talk constant jsonb := (
        select jsonb_object_agg(t.language, (
            select jsonb_object_agg(coalesce((ts_lexize(
                ('pg_catalog.' || t.language || '_stem')::regdictionary, w.word))[1], w.word), null)
            from string_to_table(t.words, ' ') as w(word)))
        from (values
            ('english', 'talk chat discuss discussion speak spoke spoken say said tell told mention converse '
             'conversation dialogue happen occur occurred event thing anything something everything stuff '
             'topic subject matter issue remember recall remind recap summarize summarise summary overview '
             'list show give let new news write wrote written note memory cover exchange message log record '
             'history bring brought us please d ll re ve m would could might may shall one also else period '
             'time back ever whats know find came took place going work important notable interesting main'),
            ('german', 'sprechen gesprochen sprachen sprach besprechen besprochen besprachen reden geredet '
             'redeten unterhalten unterhielten unterhaltung diskutieren diskutiert plaudern geplaudert '
             'quatschen gequatscht chatten gechattet erzählen erzählt sagen gesagt sagte erwähnen erwähnt '
             'passieren passiert passierte geschehen geschah geschieht ereignen ereignet ereignete '
             'ereignis vorgefallen los gibt gab gegeben neu neues neuigkeiten machen gemacht tun getan tat '
             'taten thema themen gespräch gespräche geht ging worum wovon worüber woran darüber darum '
             'erinnern erinnerst zusammenfassung zeig zeige liste bitte sache sachen ding dinge dingen '
             'schreiben geschrieben notiert ausgetauscht gelaufen lief stattgefunden fand statt wurde '
             'wurden welche so damals zeit mal denn eigentlich überhaupt wichtig wichtiges s über'),
            ('spanish', 'hablar hablamos hablado habló hablaron charlar charlamos conversar conversamos '
             'conversación platicar platicamos decir dijimos dijo dije dijeron dicho contar contamos contó '
             'comentar comentamos discutir discutimos mencionar pasar pasó ocurrir ocurrió suceder sucedió '
             'hacer hicimos hice hizo hicieron hecho hubo había hay novedad novedades nuevo nueva tema temas '
             'cosa cosas recordar recuerdas recuerda resumen resumir resume dime cuéntame muéstrame evento '
             'eventos acerca trató tratar tratamos vimos escribir escribimos acuerdas qué que cuál cuáles '
             'por favor dar da época momento'),
            ('french', 'parler parlé parlions parlait discutions disions '
             'discuter discuté discussion dire dit dis bavarder causer raconter '
             'raconté mentionner mentionné évoquer évoqué échanger échangé converser conversation passer '
             'passait arriver arrivé arrivait produire produit faire fait faisait fais lieu eu avoir avait '
             'a quoi neuf nouveau nouvelle nouvelles nouveauté sujet sujets chose choses rappeler rappelle '
             'souvenir souviens résumer résume résumé montrer montre donner donne liste événement '
             'événements dont aborder abordé traiter traité y il elle est ce que quel quelle quels quelles '
             'quelque tout tous se moment époque cours s'' ça')) as t(language, words))
        || jsonb_build_object('chinese',
            '我你您咱他她它们聊谈说讲论讨提及告诉过了的呢吗吧啊么什啥哪些在做干发生事情有没都和跟与是些请给列出'
            '记得那时候期间当话题内容对些怎样如何一下关于回忆总结概括新消息情况大家');
    core constant jsonb := (
        select jsonb_object_agg(w.key, null) from jsonb_each_text(signs) w
        where w.value ~ '^([mwsd]-?\d|u|last u)');
    characters constant text := (
        select string_agg(w, '|' order by length(w) desc, w)
        from jsonb_object_keys(signs) w where w ~ '[一-鿿]');
begin
    execute format($s$
create or replace function memoryd.time_words() returns jsonb
language sql immutable parallel safe
return %L::jsonb;
$s$, jsonb_build_object(
    'signs', signs, 'core', core, 'characters', characters, 'lengths', lengths,
    'talk', talk));
end
$do$;

-- The day of a time, in UTC; null for an infinite one. Inlined.
create or replace function memoryd.day_of(p_at timestamptz) returns date
language sql stable parallel safe
return case when isfinite(p_at) then (p_at at time zone 'utc')::date end;

-- What a number or a date is in a line of signs: 14th, 2025, 2025-03-14, 14.3., 14.03.2025, 3/14/2025, 三月,
-- 2025年.
create or replace function memoryd.number_sign(p_word text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    d constant text[] := regexp_split_to_array(p_word, '\D+');
    number text;
begin
    if p_word ~ '[一-鿿]' then
        number := translate(
            substring(p_word, '^[\d一二三四五六七八九十两]*'), '一二三四五六七八九两', '1234567892');
        -- 十 is 10, 十二 12, 二十 20, 二十三 23.
        number := replace(regexp_replace(regexp_replace(
            regexp_replace(number, '^十$', '10'), '^十', '1'), '十$', '0'), '十', '');
        return case when p_word ~ '月' then 'm' || number
                    when p_word ~ '年' and length(number) = 4 then 'Y' || number
                    when p_word ~ '年' then 'n' || left(number, 3) || ' uy'
                    else 'n' || left(number, 3) end;
    end if;
    return case
        when p_word ~ '^\d{4}$' then 'y' || p_word
        when p_word ~ '^\d{4}-\d{4}$' then 'Y' || d[1] || ' to Y' || d[2]
        when cardinality(d) = 1 or d[2] = '' then case when length(d[1]) < 4 then 'n' || d[1] else '_' end
        when p_word ~ '^\d{4}-\d\d?$' then 'Y' || d[1] || ' m' || d[2]::integer
        when p_word ~ '^\d{4}[-/]\d\d?[-/]\d\d?$' then 't' || d[1] || lpad(d[2], 2, '0') || lpad(d[3], 2, '0')
        when p_word ~ '^\d\d?\.\d\d?\.$' then 'n' || d[1] || ' m' || d[2]::integer
        when p_word ~ '^\d\d?\.\d\d?\.\d{4}$' then 't' || d[3] || lpad(d[2], 2, '0') || lpad(d[1], 2, '0')
        when p_word ~ '^\d\d?/\d\d?/\d{4}$' -- The month is written first or second.
            then 't' || d[3] || lpad(d[1], 2, '0') || lpad(d[2], 2, '0')
                || ' t' || d[3] || lpad(d[2], 2, '0') || lpad(d[1], 2, '0')
        else '_' end;
end
$$;

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

-- These days, moved. Inlined.
create or replace function memoryd.moved(p_days daterange, p_by interval) returns daterange
language sql immutable parallel safe
return case when isempty(p_days) then p_days
            else daterange((lower(p_days) + p_by)::date, (upper(p_days) + p_by)::date) end;

-- Whether a text may name a time: others are not read further.
create or replace function memoryd.may_name_time(p_text text) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return memoryd.time_words() -> 'core' ?| regexp_split_to_array(lower(p_text), '[^a-zà-öø-ÿœß]+')
        or (octet_length(p_text) > length(p_text) or translate(p_text, '0123456789', '') <> p_text)
        and p_text ~ '\d{4}|\d[./-]\d|[月日号天周年]|昨|星期|礼拜|圣诞|[春夏秋冬]季';
end
$$;

-- The sign of each word of a text, with a space before and after each. In a question (not p_written) any
-- other word follows its sign, _.
create or replace function memoryd.signs_in(p_text text, p_written boolean) returns text
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    words constant jsonb := memoryd.time_words() -> 'signs';
    ascii constant boolean := octet_length(p_text) = length(p_text);
    word text := '\d+(?:[./-]\d+){0,2}\.?(?:st|nd|rd|th|er)?|[a-zà-öø-ÿœß]+|[^\s,.''’-]';
begin
    if not ascii and p_text ~ '[一-鿿]' then
        word := '[\d一二三四五六七八九十两]+(?:月份?|[日号年]|)|' || (memoryd.time_words() ->> 'characters')
            || '|' || word;
    end if;
    return (
        select ' ' || string_agg(coalesce(
            words ->> m[1],
            case when left(m[1], 1) collate "C" between '0' and '9'
                      or not ascii and m[1] ~ '^[\d一二三四五六七八九十两]'
                 then case when p_written then memoryd.number_sign(m[1])
                           else nullif(memoryd.number_sign(m[1]), '_') end end,
            case when p_written or memoryd.asks_nothing(m[1]) then '_' else '_' || m[1] end),
            ' ' order by nth) || ' '
        from regexp_matches(
            replace(replace(replace(replace(replace(replace(replace(
                lower(p_text), 'il y a', 'hace'), 'avant-hier', 'vorgestern'), 'week-end', 'weekend'),
                'fin de semana', 'weekend'), 'après-midi', 'soir'), 'christmas eve', 'heiligabend'),
                'new year''s eve', 'silvester'),
            word, 'g') with ordinality as t(m, nth));
end
$$;

-- A text as a line of signs in which every sign that is left stands for a time: words that mean something
-- else, too, are decided by the signs beside them, and what languages write in different ways is written in
-- one.
-- Postgres keeps 32 compiled patterns: a pattern is applied only where the line has what it is for.
create or replace function memoryd.plain_signs(p_text text, p_today date, p_written boolean) returns text
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    year constant integer := extract(year from p_today);
    line text := memoryd.signs_in(p_text, p_written);
begin
    if line like '%w of m%' then
        line := replace(replace(line, ' last uw of m', ' late m'), ' first uw of m', ' early m');
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
            '\m((?:in|at|since|until|before|after|between|early|mid|late|last|this(?! m5)|next|um|n\d+'
                '|of(?= w))'
                '(?: of)*) ([mws]\d+)\?', '\1 \2', 'g');
        line := regexp_replace(line, '\m([mws]\d+)\?(?= (last|next|[nyY]\d|of [yY]\d))', '\1', 'g');
        line := regexp_replace(
            line, '\m([mws]\d+(?: [nyY]\d+)* (?:and|to|until)(?: of)*) ([mws]\d+)\?', '\1 \2', 'g');
        -- Of these words may alone says nothing.
        line := regexp_replace(replace(line, ' m5? ', ' _ '), '\m[mws]\d+\?', '_~', 'g');
    end if;
    if not p_written and line like '% ue %' then
        -- The weekend, of which a question says no more.
        line := regexp_replace(line, '(^ |\m(?:in|of|in of) )ue (?!before|after|last|next)', ' in ue ');
    end if;
    line := replace(replace(line, ' of ', ' '), ' of ', ' ');
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
            line, '\m(in|since|until|before|after|between|uy|m\d+|s\d+|m\d+ n\d+|n\d+) y(\d+)',
            '\1 Y\2', 'g');
        line := regexp_replace(line, '\m(Y\d+ (?:and|to|until|at)) y(\d+)', '\1 Y\2', 'g');
    end if;
    if line like '%Y% in %' then
        line := regexp_replace(line, '\m(Y\d+) in (?=n\d+ m|m|s)', '\1 ', 'g');
    end if;
    -- What stands behind in one language, before in another.
    if line like '% u%' or line like '% last %' or line like '% next %' then
        line := regexp_replace(line, '\m((?:[nk]\d+ )?u[demwy]|[mws]\d+) (last|next)\M', '\2 \1', 'g');
        line := regexp_replace(line, '\mbefore ([nk]\d+ u[demwy])\M', '\1 ago', 'g');
        line := regexp_replace(line, '\min ([nk]\d+ u[demwy])\M', '\1 ahead', 'g');
        line := regexp_replace(line, '\m([nk]\d+) last (u[demwy])\M', 'last \1 \2', 'g');
    end if;
    return line;
end
$$;

-- The first time in a line of signs: where it stands, its days (null: there are none such), and whether these
-- are of any year. phrase is null where there is none. p_written: the line is of a row that was
-- written today, not of a question. A month or a season is of the year that is named; with last and next of
-- the nearest before and after today; else of the nearest, in a question of one in which it has begun.
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
        m := regexp_match(p_line, '\m((?:(last|next) )?w(\d))\M');
        at := p_today - (extract(isodow from p_today)::integer - m[3]::integer + 7) % 7;
        at := at + case when m[2] = 'next' then 7 when m[2] = 'last' and at = p_today then -7 else 0 end;
        days := daterange(at, at + 1);
    end if;
    if m is null and p_line like '% u%' then
        m := regexp_match(
            p_line, '\m((last|this|next) (?:[nk](\d+) )?u([demwy])|'
            '[nk](\d+) u([demwy]) (ago|ahead)|in ue)\M');
        if m[1] = 'in ue' then
            at := p_today - (extract(isodow from p_today)::integer + 1) % 7;
            days := daterange(at, at + 2);
        elsif m[3] is not null then
            days := daterange((p_today - m[3]::integer * (lengths ->> m[4])::interval)::date, p_today + 1);
        elsif m[2] is not null then
            -- The day, weekend, week, month that this day is in, or the one before or after it.
            at := (date_trunc(case m[4] when 'd' then 'day' when 'm' then 'month' else 'week' end,
                              p_today::timestamp)
                   + case m[2] when 'last' then -1 when 'this' then 0 else 1 end
                     * (lengths ->> m[4])::interval)::date;
            days := case m[4] when 'e' then daterange(at + 5, at + 7)
                              else daterange(at, (at + (lengths ->> m[4])::interval)::date) end;
        elsif m is not null then
            -- The less sure, the longer the unit.
            at := p_today
                + case m[7] when 'ago' then -1 else 1 end * m[5]::integer * (lengths ->> m[6])::interval;
            half := case m[6] when 'w' then 3 when 'm' then 15 when 'y' then 90 else 0 end;
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
    half constant integer := case p_unit when 'w' then 3 when 'm' then 15 when 'y' then 90 else 0 end;
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

-- Whether a question's line of signs has, beside times, only words of talk and stop words of one language.
create or replace function memoryd.is_talk(p_line text) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return not p_line ~ '\m[ny]\d' and exists (
        select from jsonb_each(memoryd.time_words() -> 'talk') as t(language, words)
        where not exists (
            select from regexp_matches(p_line, ' _(\S+)', 'g') as w(word)
            where case when t.language = 'chinese' then position(w.word[1] in t.words #>> '{}') = 0
                       else (select l.stem <> '{}' and not t.words ?| (l.stem || w.word)
                             from (select ts_lexize(('pg_catalog.' || t.language || '_stem')::regdictionary,
                                                    w.word[1]) as stem) l) end));
end
$$;

-- The days that a text names, as of the day on which it is asked or, with p_written, was written; null where
-- it names none. A month, a season or a day without a year is that of each year in a question, and the
-- nearest in a row. alone: a question asks for nothing beside this time.
create or replace function memoryd.times_in(
    p_text text, p_today date, p_written boolean, out days datemultirange, out alone boolean)
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    today constant date := least(greatest(p_today, '0001-01-01'), '9999-12-31');
    most constant integer := case when p_written then 20 else 100 end;
    line text;
    next record;
    named daterange[] := '{}';
    yearly boolean[] := '{}';
    m text[];
    a daterange;
    b daterange;
    n integer := 0;
begin
    if not memoryd.may_name_time(p_text) then
        return;
    end if;
    line := memoryd.plain_signs(left(p_text, 2000), today, p_written);
    -- Each time gets a name in the line, X1, X2 ...
    while n < most loop
        next := memoryd.next_time(line, today, p_written);
        exit when next.phrase is null;
        n := n + 1;
        named[n] := coalesce(next.days, 'empty');
        yearly[n] := next.yearly and not p_written;
        line := overlay(line placing 'X' || n
                        from position(' ' || next.phrase || ' ' in line) + 1 for length(next.phrase));
    end loop;
    loop
        -- Between March and May.
        exit when not line like any ('{% and X%,% to X%,% until X%,% at X%,% k1 X%}');
        m := regexp_match(line, '\m(?:between X(\d+) (?:and|to|until)|'
                                '(?:since )?X(\d+) (?:to|until|at|k1)) X(\d+)\M');
        exit when m is null;
        n := coalesce(m[1], m[2])::integer;
        a := named[n];
        b := named[m[3]::integer];
        -- Of a month without a year it is the one next to the other.
        if yearly[n] and not yearly[m[3]::integer] then
            a := memoryd.moved(a, make_interval(years => extract(year from lower(b))::integer
                                                         - extract(year from lower(a))::integer));
            a := memoryd.moved(a, make_interval(years => case when lower(a) > lower(b) then -1 else 0 end));
            yearly[n] := false;
        elsif lower(b) < lower(a) then
            b := memoryd.moved(b, interval '1 year');
        end if;
        named[n] := case when lower(b) >= lower(a) then range_merge(a, b) else 'empty' end;
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
        select nullif(range_agg(memoryd.moved(t.days, make_interval(years => y.years))), '{}')
        from unnest(named, yearly) as t(days, yearly)
        cross join lateral generate_series(case when t.yearly then -30 else 0 end,
                                           case when t.yearly then 1 else 0 end) as y(years)
        where not isempty(t.days));
    alone := not p_written and days is not null and memoryd.is_talk(line);
end
$$;

-- The days that a row is about: those that its text names, as of when it was written, and the day that it is
-- valid from. Of longer times than a month nothing is kept: too much is about them.
create or replace function memoryd.row_times(p_text text, p_created_at timestamptz, p_valid_from timestamptz)
returns datemultirange
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_valid_from is null and not memoryd.may_name_time(p_text) then
        return null;
    end if;
    return (
        select nullif(range_agg(t.days), '{}')
        from (select n.days
              from memoryd.times_in(p_text, memoryd.day_of(p_created_at), true) t
              cross join lateral unnest(t.days) as n(days)
              where upper(n.days) - lower(n.days) <= 31
              union all
              select daterange(d.day, d.day, '[]') from memoryd.day_of(p_valid_from) as d(day)
              where d.day is not null) t);
end
$$;
