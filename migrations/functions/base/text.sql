-- Text of users in what agents read.

-- Full-width, circled and mathematical letters as the letters that they read like (NFKC). In pieces, because
-- the time to put the marks of one letter in order grows with the square of their number; cut by a pattern,
-- because substr() counts from the beginning each time.
create or replace function memoryd.nfkc(p_text text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(string_agg(normalize(m.piece[1], NFKC), '' order by m.n), p_text)
    from regexp_matches(p_text, '.{1,128}.{0,128}', 'g') with ordinality as m(piece, n)
$$;

-- The same, and Cyrillic and Greek letters as the Latin ones that they look like: memory.text has the same.
create or replace function memoryd.looks_like(p_text text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select translate(
        memoryd.nfkc(p_text),
        E'\u0430\u0412\u0432\u0435\u0456\u043e\u0441\u0445\u0442\u0455\u0501\u0433\u043d\u043f'
        '\u0410\u0415\u0406\u041e\u0421\u0425\u0422\u0405\u0500\u041d\u0440\u0443\u0420\u0423'
        '\u043c\u041c\u03b1\u03b5\u03b9\u03bf\u03c7\u03c4\u03b7\u0391\u0392\u0395\u0399\u039f'
        '\u03a7\u03a4\u039d\u0397\u03a1\u03a5\u039c',
        'aBbeiocxtsdrhnAEIOCXTSDHpyPYmMaeioxtnABEIOXTNHPYM')
$$;

-- Letters that read like others: memory.text has the same.
create or replace function memoryd.styled_letters() returns text
language sql immutable parallel safe
return '[\u0370-\u052f\u2100-\u214f\u2460-\u24ff\ufe64\uff01-\uff5e\U0001d400-\U0001d7ff]';

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
    -- What memory.text has as _MARKER: two of these, one after the other, draw a line. One of the second ones
    -- is a line by itself. Two symbols of any kind draw one where more words than `context` follow.
    drawn constant text :=
        '-\u00b7\u2010-\u2012\u2020-\u2025\u2027\u203b\u2042\u2043\u204e-\u2051\u2055-\u205e'
        '\u2190-\u24ff\u2580-\u2bff\u3030\u30fb\ufe63\uff0d_=~*#';
    lines constant text := '\u2013-\u2015\u2500-\u257f\u2e3a\u2e3b\ufe58';
    symbols constant text :=
        '-_=~*#+<>|/\\&%$@^`{}\[\]\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u00d7\u00f7'
        '\u2010-\u2017\u2020-\u2025\u2027\u2030-\u205e\u2190-\u2bff\u3003-\u3020\u3030\u30fb'
        '\ufe10-\ufe6f\uff0d\U0001f000-\U0001faff';
    gap constant text := '[^[:alnum:]]{0,20}';
    begins constant text := '(begin|start|end)[ _-]{1,20}(of[ _-]{1,20})?(the[ _-]{1,20})?context';
    marker constant text :=
        '(([' || drawn || '] ?){2,}|[' || lines || '])' || gap || '((of )?context\M)'
        '|(([' || symbols || '] ?){2,}|[' || lines || '])' || gap || '(' || begins || '(?![[:alnum:]])'
        '|context[ _][^\n]{0,40}curated)';
begin
    -- Nearly all texts have no such character.
    if flat ~ memoryd.unseen() then
        if strpos(flat, E'\x1b') + strpos(flat, E'\u009b') + strpos(flat, E'\u009d') > 0 then
            flat := regexp_replace(
                flat,
                '\x1b(\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\x9c\n]*(\x07|\x1b\\|\x9c)?|[ -/]*[0-~]?)'
                '|\x9b[0-?]*[ -/]*[@-~]?|\x9d[^\x07\x1b\x9c\n]*(\x07|\x1b\\|\x9c)?',
                '', 'g');
        end if;
        flat := translate(flat, E'\x09\x0a\x0b\x0c\x0d\u0085\u2028\u2029', repeat(' ', 8));
        flat := regexp_replace(flat, memoryd.unseen(), '', 'g');
    end if;
    flat := btrim(regexp_replace(flat, '\s+', ' ', 'g'));
    if octet_length(flat) > length(flat) and flat ~ memoryd.styled_letters() then
        form := memoryd.looks_like(flat);
        if form ~* marker then
            flat := form;
        end if;
    end if;
    if strpos(lower(flat), 'context') > 0 then
        flat := regexp_replace(flat, marker, '[no marker] \3\7', 'gi');
    end if;
    return flat;
end
$$;
