-- Functions that check constraints call. Each is true, or raises an error whose hint says what is allowed.
-- The next three check how large a value is: `check (memoryd.text_fits('content', content, 10000000))`. They
-- are calls and not expressions of many parts, since every statement prepares all checks of its table.

-- Raises the error of a check constraint: `check (<allowed> or memoryd.refuse(what, hint))`.
-- Strict: a check constraint accepts null, and of null this function is null.
create function memoryd.refuse(p_message text, p_hint text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', p_message using errcode = 'check_violation', hint = p_hint;
end
$$;

-- Characters that are invisible or change how other text is shown: control characters, escape sequences,
-- direction marks, tags and variation selectors, zero-width spaces, line separators.
create function memoryd.unseen() returns text
language sql immutable parallel safe
return '[\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e'
       '\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb'
       '\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]';

-- Whether a name has visible characters alone: otherwise two names could look the same, or one could forge
-- lines of output.
create function memoryd.is_plain(p_name text) returns boolean
language sql immutable parallel safe
return p_name !~ memoryd.unseen();

-- Raises the error of a check with is_plain: `check (memoryd.is_plain(agent_id) or
-- memoryd.refuse_unseen(agent_id))`.
create function memoryd.refuse_unseen(p_agent text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'agent_id has characters that are not seen' using errcode = 'check_violation',
        hint = 'Leave out line breaks and other controls, escape sequences, blanks without width, tags, '
               'and what turns the direction of writing.';
end
$$;

-- `check (memoryd.agent_id_fits(agent_id, hint))`. The name _shared, which means every agent, is refused
-- where p_shared is false.
create function memoryd.agent_id_fits(p_agent text, p_hint text, p_shared boolean default true)
returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_agent = '_shared' and not p_shared then
        return memoryd.refuse('agent_id is _shared', p_hint);
    elsif p_agent !~ '\S' or length(p_agent) > 200 then
        return memoryd.refuse('agent_id is blank or too long', p_hint);
    end if;
    return memoryd.is_plain(p_agent) or memoryd.refuse_unseen(p_agent);
end
$$;

-- `check (memoryd.time_fits('created_at', created_at))`. Daemons read these times, and Python's end with the
-- year 9999: a later one would make a job fail for ever, and with it all jobs of its lane.
create function memoryd.time_fits(p_name text, p_time timestamptz) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return p_time between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse(p_name || ' is ' || p_time, 'Times from 1900 to 9999.');
end
$$;

create function memoryd.text_fits(p_name text, p_text text, p_most integer) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Bytes first: their number is known without reading a long text.
    return octet_length(p_text) <= p_most or length(p_text) <= p_most
        or memoryd.refuse(
            p_name || ' has ' || length(p_text) || ' characters',
            'At most ' || to_char(p_most, 'FM999,999,999')
                || ' characters: give it in parts, or say where it is found.');
end
$$;

create function memoryd.list_fits(p_name text, p_list anyarray) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return cardinality(p_list) = 0 or (cardinality(p_list) <= 1000 and octet_length(p_list::text) <= 100000)
        or memoryd.refuse(
            p_name || ' has ' || cardinality(p_list) || ' entries, '
                || octet_length(p_list::text) || ' bytes',
            'At most 1,000 entries, and 100,000 bytes together.');
end
$$;

-- Deep values and long numbers break the JSON parsers of clients (Python's accepts 4,300 digits of an
-- integer).
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
    -- One test after another, the text as late as possible: the text of 1e9999 is a thousand times as long as
    -- its value. A text of up to 1,000 bytes contains no number that is too long.
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
        or memoryd.refuse(
            p_name || fault, 'At most 1,048,576 bytes of JSON, 64 levels deep, its numbers of 1,000 digits.');
end
$$;
