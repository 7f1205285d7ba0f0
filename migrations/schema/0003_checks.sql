-- Ends a check constraint that failed with words that help: `check (<allowed> or memoryd.refuse(what, hint))`.
-- Strict, so that null, which a check lets pass, is let pass here too.
create function memoryd.refuse(p_message text, p_hint text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', p_message using errcode = 'check_violation', hint = p_hint;
end
$$;

-- Characters that nobody sees, or that move what is seen: controls, escape sequences, those that turn the
-- direction of writing, tags and variation selectors, blanks without width, separators of lines.
create function memoryd.unseen() returns text
language sql immutable parallel safe
return '[\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f'
       '\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]';

-- Whether a name is all seen: else two names could look the same, or a name could write lines of its own.
create function memoryd.is_plain(p_name text) returns boolean
language sql immutable parallel safe
return p_name !~ memoryd.unseen();

-- The rest of that check: `check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id))`.
create function memoryd.refuse_unseen(p_agent text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'agent_id has characters that are not seen' using errcode = 'check_violation',
        hint = 'Leave out line breaks and other controls, escape sequences, blanks without width, tags, and what '
               'turns the direction of writing.';
end
$$;

-- The checks of how big a value may be: `check (memoryd.text_fits('content', content, 10000000))`. Calls, and no expressions of many
-- parts, since every statement prepares the checks of its table anew. Each is true, or ends the statement with words that help.
create function memoryd.text_fits(p_name text, p_text text, p_most integer) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    -- In bytes first: how many those are is known without reading a long text.
    return octet_length(p_text) <= p_most or length(p_text) <= p_most
        or memoryd.refuse(p_name || ' has ' || length(p_text) || ' characters',
                          'At most ' || to_char(p_most, 'FM999,999,999') || ' characters: give it in parts, or say where it is found.');
end
$$;

create function memoryd.list_fits(p_name text, p_list anyarray) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return cardinality(p_list) = 0 or (cardinality(p_list) <= 1000 and octet_length(p_list::text) <= 100000)
        or memoryd.refuse(p_name || ' has ' || cardinality(p_list) || ' entries, ' || octet_length(p_list::text) || ' bytes',
                          'At most 1,000 entries, and 100,000 bytes together.');
end
$$;

-- Deep values and long numbers break the parsers of who reads them (Python's take 4,300 digits of an integer).
create function memoryd.json_fits(p_name text, p_json jsonb) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
declare
    fault text;
begin
    if p_json = '{}' then
        return true;
    end if;
    -- Statement by statement: the text comes last, since of 1e9999 it is ten thousand times as long. Few characters hold no long number.
    if jsonb_path_exists(p_json, 'strict $.**{65 to last}') then
        fault := ' is nested deeper than 64 levels';
    elsif pg_column_size(p_json) <= 2000 and octet_length(p_json::text) <= 1000 then
        return true;
    elsif exists (select from jsonb_path_query(p_json, 'strict $.** ? (@.type() == "number")') as n(value)
                  where abs(n.value::numeric) >= 1e1000 or scale(n.value::numeric) > 1000) then
        fault := ' holds a number of more than 1,000 digits';
    elsif octet_length(p_json::text) > 1048576 then
        fault := ' has ' || octet_length(p_json::text) || ' bytes as text';
    end if;
    return fault is null
        or memoryd.refuse(p_name || fault, 'At most 1,048,576 bytes of JSON, 64 levels deep, its numbers of 1,000 digits.');
end
$$;
