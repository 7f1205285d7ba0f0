-- When a message needs memory: which of six patterns it shows, and so what of the team's knowledge is
-- searched for it. A message that shows none of them and is no small talk is a task, which is searched for
-- too.
--
-- Here and nowhere else: build_context() works without a daemon, and clients ask classify_message() in SQL.
-- A second implementation in Python would have to give the same answer for each message.

-- A message as its phrases are looked for: in lower case, words and marks of punctuation between single
-- blanks. Of a long message the beginning and the end. Without code and without lines that are quoted: they
-- are not what its writer says.
create or replace function memoryd.plain(p_message text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    said text := case when length(p_message) <= 3000 then p_message
                      else left(p_message, 2000) || ' … ' || right(p_message, 1000) end;
begin
    if strpos(said, '`') > 0 or strpos(said, '>') > 0 then
        said := regexp_replace(said, '```.*?(```|$)|`[^`\n]*`', ' ', 'g');
        said := regexp_replace(said, '(^|\n) *>[^\n]*', ' ', 'g');
    end if;
    said := translate(lower(said), '’‘´', '''''''');
    -- A long s, ligatures, letters of full width, accents of their own: as the letters that they stand for.
    if octet_length(said) > length(said) and said ~ '[\u017f\ufb00-\ufb06\uff01-\uff5e\u0300-\u036f]' then
        said := normalize(said, nfkc);
    end if;
    return regexp_replace(
        regexp_replace(' . ' || said || ' . ', '([.,;:!?…¿¡()"“”])', ' \1 ', 'g'), '\s+', ' ', 'g');
end
$$;

-- Whether a message is small talk: greetings, thanks, yes and no, signs, nothing at all. p_plain: from
-- memoryd.plain(). p_names: names in it, which are addressed by it ("Thanks, Tomas!"), unless a question
-- begins with one ("Thanks. And Acme?"). Where the message asks nothing, function words beside such a word
-- say nothing ("no it's fine"), and beside thanks, a greeting or laughter one other word, if no mark is
-- between them ("cheers mate", "haha geil"). p_names null: it must be small talk to the last word.
create or replace function memoryd.is_small_talk(p_plain text, p_names text[]) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    named constant text := '(' || (
        select string_agg(regexp_replace(n, '([^[:alnum:][:space:]])', '\\\1', 'g'), '|')
        from unnest(p_names) n) || ')';
    -- Letters and digits of any script: signs, as emojis are, say nothing.
    said constant text := '[[:alnum:]\u00c0-\u024f\u0370-\u1fff\u3040-\ud7af]';
    -- "heyyy" is "hey", "yesss" is "yes"; "kkk" and "www" are laughter.
    drawn text;
    rest text;
    taken text;
begin
    if length(p_plain) > 120 or p_plain ~ ('([.!?;:] |\mand )' || named || '\M[^.!?;:,]*[?]') then
        return false;
    end if;
    -- Of a short message only: the time that this takes grows with the cube of its length.
    drawn := regexp_replace(p_plain, '([a-gil-vx-z])\1{2,}', '\1', 'g');
    taken := regexp_replace(translate(drawn, '.,;:!?…¿¡()"“”', repeat(' ', 14)), '\s+', ' ', 'g');
    rest := regexp_replace(regexp_replace(taken, memoryd.phrases_of('greeting'), '', 'g'),
                           memoryd.phrases_of('small talk'), '', 'g');
    if rest <> taken and p_names <> '{}' then
        rest := regexp_replace(rest, '\m' || named || '\M', '', 'g');
    end if;
    if rest !~ said then
        return true;
    end if;
    -- Nearly all messages end here, which compiles no more patterns: Postgres keeps 32.
    if rest = taken or p_names is null or p_plain ~ '[?？]' or rest ~ '[0-9\u3040-\u9fff]'
       or rest ~ '\mwhat' and taken ~ '\m(today|tomorrow)\M' then
        return false;
    end if;
    return not exists (
        select from regexp_split_to_table(drawn, '[.,;:!…¿¡()"“”]') c(clause)
        cross join lateral (select regexp_replace(c.clause, memoryd.phrases_of('greeting'), '', 'g')) g(rest)
        cross join lateral (select regexp_replace(g.rest, memoryd.phrases_of('small talk'), '', 'g')) r(rest)
        cross join lateral (
            select telling as words
            from memoryd.words_of_question(btrim(r.rest), memoryd.language_of(c.clause))) t
        where r.rest ~ said
          and (r.rest = c.clause
               or t.words is not null and (g.rest = c.clause or btrim(r.rest) ~ ' ')));
end
$$;

-- What a message asks for by each pattern: of the team's knowledge these tiers, and of them these categories
-- (null: all). A task is searched for everywhere.
create or replace function memoryd.pattern_scopes()
returns table (pattern text, tier text, categories text[])
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
values
('decision', 'core', '{principle}'::text[]), ('decision', 'learning', '{decision}'),
('names', 'core', '{client}'), ('names', 'working', '{project}'),
('past', 'learning', null),
('planning', 'core', '{principle}'), ('planning', 'working', '{project}'),
('correction', 'core', null), ('correction', 'learning', '{correction}'),
('how-to', 'core', '{procedure}'),
('task', 'core', null), ('task', 'working', null), ('task', 'learning', null)
$$;

-- The patterns that a message shows: of the six, in their order, or task alone; none where it is small talk.
-- names: those in it that are known, as words in lower case. p_agent, p_user: whose memory the names are
-- looked up in.
create or replace function memoryd.patterns_of(
    p_message text, p_agent text, p_user uuid, out patterns text[], out names text[])
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
declare
    said constant text := memoryd.plain(p_message);
begin
    names := memoryd.known_names(p_message, said, p_agent, p_user);
    if memoryd.caller_is_privileged() then
        names := array(select n from unnest(names || memoryd.team_names(memoryd.word_runs(said), p_agent)) n
                       group by n order by n);
    end if;
    -- Each phrase is a constant of the plan: only so the expressions are compiled once.
    patterns := array_remove(array[
        case when said ~ memoryd.phrases_of('decision')
              and regexp_replace(said, memoryd.phrases_of('not decision'), ' ', 'g')
                  ~ memoryd.phrases_of('decision') then 'decision' end,
        case when names <> '{}' then 'names' end,
        case when said ~ memoryd.phrases_of('past')
              and regexp_replace(said, memoryd.phrases_of('not past'), ' ', 'g')
                  ~ memoryd.phrases_of('past') then 'past' end,
        case when said ~ memoryd.phrases_of('planning')
              and regexp_replace(said, memoryd.phrases_of('not planning'), ' ', 'g')
                  ~ memoryd.phrases_of('planning') then 'planning' end,
        case when said ~ memoryd.phrases_of('correction')
              and regexp_replace(said, memoryd.phrases_of('not correction'), ' ', 'g')
                  ~ memoryd.phrases_of('correction') then 'correction' end,
        case when said ~ memoryd.phrases_of('how-to')
              and regexp_replace(said, memoryd.phrases_of('not how-to'), ' ', 'g')
                  ~ memoryd.phrases_of('how-to') then 'how-to' end], null);
    if patterns <@ '{names}' and memoryd.is_small_talk(said, names) then
        patterns := '{}';
    elsif patterns = '{}' then
        patterns := '{task}';
    end if;
end
$$;

-- The words by which a message shows a pattern.
create or replace function memoryd.words_of(p_message text, p_pattern text, p_names text[]) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case p_pattern
        when 'names' then array_to_string(p_names, ', ')
        when 'task' then null
        else btrim(substring(
            regexp_replace(memoryd.plain(p_message), memoryd.phrases_of('not ' || p_pattern), ' ', 'g')
            from '(' || memoryd.phrases_of(p_pattern) || ')'), ' .,;:!?')
    end
$$;

create or replace function public.classify_message(message text)
returns table (pattern text, tier text, categories text[], words text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set max_parallel_workers_per_gather = 0
set jit = off
as $$
#variable_conflict use_column
declare
    shown constant record := memoryd.patterns_of(classify_message.message, null, null);
begin
    return query
    with words as materialized (
        select p as pattern, memoryd.words_of(classify_message.message, p, shown.names) as words
        from unnest(shown.patterns) p
    )
    select s.pattern, s.tier, s.categories, w.words
    from memoryd.pattern_scopes() with ordinality as s(pattern, tier, categories, nth)
    join words w on w.pattern = s.pattern
    order by s.nth;
end
$$;
comment on function public.classify_message(text) is
    'Whether a message needs memory: the patterns that it shows, each with what of shared_knowledge is '
    'searched for it (categories null: all). A row each; none: it is small talk.';
