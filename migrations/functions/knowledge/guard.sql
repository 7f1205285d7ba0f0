-- Share knowledge, not identity: what an agent keeps to itself is refused in shared_knowledge, with the
-- reason.

-- What says that a credential follows, with the first characters of one: names of it in a setting, a header
-- or a sentence, and commands that take one. As regular expressions, of any case.
create or replace function memoryd.credential_forms() returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    -- In the languages that passwords are told in.
    word constant text :=
        'pass(?:word|wd|phrase|wort|ord)|kennwort|contraseña|clave|mot de passe|senha|wachtwoord|parol[aă]'
        '|hasło|heslo|şifre|lösenord|adgangskode|salasana|jelszó|mật khẩu|κωδικός|пароль|密[码碼]|口令'
        '|パスワード|비밀번호|كلمة ال(?:مرور|سر)|סיסמ[הת]|पासवर्ड';
    name constant text := '(?:' || word || '|\m(?:pwd?|pass)|secret|token|(?:api|access|account|auth'
        '|encryption|private|secret|shared|signing)[ _-]?key)(?:_[[:alnum:]_]{1,40})?\\?["'']?\]?';
    says constant text :=
        '\*{0,2}(?:\s+(?:is|ist|est|es|è|é|to|lautet|was|war|je|er|är|on)\M:?|\s?[是为為は은는]'
        '|\s*(?::?=|[:：＝|]|=>))\*{0,2}\s*["''`]?';
    -- What has a letter and a digit. Looking ahead without an end would take the square of the time on a
    -- long text.
    one constant text := '[^\s"''`<>(){}$,;。]';
    mixed constant text :=
        '(?=[^\s"''`]{0,30}[0-9])(?=[^\s"''`]{0,30}[a-z])(?![/~]|[0-9.,]{1,30}[a-z]{1,8}\M)'
        || one || one || '{6}';
    -- A value that manuals and code do not have there.
    said constant text :=
        '(?![[:alnum:]_]{1,30}(?:[.][[:alnum:]]|[(\[])|(?:arguments?|changeme|disabled|enabled|encrypted'
        '|example|forgotten|incorrect|interactively|mandatory|mismatch|optional|parameters?|password'
        '|placeholder|protected|required|undefined|variables?|x{4,})\M)[[:alnum:]][^\s"''`<>(){}$]{7}';
begin
    return array[
        name || '(?:\s[[:alpha:]]+){0,4}' || says || mixed,
        name || '\s+(?:is|ist|est|es)\M(?::\s*|\s+["''`])' || said,
        '(?:' || word || ')["'']?\s{0,3}[:=]\s{0,3}' || said || '\S{0,40}\s*(?:$|[\n,;/])',
        name || '(?:=|\*{0,2}\s*(?::?=|:|=>)\*{0,2}\s*\\?["''`])' || said,
        '(?:key|secret|token)=["'']?' || mixed,
        '(?:["''_]pass|_pw|_secret|\mx-[a-z-]*(?:key|token))\\?["'']?\s*(?:[:=]|=>)\s*\\?["'']?' || said,
        '\s--?[[:alnum:]-]{0,40}(?:pass(?:w(?:or)?d|phrase)?|secret|token|(?:api|access|secret)[-_]key'
            '|pwd?)[= ]["'']?(?:' || mixed || '|' || said || ')',
        'authorization["'']?\s*:\s*["'']?(?:basic|bearer|token)\s+(?:' || mixed
            || '|[[:alnum:]+/]{8,}(?:=|[[:alnum:]+/]{8}))|bearer\s[[:alnum:]._-]{30}'
            '|cookie:\s*[[:alnum:]_.-]{1,60}=' || mixed || '|[?&](?:sig|auth)=[[:alnum:]%+/=]{16}'
            '|://(?=[^\s@/]{0,60}[0-9])[[:alnum:]_-]{20,}@',
        -- XML, PowerShell, functions, SQL
        '<[[:alnum:]_]*(?:password|passwd|secret|token|api_?key)>[^<$]{4}'
            '|securestring\s(?:-string\s)?["''][^"''$]{4}'
            '|(?:key|name)=["''][^"'']*(?:password|secret|token|key)["'']\s+value=["''][^"''$]{4}'
            '|(?:set|put)env\(["''][[:alnum:]_]*(?:password|secret|token|key)["''],\s?["''][^"''$]{4}'
            '|\midentified\s+by\s+(?:["''][^"''$]{4}|' || mixed || ')'
            '|\mpassword(?:\s+for\s[^\n=]*=)?\s+''[^''$]{4}',
        -- Sentences
        '\mcredentials?(?:\sare)?:?\s[[:alnum:]_.@-]{1,60}\s?[/:]\s?' || mixed
            || '|\m(?:log|sign)\s?in\s(?:with|as|using)\s[[:alnum:]_.@-]{1,60}:[^\s/"''][^\s"'']{3}'
            '|\m(?:log|sign)\s?in\sas\s\S{1,60}\s(?:with|and)\s' || mixed || '|\m(?:auth|pw)\s' || mixed
            || '|user(?:name)?:?\s[^\s,]{1,60},?\spass(?:word)?:?\s' || mixed
            || '|пароль\s\w{1,3}\s\w{1,20}\s' || mixed
            || '|\s/\s' || mixed || one || '*\sto\s(?:log|sign)\s?in\M']
        || memoryd.credential_commands(mixed);
end
$$;

-- The same of commands that are given one. p_mixed: what has a letter and a digit.
create or replace function memoryd.credential_commands(p_mixed text) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    rest constant text := '\M[^\n|;&]*\s';
begin
    return array[
        '\m(?:mysql|mariadb)[[:alnum:]-]*' || rest || '-p["'']?[[:alnum:]]{4}'
            '|\m(?:sshpass|7z)' || rest || '-p\s*["'']?[[:alnum:]]{4}'
            '|\m(?:curl|http)' || rest
            || '-(?:[a-z]{0,8}u|a|-(?:proxy-)?user)[= ]?["'']?[^\s:"''$]{1,60}:[^\s"''$]{4}'
            '|\mcurl' || rest || '(?:-b|--cookie)[= ]["'']?[^\s="'';]{1,60}=' || p_mixed
            || '|\m(?:sqlplus|sqlcl|expdp|impdp|sqlldr)' || rest || '[[:alnum:]_$#]{1,60}/[^\s@/"'']{4}'
            '|jdbc:oracle:[a-z]+:[^\s/@]{1,60}/[^\s@]{4}'
            '|\mlftp' || rest || '-u\s*["'']?[^\s,"'']{1,60},[^\s"'']{4}',
        '\msnmp[a-z]+' || rest || '-[AX]\s?["'']?[^\s"'']{8}'
            '|\m(?:redis-cli' || rest || '-a|ldap[a-z]+' || rest || '-w|openssl\s+enc' || rest || '-k'
            '|ssh-keygen' || rest || '-N|useradd' || rest || '-p'
            '|(?:sqlcmd|bcp|(?:un)?zip|mosquitto_[a-z]+|ipmitool)' || rest || '-P'
            '|(?:mongo[a-z]*|cqlsh|az|ncftp[a-z]*|crackmapexec|nxc|evil-winrm|twine'
            '|(?:docker|podman|registry)\s+login)' || rest || '-p)\s+["'']?[[:alnum:]][^\s"'']{5}'
            '|\msmbclient' || rest || '-U\s*[^\s%]{1,60}%[^\s]{4}'
            '|\mhtpasswd\s+-[a-z]*b[a-z]*\s+\S+\s+\S+\s+\S{4}'
            '|\mnet\s+user?\s[^\n]*\s[^\s/\\]{6,}\s+/(?:user:|add)|\s/p(?:ass)?:[^\s"'']{6}'
            '|-pass(?:in|out)?\s+pass:\S{4}|--from-literal[= ]["'']?[[:alnum:]_.-]{1,60}=[^\s"'']{6}',
        '[[:alnum:]_.-]{1,60}[/\\][[:alnum:]_.-]{1,60}:[^\s@:/"'']{3,100}["'']?@(?!sha)'
            '|\m(?:echo|printf)\s+["'']?[^\s"''|$]{4,}["'']?\s*\|\s*'
            '(?:sudo\s[^\n]*-S\M|(?:sudo\s)?(?:ch)?passwd)'
            '|\mpasswd\M[^\n]*<<<\s?\S{4}|password-command[= ]["'']?echo\s'
            '|\m(?:wpa_passphrase\s+\S+|nmcli\s[^\n]*\spassword|rclone\s+obscure|vault\s+login|requirepass'
            '|rootpw(?:\s+--[a-z]+)?|[a-z]+_pw|login\s+\S+\s+password)\s+["'']?(?!directive|is\M)[^\s"'']{6}'
            '|\m(?:env|setx|set|create\s[^\n]*)\s+\S*(?:key|token|secret|password)\s+' || p_mixed];
end
$$;

-- The kind of credential that a text holds; null: none. Only what has the form of one: a text about
-- credentials ("rotate the API key monthly") has none. The first 100,000 characters are looked at.
create or replace function memoryd.credential_in(p_text text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    text constant text := left(p_text, 100000);
begin
    return case
        when text ~ '-----BEGIN [A-Z0-9 ]*PRIVATE KEY' then 'a private key'
        when text ~ '\m(?:AKIA|ASIA)[A-Z0-9]{16}\M' then 'an AWS access key'
        when text ~ '\m(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40}|glpat-[A-Za-z0-9_-]{20})'
            then 'an access token of a code host'
        when text ~ '\msk-(?:ant-|proj-)?[A-Za-z0-9_-]{20}' and text ~ '\msk-[A-Za-z_-]*[A-Za-z0-9]*[0-9]'
            then 'an API key'
        when text ~ '\m[sr]k_(?:live|test)_[A-Za-z0-9]{16}' then 'a key of a payment service'
        when text ~ '\mxox[abeoprs]-[A-Za-z0-9-]{10}' then 'a token of a chat service'
        when text ~ '\mAIza[A-Za-z0-9_-]{35}' then 'an API key'
        when text ~ '\mSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16}' then 'a key of a mail service'
        when text ~ '\m(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50}|hf_[A-Za-z0-9]{30})'
            then 'a token of a package or model registry'
        when text ~ '\meyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8}' then 'a signed token'
        when text ~ ('\m(?:hvs\.|dop_v1_|xapp-|AGE-SECRET-KEY-|whsec_|shpat_|gsk_|GOCSPX-|ya29\.|dckr_pat_)'
                     '[A-Za-z0-9_-]{20}|\m[0-9]{8,10}:[A-Za-z0-9_-]{35}'
                     '|hooks\.slack\.com/services/[A-Za-z0-9/]{20}'
                     '|\m(?:NRAK|PMAK|CFPAT|pplx|tvly|nfp|sbp|glptt|sq0[a-z]{3})[-_][A-Za-z0-9-]{20}'
                     '|\mLTAI[A-Za-z0-9]{16}')
            then 'an API key'
        when text ~ ('\m[a-z][a-z0-9+]*://[^\s:/@]*:(?!(?:password|passwd|pass|pw|secret|xxx+|\*+|\.\.\.)@)'
                     '[^\s:/@<>${}]{3,}@')
            then 'a URL with a password'
        -- Asked first, since the others take long to prepare: few texts have this.
        when text ~* ('pass|\mpwd?\M|_pw|secret|token|key|basic|bearer|cookie|\mauth|credential|identified'
                      '|(?:log|sign).?in\M|mysql|mariadb|curl|http -|sqlplus|sqlcl|[ei]mpdp|expdp|sqlldr|jdbc'
                      '|lftp|snmp|redis|ldap|openssl|sqlcmd|\mbcp|zip|mosquitto|ipmi|useradd|mongo|cqlsh'
                      '|\maz\M|ncftp|mapexec|nxc|winrm|twine|smbclient|\mnet use|/p:|literal|@|sudo|rclone'
                      '|7z|rootpw|vault|[?&]sig=|securestring|kennwort|contraseña|clave|senha|wachtwoord'
                      '|parol|has[lł]o|heslo|şifre|lösenord|adgangskode|salasana|jelszó|mật khẩu|κωδικός'
                      '|пароль|密|口令|パスワード|비밀번호|كلمة|סיסמ|पासवर्ड')
             and text ~* any (memoryd.credential_forms()) then 'a password or key' end;
end
$$;

-- What of an entry an agent keeps to itself: what it is called, and why; null: nothing. The category, some
-- tags and the beginning of the title tell; and credentials are found in the text itself.
create or replace function memoryd.private_part(p_category text, p_title text, p_content text, p_tags text[])
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    -- The category says what an entry is. A tag may also say what it is about: research findings about mood
    -- or reasoning are knowledge. So of tags only those count that mean nothing but what is private.
    category constant text := lower(btrim(p_category));
    labels constant text[] := array(
        select lower(btrim(l)) from unnest(p_tags[:100] || array[p_category]) as l(l));
begin
    return case
        when labels && '{soul,soul.md}' or category in ('identity', 'persona', 'personality')
             or p_title ~* '^\W*(?:soul|identity)(?:\.md\M|\W*$)'
             or p_content ~* '^\W*soul\.md\M' or p_content ~* '^\s*#\s*soul\s*(?:\n|$)'
            then 'who an agent is (identity)'
        when labels && '{draft,drafts,wip}' or p_title ~* '^\W*(?:draft|wip)\s*[]:)–—-]' then 'a draft'
        when labels && '{rapport,emotional-context}' or category in ('emotional', 'mood')
            then 'rapport with a user'
        when labels && '{reasoning-trace,chain-of-thought,scratchpad}'
             or category in ('reasoning', 'thoughts')
             or p_content ~* '<(?:thinking|think|scratchpad)>' then 'a trace of reasoning'
        else coalesce(memoryd.credential_in(p_title), memoryd.credential_in(p_content),
                      memoryd.credential_in(array_to_string(p_tags[:100], E'\n')))
        end;
end
$$;

-- Refuses an entry that has such a part, unless it is one that an export brings back.
create or replace function memoryd.guard_knowledge() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    part constant text := memoryd.private_part(new.category, new.title, new.content, new.tags);
begin
    if part is not null and not memoryd.importing() then
        raise exception 'this entry holds %: that is not shared', part
            using errcode = 'check_violation',
                  hint = case when part ~ '(key|token|password)'
                              then 'Every agent of the team reads shared_knowledge. Keep it in your secret '
                                   'store, say here only where it is kept, and replace it if it was shown '
                                   'to anyone.'
                              else 'Share knowledge, not identity: keep it in the agent''s own agent_memory, '
                                   'and share here what was learned from it.' end;
    end if;
    return new;
end
$$;
