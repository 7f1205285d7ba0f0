-- What `memoryd audit` (plugins/audit) judges in the text of a memory. All are computed from their arguments
-- alone, and prefer to find too little: a finding that is wrong costs more than one that is missing.

-- Whether two memories with the same keywords say the same: neither has a number, a name, a denial or a word
-- in one place that the other lacks, and their words are as good as the same. Their order counts where a word
-- in them may say who did what, or what comes first.
create or replace function memoryd.says_the_same(p_one text, p_other text, p_in_order boolean)
returns boolean
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (p_in_order
            or p_one || ' ' || p_other
               !~* '\m(?:than|over|to|from|of|before|after|by|for|if|because|but|with|then|when)\M')
        and p_one ~ '[?]' = (p_other ~ '[?]')
        and abs(cardinality(memoryd.words_in_order(p_one))
                - cardinality(memoryd.words_in_order(p_other))) <= 2
        and memoryd.difference(p_one, p_other) is null
        and memoryd.difference(p_other, p_one) is null;
end
$$;

-- Whether a text says another thing on another day.
create or replace function memoryd.depends_on_day(p_text text) returns boolean
language sql immutable parallel safe
return lower(left(p_text, 2000)) ~ (
    '\m(?:today|tonight|yesterday|tomorrow|this (?:morning|afternoon|evening|week|weekend|month)'
    '|(?:next|last) (?:week|weekend|month|year|monday|tuesday|wednesday|thursday|friday|saturday'
    '|sunday)'
    '|just now|right now|heute|gestern|morgen|hier|demain|hoy|ayer'
    '|mañana)\M|今天|昨天|明天|今晚|上周|下周');

-- The words that say when, in a text that is one sentence of what is to come and counts its day from when it
-- was written; else null. What has a second sentence, or tells what has happened, may say something that
-- lasts.
create or replace function memoryd.day_to_come(p_text text) returns text
language sql immutable parallel safe
return case
    when p_text !~* '\m(?:tomorrow|tonight|later today|next|this)\M' then null
    when p_text ~* ('\m(?:will|going to|gonna|plans?|planning|supposed to|is|are|am|has|have|need|needs'
                    '|due|see'
                    '|meeting|appointment|flight|exam|interview|deadline)\M|''ll\M')
         and p_text !~ '[?]|[.!;\n]\s+\S'
         and p_text !~* ('\m(?:was|were|did|had|got|been|done|every|usually|always|often|sometimes'
                         '|when|never)\M'
                         '|\m(?!need|sched|plann|suppos|book|inde|excit)\w+ed\M')
        then lower(substring(p_text from (
            '(?i)\m(tomorrow|tonight|later today|this (?:evening|weekend)'
            '|next (?:week|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday))\M')))
    end;

-- Why a text says nothing; null: it says something. Longer ones say something.
create or replace function memoryd.says_nothing(p_text text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    said text;
begin
    if length(p_text) > 200 then
        return null;
    elsif p_text !~ '[[:alnum:]]' then
        return 'it has neither letters nor digits';
    end if;
    said := btrim(regexp_replace(lower(p_text), '\s+', ' ', 'g'), E' .!?-–—*#:;,"''…');
    return case
        when said ~ ('^(?:null|none|nil|n/?a|nan|undefined|unknown|todo|tbd|test|testing|lorem ipsum.*'
                     '|placeholder|empty|string|foo|bar|foobar|asdf|\[object object\]|\[\]|\{\}|true|false)$')
            then 'it is a placeholder'
        when p_text ~ '^\W*(?:\{\{[^{}]*\}\}|\$\{[^{}]*\}|<[a-z_ ]{1,30}>|%s|%\([a-z_]+\)s)\W*$'
            then 'it is a template that was not filled in'
        when said ~ ('^(?:i (?:do not|don.t) (?:know|have (?:any |enough |that )?information)'
                     '(?: about (?:that|this))?'
                     '|no (?:new |relevant |specific |further )?(?:information|facts?|memories|memory|data'
                     '|details?|preferences?|results?|updates?)'
                     '(?: (?:was |were |is |are |has been |have been )?(?:found|provided|available|mentioned'
                     '|given|shared|known|extracted|to (?:store|remember|extract|report)))?'
                     '(?: yet| so far| here)?)$')
            then 'it says that there is nothing to say'
        when said ~ ('^(?:the )?(?:user|assistant|human|speaker|customer)(?: has| have)? (?:just )?'
                     '(?:greet(?:s|ed)|sa(?:id|ys) (?:hi|hello|hey|thanks|thank you|goodbye|bye|ok|okay|yes'
                     '|no)'
                     '|thank(?:s|ed)|acknowledged|agreed|responded|replied'
                     '|asked (?:a|another|some) questions?|asked for help|sent (?:a|another) message'
                     '|(?:started|ended) (?:a|the) conversation)'
                     '(?: (?:the |to the |with the |from the )?(?:user|assistant|ai|chatbot|bot))?$')
            then 'it says only that somebody spoke'
        when length(p_text) <= 80 and cardinality(string_to_array(said, ' ')) <= 7 and p_text !~ '[0-9]'
             and memoryd.is_small_talk(memoryd.plain(p_text), null) then 'it is small talk'
        end;
end
$$;

-- Whether statement_in() may find something in a text with these keywords: it costs a hundred times as much.
create or replace function memoryd.may_state(p_keywords text[]) returns boolean
language sql immutable parallel safe
return exists (
    select from unnest(p_keywords) as k(word)
    where k.word = any ('{live,lives,living,reside,resides,based,moved,relocated,work,works,working,employed,
                          name,called,named,years,birthday,favorite,favourite,married,single,divorced,
                          widowed,engaged,vegan,vegetarian,pescatarian}'::text[]));

-- What a sentence says of what a person has one of: which attribute, of whom ('' for the user), and the
-- value. No row for all other sentences.
create or replace function memoryd.statement_in(p_text text)
returns table (attribute text, person text, value text)
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    line constant text := left(split_part(regexp_replace(btrim(p_text), '^[-*] ', ''), E'\n', 1), 300);
    low constant text := lower(line);
    -- Who it is about, at the beginning; then what. Names and places have a capital letter.
    who constant text := '^(?:The )?([\w''’ .-]{0,40}?) ?';
    whose constant text := '^(?:The )?([\w''’ .-]{1,40}?)(?:''s|’s|\mmy)? ';
    now constant text := '(?:currently |now |still )?';
    said text[];
    called text;
begin
    -- What it may be is asked first: to take a sentence apart costs a hundred times as much.
    case
        when low ~ '\m(?:lives?|resides?|living|based)\M' then
            called := 'home';
            said := regexp_match(line, who || now
                || '(?:lives?|resides?|is living|is based|am living|am based) '
                                       '(?:now |currently )?in (.+)$', 'i');
        when low ~ '\m(?:moved|relocated) to ' then
            called := 'home';
            said := regexp_match(line, who || '(?:has |have )?(?:just |recently )?'
                                       '(?:moved|relocated) to (.+)$', 'i');
        when low ~ '\m(?:works?|working|employed) (?:at|for|by) ' then
            called := 'employer';
            said := regexp_match(line, who || now || '(?:works?|is working|am working|is employed) '
                                       '(?:at|for|by) (.+)$', 'i');
        when low ~ ' name is ' then
            called := 'name';
            said := regexp_match(line, whose || '(?:full )?name is (.+)$', 'i');
        when low ~ ' is (?:called|named) ' then
            called := 'name';
            said := regexp_match(line, who || 'is (?:called|named) (.+)$', 'i');
        when low ~ ' years old' then
            called := 'age';
            said := regexp_match(line, who || '(?:is|am) (\d{1,3}) years old', 'i');
        when low ~ ' birthday is ' then
            called := 'birthday';
            said := regexp_match(line, whose || 'birthday is (?:on )?(.+)$', 'i');
        when low ~ 'favou?rite ' then
            called := 'favourite';
            said := regexp_match(line, whose || 'favou?rite ([a-z]+(?: [a-z]+)?) (?:is|are) (.+)$', 'i');
        when low ~ '\m(?:married|single|divorced|widowed|engaged)\M' then
            called := 'marital status';
            said := regexp_match(line, who || '(?:is|am) (?:currently |now )?'
                                       '(married|single|divorced|widowed|engaged)\M', 'i');
        when low ~ '\m(?:vegan|vegetarian|pescatarian)\M' then
            called := 'diet';
            said := regexp_match(line, who || '(?:is|am) (?:now )?(?:an? )?(?:strict )?'
                                       '(vegan|vegetarian|pescatarian)\M', 'i');
        else null;
    end case;
    if said is null or called in ('home', 'employer', 'name') and said[2] !~ '^(?:the )?[[:upper:]]' then
        return;
    end if;
    attribute := called || case when called = 'favourite' then ' ' || lower(said[2]) else '' end;
    person := regexp_replace(lower(btrim(said[1])), '(?:''s|’s)$', '');
    if person ~ ('\m(?:not|never|used|if|when|where|who|which|what|that|this|it|he|she|they|we|you|there|once'
                 '|before|previously|formerly|wants?|would|will|plans?|hopes?|to|was|were|had|and|or|but|also'
                 '|because|so|friends?|someone|everyone|others?|one|people)\M') then
        return;
    end if;
    if person in ('user', 'i', 'my', 'users') then
        person := '';
    end if;
    -- Up to what else the sentence says.
    value := btrim(regexp_replace(regexp_replace(
        lower(said[cardinality(said)]),
        '[,.;:()!?"“”—].*$|\m(?:and|or|since|with|for|but|now|because|near|until|so|after|before|which|where'
        '|as|at|in|on|by|currently|recently|this|last|next|who|when|while|to|from|about|right'
        '|again)\M.*$', ''),
        '^(?:the|an?) ', ''));
    if length(value) between 2 and 40 and value !~ '^\S+(?: \S+){4}' then
        return next;
    end if;
end
$$;
