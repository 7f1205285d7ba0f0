-- Text of users in what agents read.

-- A text as one line without invisible characters or escape sequences, as memory.text.one_line() in Python.
-- In addition, what looks like the marker that begins or ends a context is replaced by `[no marker]`, so that
-- a memory cannot forge one.
create or replace function memoryd.one_line(p_text text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    flat text := p_text;
begin
    -- Nearly all texts have no such character.
    if flat ~ memoryd.unseen() then
        flat := regexp_replace(
            flat,
            '\x1b(\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\x9c\n]*(\x07|\x1b\\|\x9c)?|[ -/]*[0-~]?)'
                '|\x9b[0-?]*[ -/]*[@-~]?|\x9d[^\x07\x1b\x9c\n]*(\x07|\x1b\\|\x9c)?',
            '', 'g');
        flat := regexp_replace(flat, '[\x09-\x0d\x85\u2028\u2029]', ' ', 'g');
        flat := regexp_replace(flat, memoryd.unseen(), '', 'g');
    end if;
    flat := btrim(regexp_replace(flat, '\s+', ' ', 'g'));
    if flat ~* '(--|- -|[\u2010-\u2015\u2212\u2500-\u257f\u2e3a\u2e3b\ufe58\ufe63\uff0d_=~*#]).*context'
    then
        flat := regexp_replace(
            flat,
            '([-\u2010-\u2012\u2212_=~*#\ufe63\uff0d] ?){2,}[^[:alnum:]]{0,5}((begin |end )?(of )?context)\M'
                '|[\u2013-\u2015\u2500-\u257f\u2e3a\u2e3b\ufe58]+[^[:alnum:]]{0,5}'
                '((begin |end )?(of )?context)\M',
            '[no marker] \2\5', 'gi');
    end if;
    return flat;
end
$$;
