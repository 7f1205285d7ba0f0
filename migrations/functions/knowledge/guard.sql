-- Share knowledge, not identity: what an agent keeps to itself is refused in shared_knowledge, with the
-- reason.

-- The kind of credential that a text holds; null: none. Only what has the form of one: a text about
-- credentials ("rotate the API key monthly") has none. The first 100,000 characters are looked at.
create or replace function memoryd.credential_in(p_text text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    text constant text := left(p_text, 100000);
    name constant text :=
        '(?:password|passwd|passphrase|passwort|pwd|secret|token'
        '|(?:api|access|account|auth|encryption|private|secret|shared|signing)[ _-]?key)';
    -- Looking ahead without an end would take the square of the time on a long text.
    mixed constant text :=
        '(?=[^\s"''`]{0,64}[0-9])(?=[^\s"''`]{0,64}[a-z])(?![0-9.,]{1,64}[a-z]{1,8}\M)[^\s"''`<>(){}$]';
    -- A value that manuals and code do not have there.
    said constant text :=
        '(?![[:alnum:]_]{1,64}[.(\[]|(?:changeme|disabled|enabled|encrypted|example|forgotten|incorrect'
        '|mandatory|mismatch|optional|password|placeholder|protected|required|undefined|x{4,})\M)'
        '[[:alnum:]][^\s"''`<>(){}$]{7}';
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
                     '|hooks\.slack\.com/services/[A-Za-z0-9/]{20}')
            then 'an API key'
        when text ~ ('\m[a-z][a-z0-9+]*://[^\s:/@]*:(?!(?:password|passwd|pass|pw|secret|xxx+|\*+|\.\.\.)@)'
                     '[^\s:/@<>${}]{3,}@')
            then 'a URL with a password'
        -- Asked first, since the others take long to prepare: few texts have this.
        when text ~* '(?:pass|pwd|secret|token|key|basic|bearer|mysql|mariadb|curl|identified)' then
            case when text ~* (
                     name || '(?:_[[:alnum:]_]{1,40})?["'']?(?:\s+is|\s*(?::?=|:|=>))\s*["''`]?'
                     || mixed || '{8}')
                 or text ~* ('(?:password|passwd|passphrase|kennwort|passwort)["'']?\s{0,3}[:=]\s{0,3}'
                             || said || '\S{0,40}\s*(?:$|[\n,;/])')
                 or text ~* (
                     name || '(?:_[[:alnum:]_]{1,40})?["'']?(?:=|\s*(?::?=|:|=>)\s*["''`])' || said)
                 or text ~* (
                     '\s--?[[:alnum:]-]{0,40}(?:passw(?:or)?d|passphrase|secret|token'
                     '|(?:api|access|secret)-key)[= ]["'']?' || mixed || '{6}'
                     '|authorization["'']?\s*:\s*["'']?(?:basic|bearer|token)\s+' || mixed || '{8}'
                     '|authorization["'']?\s*:\s*["'']?basic\s+[[:alnum:]+/]{8,}(?:=|[[:alnum:]+/]{8})'
                     '|\m(?:mysql|mariadb)[[:alnum:]-]{0,10}\M[^\n|;&]{0,200}\s-p["'']?[[:alnum:]]{4}'
                     '|\msshpass\s+-p\s*["'']?[[:alnum:]]{4}'
                     '|\mcurl\M[^\n|;&]{0,200}\s(?:-u|--user)[= ]?["'']?[^\s:"''$]{1,60}:[^\s"''$]{4}'
                     '|\midentified\s+by\s+''[^''$]{4,}''')
                 then 'a password or key' end
        end;
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
