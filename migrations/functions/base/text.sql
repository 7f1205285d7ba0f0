-- Text of users in what agents read.

-- Whether a question has no letter, digit or sign: blanks and punctuation ask for nothing.
create or replace function memoryd.asks_nothing(p_text text) returns boolean
language sql immutable parallel safe
return p_text !~ (
    '[^ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e\u00a1-\u00a9'
    '\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u037e\u0387\u055a-\u055f\u0589\u05be\u060c\u061b\u061f'
    '\u066a-\u066d\u06d4\u0964\u0965\u1361-\u1368\u2010-\u205e\u3001-\u3003\u3008-\u3020\u3030\u30fb'
    '\ufe10-\ufe19\ufe30-\ufe6f'
    '\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65' || substr(memoryd.unseen(), 2));

-- Full-width, circled and mathematical letters as the letters that they read like (NFKC). In pieces, because
-- the time to put the marks of one letter in order grows with the square of their number; cut by a pattern,
-- because substr() counts from the beginning each time.
create or replace function memoryd.nfkc(p_text text) returns text
language sql immutable parallel safe
return (
    select coalesce(string_agg(normalize(m.piece[1], NFKC), '' order by m.n), p_text)
    from regexp_matches(p_text, '.{1,128}.{0,128}', 'g') with ordinality as m(piece, n));

-- A text without marks on letters, and what looks like Latin letters as these: Cyrillic, Greek, Coptic,
-- Lisu and Cherokee ones, small capitals, white ones in circles and squares, those of flags. A text without
-- what may read like other letters stays as it is. memory.text has the same.
create or replace function memoryd.looks_like(p_text text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case when octet_length(p_text) = length(p_text) or p_text !~
        '[\u0262-\u02e4\u0300-\u052f\u13a0-\u13f5\u1ab0-\u1aff\u1d00-\u1dff\u2070-\u209f\u20d0-\u214f'
        '\u2460-\u24ff\u2c80-\u2cff\ua4d0-\ua4ff\ua730\ua731\ufe20-\ufe2f\ufe64\uff01-\uff5e'
        '\U0001d400-\U0001d7ff\U0001f110-\U0001f1ff]' then p_text else translate(
        memoryd.nfkc(regexp_replace(
            p_text,
            '[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+', '', 'g')),
        E'\u0430\u0412\u0432\u0435\u0456\u043e\u0441\u0445\u0442\u0455\u0501\u0433\u043d\u043f'
        '\u0410\u0415\u0406\u041e\u0421\u0425\u0422\u0405\u0500\u041d\u0440\u0443\u0420\u0423'
        '\u043c\u041c\u03b1\u03b5\u03b9\u03bf\u03c7\u03c4\u03b7\u0391\u0392\u0395\u0399\u039f'
        '\u03a7\u03a4\u039d\u0397\u03a1\u03a5\u039c'
        'ᴀʙᴄᴅᴇɢʜɪᴍɴᴏᴘʀꜱᴛᴜʏⲀⲂⲤⲈⲒⲘⲚⲞⲢⲦⲨⲬꓮꓐꓚꓓꓰꓖꓧꓲꓟꓠꓳꓑꓣꓢꓔꓴꓬꓫᎪᏴᏟᎠᎬᏀᎻᎷᏢᏒᏚᎢ'
        '🅐🅑🅒🅓🅔🅕🅖🅗🅘🅙🅚🅛🅜🅝🅞🅟🅠🅡🅢🅣🅤🅥🅦🅧🅨🅩🅰🅱🅲🅳🅴🅵🅶🅷🅸🅹🅺🅻🅼🅽🅾🅿🆀🆁🆂🆃🆄🆅🆆🆇🆈🆉🇦🇧🇨🇩🇪🇫🇬🇭🇮🇯🇰🇱🇲🇳🇴🇵🇶🇷🇸🇹🇺🇻🇼🇽🇾🇿',
        'aBbeiocxtsdrhnAEIOCXTSDHpyPYmMaeioxtnABEIOXTNHPYM'
        'ABCDEGHIMNOPRSTUYABCEIMNOPTYXABCDEGHIMNOPRSTUYXABCDEGHMPRST'
        'ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ') end
$$;

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
    -- What no reader sees, or no font has: the characters of memoryd.unseen(), others that only control how
    -- text is set, private use, and code points that are no characters.
    unshown constant text := left(memoryd.unseen(), -1)
        || '\u070f\u0890\u0891\u08e2\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000110bd\U000110cd'
           '\U00013430-\U0001345f\U0001fffe\U0001ffff\U0002fffe\U0002ffff\U0003fffe-\U0010ffff]';
    -- Between the letters of a word that stand apart.
    apart constant text := '[ ._*~|()\u00b7-]{1,3}';
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
    if flat ~ unshown then
        if strpos(flat, E'\x1b') + strpos(flat, E'\u009b') + strpos(flat, E'\u009d') > 0 then
            flat := regexp_replace(
                flat,
                '\x1b(\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\x9c\n]*(\x07|\x1b\\|\x9c)?|[ -/]*[0-~]?)'
                '|\x9b[0-?]*[ -/]*[@-~]?|\x9d[^\x07\x1b\x9c\n]*(\x07|\x1b\\|\x9c)?',
                '', 'g');
        end if;
        flat := translate(flat, E'\x09\x0a\x0b\x0c\x0d\u0085\u2028\u2029', repeat(' ', 8));
        flat := regexp_replace(flat, unshown, '', 'g');
    end if;
    -- Code points that Unicode has not assigned: Postgres knows them from 17 on.
    if octet_length(flat) > length(flat) and to_regcollation('pg_catalog.pg_c_utf8') is not null then
        flat := regexp_replace(flat collate pg_catalog.pg_c_utf8, '[^[:print:][:space:]]', '', 'g')
            collate "default";
    end if;
    flat := btrim(regexp_replace(flat, '\s+', ' ', 'g'));
    form := case when octet_length(flat) > length(flat) then memoryd.looks_like(flat) else flat end;
    -- A marker whose letters stand apart ("C O N T E X T") as words: memory.text has the same.
    if strpos(lower(translate(form, ' ._*~|()·-', '')), 'context') > 0 then
        form := regexp_replace(
            regexp_replace(form, replace('\mc#o#n#t#e#x#t\M', '#', apart), 'context', 'gi'),
            replace('\m(?:e#n#d|s#t#a#r#t|b#e#g#i#n)#(?:o#f#)?(?:t#h#e#)?(?=context)', '#', apart),
            'end ', 'gi');
    end if;
    if form <> flat and form ~* marker then
        flat := form;
    end if;
    if strpos(lower(flat), 'context') > 0 then
        flat := regexp_replace(flat, marker, '[no marker] \3\7', 'gi');
    end if;
    return flat;
end
$$;
