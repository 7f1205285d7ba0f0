-- What `memoryd audit` (plugins/audit) judges in the text of a memory. Both are computed from their arguments
-- alone, and prefer to find too little: a finding that is wrong costs more than one that is missing.

-- Whether a text says another thing on another day.
create or replace function memoryd.depends_on_day(p_text text) returns boolean
language sql immutable parallel safe
return lower(left(p_text, 2000)) ~ (
    '\m(?:today|tonight|yesterday|tomorrow|this (?:morning|afternoon|evening|week|weekend|month)'
    '|(?:next|last) (?:week|weekend|month|year|monday|tuesday|wednesday|thursday|friday|saturday'
    '|sunday)'
    '|just now|right now|heute|gestern|morgen|hier|demain|hoy|ayer'
    '|mañana)\M|今天|昨天|明天|今晚|上周|下周');

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
