-- Text of users in what agents read.

-- Full-width, circled and mathematical letters as the letters that they read like (NFKC). In pieces, because
-- the time to put the marks of one letter in order grows with the square of their number.
create or replace function memoryd.nfkc(p_text text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(string_agg(normalize(substr(p_text, n, 256), NFKC), '' order by n), p_text)
    from generate_series(1, length(p_text), 256) n
$$;

-- Letters that read like others: memory.text has the same.
create or replace function memoryd.styled_letters() returns text
language sql immutable parallel safe
return '[\u2100-\u214f\u2460-\u24ff\ufe64\uff01-\uff5e\U0001d400-\U0001d7ff]';

-- A text as one line without invisible characters or escape sequences, as memory.text.one_line() in Python.
-- In addition, what looks like the marker that begins or ends a context is replaced by `[no marker]`, so that
-- a memory cannot forge one.
create or replace function memoryd.one_line(p_text text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    flat text := p_text;
    form text;
    -- Two of these, one after the other, draw a line. One of the second ones is a line by itself.
    drawn constant text :=
        '-\u00b7\u2010-\u2012\u2020-\u2025\u2027\u203b\u2042\u2043\u204e-\u2051\u2055-\u205e'
        '\u2190-\u24ff\u2580-\u2bff\u3030\u30fb\ufe63\uff0d_=~*#';
    lines constant text := '\u2013-\u2015\u2500-\u257f\u2e3a\u2e3b\ufe58';
    marker constant text :=
        '([' || drawn || '] ?){2,}[^[:alnum:]]{0,5}((begin |end )?(of )?context)\M'
        '|[' || lines || ']+[^[:alnum:]]{0,5}((begin |end )?(of )?context)\M';
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
    if flat ~ memoryd.styled_letters() then
        form := memoryd.nfkc(flat);
        if form ~* marker then
            flat := form;
        end if;
    end if;
    if flat ~* ('[' || drawn || lines || '].*context') then
        flat := regexp_replace(flat, marker, '[no marker] \2\5', 'gi');
    end if;
    return flat;
end
$$;
