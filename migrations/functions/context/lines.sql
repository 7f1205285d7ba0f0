-- What recall finds for a task, as lines of a context: insights, memories, the team's knowledge, passages of
-- documents and turns of earlier conversations (compose.sql chooses among them); and for a chatbot's prompt.

-- How many characters a context may have: six for each word of the option, else of the setting context_words.
create or replace function memoryd.context_space(p_words integer) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select 6 * coalesce(p_words, memoryd.setting_integer('context_words'), 500) $$;

-- What recall found as a line: with its date, and of knowledge its tier and category, of a document its
-- title, of a turn who said it. p_words: those that were asked for. p_mark: where it came from.
create or replace function memoryd.passage_line(
    p_source text, p_metadata jsonb, p_content text, p_words text[], p_created_at timestamptz, p_mark text)
returns text
language sql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select '- [' || case p_source
            when 'knowledge' then concat_ws(
                ', ', (p_metadata ->> 'tier') || '/' || memoryd.quoted(p_metadata ->> 'category', 40),
                case when p_metadata ->> 'confidence' <> 'high'
                     then (p_metadata ->> 'confidence') || ' confidence' end)
            when 'document' then coalesce(nullif(n.name, ''), 'untitled')
            else to_char(p_created_at at time zone 'utc', 'YYYY-MM-DD HH24:MI ')
                || coalesce(nullif(n.name, ''), p_metadata ->> 'role') end
        || '] ' || p_mark
        -- A note without a title of its own has the beginning of its text as one.
        || case when p_source = 'knowledge' and not starts_with(p_content, p_metadata ->> 'title')
                then memoryd.quoted(p_metadata ->> 'title', 100) || ': '
                else '' end
        || memoryd.quoted(memoryd.excerpt(p_content, p_words, 300), 300)
        -- Of a decision what came of it.
        || coalesce(' (outcome: ' || nullif(case when p_source = 'knowledge' then concat_ws(', ',
               case p_metadata -> 'outcome' -> 'success' when 'true' then 'success'
                                                         when 'false' then 'failure' end,
               -- "success", in which many writers repeat the flag, is said once.
               nullif(nullif(memoryd.quoted(p_metadata -> 'outcome' ->> 'result', 200), ''),
                      case p_metadata -> 'outcome' -> 'success' when 'true' then 'success'
                                                                when 'false' then 'failure' end),
               nullif(memoryd.quoted(p_metadata -> 'outcome' ->> 'notes', 100), '')) end, '') || ')', '')
    -- The name between the brackets has no bracket itself: what looked like a marker has become one in
    -- brackets.
    from (select translate(memoryd.quoted(translate(
              p_metadata ->> case p_source when 'document' then 'title' else 'speaker' end, '[]()<>', ''),
              60), '[]', '') as name) n
$$;

-- The entries that are of somebody or something that the message names (memoryd.names_of), the newest first;
-- then those whose titles have the name.
-- Of the caller's organisation alone, for the service alone; as the owner, as title_names()
-- (patterns/names.sql).
create or replace function memoryd.named_knowledge(p_names text[]) returns setof memoryd.search_result
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
    if p_names = '{}' or not memoryd.caller_is_service() then
        return;
    end if;
    return query
    select 'knowledge', s.id, s.content, 0.5::float8, null::float8, s.metadata, s.created_at, 0::float8,
           0::float8, 0::float8, 0::float8, 0::float8, 0::float8, 0.5::float8, 1::float8, 0::float8,
           0::float8, 0, null
    from (select f.id, min(f.rank) as rank
          from ((select k.id, 1 as rank from public.shared_knowledge k
                 where memoryd.names_of(k.tier, k.category, k.title, k.tags) && p_names
                   and k.tier <> 'learning' and k.status <> 'archived'
                   and k.org_id is not distinct from memoryd.caller_org()
                 limit 50)
                union all
                (select k.id, 2 from public.shared_knowledge k
                 where memoryd.capital_runs(k.title) && p_names and k.status <> 'archived'
                   and k.org_id is not distinct from memoryd.caller_org()
                 limit 50)) f
          group by f.id) k
    cross join lateral (
        select t.* from memoryd.source_knowledge t
        where t.id = k.id and t.is_current and (t.expires_at is null or t.expires_at > now()) offset 0) s
    order by k.rank, s.created_at desc, s.id
    limit 4;
end
$$;

-- Rows that recall found as lines, best first. p_scope: the scope of those of a user (null: of nobody). Of a
-- long text the best fifteen of a source show what was asked for; a context has room for ten.
create or replace function memoryd.lines_of(
    p_found memoryd.search_result[], p_agent text, p_message text, p_scope bigint)
returns setof memoryd.context_line
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    words constant text[] := tsvector_to_array(memoryd.lexemes_in(left(p_message, 8192), 'english'));
begin
    return query
    select f.source,
           case f.source when 'memory' then m.kind when 'insight' then i.category
                         when 'knowledge'
                             then (f.metadata ->> 'tier') || '/' || (f.metadata ->> 'category') end,
           f.id,
           coalesce(m.scope, i.scope, p_scope, memoryd.scope_of(
               null, case when f.source = 'conversation' then p_agent end)),
           f.score, f.created_at, t.trust,
           case when f.source = 'knowledge' then f.metadata ->> 'title' || ': ' else '' end || f.content,
           case f.source
               when 'memory' then
                   case when f.score >= 0.5 then '★ ' else '- ' end
                       || to_char(f.created_at at time zone 'utc', '[YYYY-MM-DD HH24:MI ') || m.kind || '] '
                       || memoryd.origin_mark(t.trust, m.agent_id, p_agent)
                       || memoryd.quoted(memoryd.excerpt(f.content, f.asked, 400), 400)
               when 'insight' then
                   '- (' || i.category || ', ' || to_char(i.confidence, 'FM0.00') || ') '
                       || memoryd.origin_mark(t.trust, case when exists (
                              select from public.agent_memory s
                              where s.id = any(i.source_memories) and s.agent_id = '_shared')
                              then '_shared' else i.agent_id end, p_agent)
                       || memoryd.quoted(f.content, 300)
               else memoryd.passage_line(
                   f.source, f.metadata, f.content, f.asked, f.created_at,
                   memoryd.origin_mark(
                       t.trust, coalesce(c.agent_id, f.metadata ->> 'created_by'), p_agent)) end,
           case when f.source in ('document', 'conversation') and btrim(f.content) = btrim(p_message)
                    then 'the message itself'
                when i.confidence < 0.4 then 'not sure enough'
                else f.left_out end
    from (select u.*, case when row_number() over (partition by u.source order by u.score desc) <= 15
                           then words end as asked
          from unnest(p_found) u) f
    -- Each is looked up by its id: a join of unknown size would read whole tables.
    left join lateral (
        select t.* from public.agent_memory t where t.id = f.id and f.source = 'memory' offset 0) m on true
    left join lateral (
        select t.* from public.dream_insights t where t.id = f.id and f.source = 'insight' offset 0) i on true
    left join lateral (
        -- Who names no agent is the session's, where no other speaks near it.
        select coalesce(t.agent_id, s.agent_id) as agent_id
        from public.conversation_messages t
        left join public.conversation_sessions s on s.id = t.session_id and not exists (
            select from public.conversation_messages o
            where o.session_id = s.id and o.agent_id <> s.agent_id
              and o.message_index between t.message_index - 20 and t.message_index + 20)
        where t.id = f.id and f.source = 'conversation' and t.role = 'assistant' offset 0) c on true
    cross join lateral (
        select case f.source
            when 'memory' then memoryd.trust_of_memory(m.user_id, m.agent_id, m.source, m.metadata, p_agent)
            when 'insight' then memoryd.trust_of_insight(
                i.user_id, i.agent_id, i.source_memories, p_agent,
                i.written_by is null and i.category in ('correction', 'pattern'))
            when 'knowledge' then memoryd.trust_of_knowledge(
                f.metadata ->> 'created_by', f.metadata ->> 'created_by_name', f.metadata ->> 'source',
                p_agent)
            else memoryd.least_trusted( -- a passage of a document, or a turn
                case when f.source = 'document' or f.metadata ->> 'role' = 'tool' then 'document'
                     when f.metadata ->> 'role' = 'assistant' then 'agent' else 'person' end,
                memoryd.claimed_trust(
                    coalesce(f.metadata ->> 'source', f.metadata ->> 'source_url'), f.metadata))
            end as trust offset 0) t
    order by f.score desc, f.created_at desc, f.id;
end
$$;

-- What is known of the user (memoryd.profile_of) as lines, the newest first, as far as the context has room.
-- Their source is `profile`.
create or replace function memoryd.profile_lines(
    p_agent text, p_message text, p_user uuid, p_conditions memoryd.conditions)
returns setof memoryd.context_line
language sql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select 'profile', l.kind, l.id, l.scope, l.score, l.created_at, l.trust, l.content, l.line, null
    from (select f.*, sum(length(f.line) + 1) over (order by f.nth) as used
          from memoryd.lines_of(
              array(select p from memoryd.profile_of(p_user, p_agent, p_conditions) p),
              p_agent, p_message, memoryd.scope_of(p_user, null)) with ordinality
              as f(source, kind, id, scope, score, created_at, trust, content, line, why, nth)) l
    where l.used <= memoryd.context_space(p_conditions.words) - 400
    order by l.nth
$$;

-- Whether two texts that have the same words also say the same: the same numbers in the same order, and as
-- many negations.
create or replace function memoryd.says_same(p_one text, p_other text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select btrim(regexp_replace(left(p_one, 2000), '[^0-9]+', ' ', 'g'))
             = btrim(regexp_replace(left(p_other, 2000), '[^0-9]+', ' ', 'g'))
       and regexp_count(left(p_one, 2000), n, 1, 'i') = regexp_count(left(p_other, 2000), n, 1, 'i')
    from (values ('\m(no|not|never|nobody|nothing|none|neither|nor|without|cannot'
                  '|nicht|kein\w*|nie|pas|jamais|nunca)\M|n[''’]t\M')) as v(n)
$$;

-- Which of these rows repeat one that stands before them. Two that are known do where their embeddings are
-- nearly the same, and they have the same words in the same order, but for inflections and words without a
-- meaning of their own. (Embeddings alone do not tell "Ann owes Bob" from "Bob owes Ann".) Of what happened
-- (p_kinds; null: it is known) outcomes do where they have the same words but for numbers, and errors also
-- where one has some more. Rows in scopes that are not the caller's are not compared.
create or replace function memoryd.repeats(
    p_sources text[], p_ids uuid[], p_scopes bigint[], p_kinds text[])
returns table (id uuid, of uuid)
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
    open constant bigint[] := case
        when caller.privileged then null
        when caller.user_id is null then '{}'
        else array[memoryd.scope_of(caller.user_id, null)] end;
begin
    return query
    with read as materialized (
        select g.nth, g.id, g.kind, e.embedding, e.lexemes
        from unnest(p_sources, p_ids, p_scopes, p_kinds) with ordinality
             as g(source, id, scope, kind, nth)
        cross join lateral (
            select t.embedding, t.lexemes from memoryd.entries t
            where t.scope = g.scope and t.id = g.id and t.source = g.source and t.passage = 0
              and t.code is not null
            offset 0) e
        where open is null or g.scope = any(open)
    ), pairs as materialized (
        select l.nth, e.nth as before
        from read e
        join read l on l.nth > e.nth and l.kind is not distinct from e.kind
            and e.embedding <=> l.embedding < case when l.kind is null then 0.1 else 0.3 end
    ), ordered as materialized (
        select r.nth, r.id, r.kind, string_agg(u.lexeme, ' ' order by p) as words,
               array_agg(distinct u.lexeme) filter (
                   where translate(u.lexeme, '0123456789.,-+', '') <> '') as named
        from read r
        cross join lateral unnest(r.lexemes) u
        cross join lateral unnest(u.positions) p
        where r.nth in (select p.nth from pairs p union all select p.before from pairs p)
        group by r.nth, r.id, r.kind
    )
    select distinct on (l.id) l.id, e.id
    from pairs p
    join ordered l on l.nth = p.nth
    join ordered e on e.nth = p.before
    where case when l.kind is null then e.words = l.words
               when l.named = e.named then true
               when l.kind <> 'error' then false
               when cardinality(l.named) < cardinality(e.named)
                   then l.named <@ e.named and cardinality(l.named) > 0.6 * cardinality(e.named)
               else e.named <@ l.named and cardinality(e.named) > 0.6 * cardinality(l.named) end
    order by l.id, p.before;
end
$$;

-- These lines, the best first, each with the reason where another says the same. Of what happened several
-- times the newest line stands for all, as good as the best of them, and says how often; nobody learns more
-- of the same task from the others. An insight stands for the memories that it was drawn from; one that a
-- rule wrote does not stand beside a newer line that stands for all of these.
create or replace function memoryd.single_lines(p_lines memoryd.context_line[])
returns setof memoryd.context_line
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    return query
    with given as materialized (
        select l.*, l.source = 'memory' and memoryd.kin_of(l.source, l.kind) = 'happened' as happened,
               concat(l.source = 'insight', btrim(regexp_replace(
                   lower(left(l.content, 2000)), '[\x01-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+', ' ', 'g'))) as key
        from unnest(p_lines) with ordinality
             as l(source, kind, id, scope, score, created_at, trust, content, line, why, nth)
    ), turns as materialized (
        select g.*, row_number() over (
                   order by case when g.happened then g.created_at end desc, g.nth) as turn
        from given g where g.why is null
    ), compared as materialized (
        select r.id, r.of
        from (select array_agg(t.source order by t.turn) as sources, array_agg(t.id order by t.turn) as ids,
                     array_agg(t.scope order by t.turn) as scopes,
                     array_agg(case when t.happened then t.kind end order by t.turn) as kinds
              from turns t
              -- Observations are told again: a similar one says that it was seen again.
              where t.source <> 'insight' and (t.source <> 'memory' or t.kind <> 'observation')) c
        cross join lateral memoryd.repeats(c.sources, c.ids, c.scopes, c.kinds) r
    ), said as materialized (
        -- The offset keeps texts from being compared that are no pair.
        select t.*, coalesce(
                   (select p.id
                    from (select o.id, o.content from compared c join given o on o.id = c.of
                          where c.id = t.id offset 0) p
                    where memoryd.says_same(
                        case when t.happened then split_part(p.content, E'\n', 1) else p.content end,
                        case when t.happened then split_part(t.content, E'\n', 1) else t.content end)),
                   first_value(t.id) over (partition by t.key, t.happened order by t.turn)) as of
        from turns t
    ), heads as materialized (
        select s.nth, s.happened, s.id, s.score, s.created_at, coalesce(o.of, s.of) as head
        from said s left join said o on o.id = s.of and o.of <> s.of
    ), judged as materialized (
        select s.nth, i.source_memories as drawn,
               coalesce(i.written_by is null and i.last_modified_human is null and (
                   select bool_and(h.head <> all (i.source_memories)) from heads h
                   where h.happened and h.id = any(i.source_memories)), false) as outdated
        from said s
        cross join lateral (select t.* from public.dream_insights t where t.id = s.id offset 0) i
        where s.source = 'insight' and s.of = s.id
    ), told as (
        select g.*, h.head, j.outdated,
               count(*) over w as times, min(h.created_at) over w as first_at, max(h.score) over w as best,
               h.happened and exists (
                   select from (select a.drawn from judged a where not a.outdated order by a.nth limit 3) c
                   where h.id = any(c.drawn)) as in_insight
        from given g left join heads h on h.nth = g.nth left join judged j on j.nth = g.nth
        window w as (partition by h.head)
    )
    select t.source, t.kind, t.id, t.scope, m.score, t.created_at, t.trust, t.content,
           case when m.times > 1 then overlay(t.line placing concat(
                    '] (', m.times, ' times since ', to_char(t.first_at at time zone 'utc', 'FMDD FMMonth'),
                    ') ') from strpos(t.line, '] ') for 2) else t.line end,
           coalesce(t.why, case
               when t.head <> t.id and t.happened then 'it has happened again since'
               when t.head <> t.id then 'said above'
               when t.outdated then 'it has happened again since'
               when t.in_insight then 'an insight says it' end)
    from told t
    cross join lateral (
        select case when t.happened and t.head = t.id then t.times else 1 end as times,
               case when t.happened and t.head = t.id then t.best else t.score end as score) m
    order by m.score desc, t.nth;
end
$$;

-- Which of these lines, the best first, stand in the context: those that do not say what another says, at
-- most three insights and ten of each other source, as many as p_space characters have room for. First comes
-- the best of each kind (memoryd.kin_of). Each further line of a source and kind counts a tenth less: so
-- none crowds out the others.
create or replace function memoryd.choose_lines(p_lines memoryd.context_line[], p_space integer)
returns setof memoryd.context_line
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    return query
    with kinds as (
        select l.*, row_number() over (partition by k.kin, l.why is null order by l.nth) as in_kin,
               row_number() over (partition by l.source, k.kin, l.why is null order by l.nth) - 1 as further
        from memoryd.single_lines(p_lines) with ordinality
             as l(source, kind, id, scope, score, created_at, trust, content, line, why, nth)
        cross join lateral (select memoryd.kin_of(l.source, l.kind) as kin) k
    ), ordered as (
        select k.*, row_number() over (partition by k.why is null order by k.in_kin > 1,
                                       k.score * 0.9 ^ k.further desc, k.nth) as in_all
        from kinds k
    ), ranked as (
        select p.*, coalesce(p.why, case
                   when row_number() over (partition by p.source, p.why is null order by p.in_all)
                        > case p.source when 'insight' then 3 else 10 end
                       then 'others are more relevant' end) as now_out
        from ordered p
    ), sized as (
        select r.*, sum(length(r.line) + 1) over (partition by r.now_out is null order by r.in_all) as used
        from ranked r
    )
    select s.source, s.kind, s.id, s.scope, s.score, s.created_at, s.trust, s.content, s.line,
           coalesce(s.now_out, case when s.used > p_space then 'no room' end)
    from sized s
    order by s.nth;
end
$$;

-- Whether a passage or a turn is shared with those whose access level is high enough.
create or replace function memoryd.has_access_level(p_source text, p_id uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (select from public.memory_chunks c
                   where c.id = p_id and p_source = 'document' and c.access_level is not null)
        or exists (select from public.conversation_messages m
                   where m.id = p_id and p_source = 'conversation' and m.access_level is not null)
$$;

-- What the prompt of a chatbot is told: what a recall finds and, where a service asks for a user, also
-- memories, insights and documents that belong to nobody and have no access level, as a context of this agent
-- has them. What says the same as something before comes once (memoryd.single_lines). The contents are
-- disarmed, and of all but pieces of conversations indented from the second line on, so that none can imitate
-- the beginning of another one. Only what is known of the user, which comes first, has `profile` in its
-- metadata.
create or replace function memoryd.search_prompt(p_request memoryd.search_request)
returns setof memoryd.search_result
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    whose constant uuid := coalesce(p_request.about, memoryd.caller_id());
    profile constant memoryd.search_result[] := array(
        select p from memoryd.profile_of(whose, p_request.agent, p_request.conditions) p);
    asked memoryd.search_request := p_request;
    found memoryd.search_result[];
    of_nobody memoryd.search_result[] := '{}';
    told uuid[];
begin
    asked.conditions.profile := null;
    -- More than are told, since copies fall away.
    asked.shown := p_request.count;
    asked.count := least(4 * p_request.count, 1000);
    found := array(select s from memoryd.search(asked) s);
    asked.agent := coalesce(p_request.agent, memoryd.app_agent_id());
    if p_request.about is not null and memoryd.caller_is_privileged()
       and not memoryd.memory_is_off(p_request.about) then
        asked.about := null;
        asked.sources := array(
            select n from unnest(coalesce(p_request.sources, memoryd.source_names())) n
            where n not in ('knowledge', 'conversation'));
        of_nobody := array(
            select s from memoryd.search(asked) s where not memoryd.has_access_level(s.source, s.id));
    end if;
    told := array(
        select s.id
        from memoryd.single_lines(array(
            select (l.source, l.kind, l.id, l.scope, l.score, l.created_at, l.trust, l.content, l.line,
                    -- What else does not belong was left out by the search, where that was asked for.
                    case when l.why in ('the message itself', 'not sure enough') then l.why end
                   )::memoryd.context_line
            from unnest(
                array(select o from memoryd.lines_of(
                    found, asked.agent, asked.query, memoryd.scope_of(whose, null)) o)
                || array(select o from memoryd.lines_of(of_nobody, asked.agent, asked.query, null) o)) l
            order by l.score desc, l.created_at desc, l.id)) s
        where s.why is null and not (s.source = 'memory' and exists (
            select from unnest(profile) p where p.id = s.id or lower(p.content) = lower(s.content))));
    return query
    select f.source, f.id,
           case when f.known or f.source = 'conversation' and p_request.around > 0 then f.text
                else regexp_replace(f.text, '[\x0a-\x0d\x85\u2028\u2029]+', E'\n    ', 'g') end,
           f.score, f.similarity, case when f.known then f.metadata else f.metadata - 'profile' end,
           f.created_at, f.lexical, f.dense, f.prior, f.named, f.timed, f.session, f.relevance, f.weight,
           f.recency, f.association, f.shares, f.left_out
    from (select r.*, memoryd.disarmed(r.content) as text, r.ordinality <= cardinality(profile) as known
          from unnest(profile || found || of_nobody) with ordinality r) f
    where f.known or f.id = any(told)
    order by f.known desc, f.score desc, f.ordinality
    limit p_request.count + cardinality(profile);
end
$$;
