-- What recall finds for a task, as lines of a context: insights, memories, the team's knowledge, passages of
-- documents and turns of earlier conversations. compose.sql chooses among them.

-- How many characters a context may have: six for each word of the option, else of the setting context_words.
create or replace function memoryd.context_space(p_words integer) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select 6 * coalesce(p_words, memoryd.setting_integer('context_words'), 500) $$;

-- What recall found as a line: with its date, and of knowledge its tier and category, of a document its
-- title, of a turn who said it. p_words: those that were asked for. p_own: a turn of the agent that reads it.
create or replace function memoryd.passage_line(
    p_source text, p_metadata jsonb, p_content text, p_words text[], p_created_at timestamptz, p_trust text,
    p_own boolean)
returns text
language sql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select '- [' || case p_source
            when 'knowledge' then concat_ws(
                ', ', (p_metadata ->> 'tier') || '/' || memoryd.quoted(p_metadata ->> 'category', 40),
                case when p_metadata ->> 'confidence' <> 'high'
                     then (p_metadata ->> 'confidence') || ' confidence' end)
            when 'document' then coalesce(nullif(memoryd.named(p_metadata ->> 'title'), ''), 'untitled')
            else to_char(p_created_at at time zone 'utc', 'YYYY-MM-DD HH24:MI ')
                || coalesce(nullif(memoryd.named(p_metadata ->> 'speaker'), ''), p_metadata ->> 'role') end
        || '] ' || case when p_own and p_trust = 'agent' then '(said by you) '
                        else memoryd.origin_mark(p_trust, false) end
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
$$;

-- What recall found for a task: the rows of all sources that belong to it. p_explained: also those that do
-- not, with the reason. p_as: the user whose rights count; null: rows of nobody.
create or replace function memoryd.found_for_task(
    p_agent text, p_message text, p_as uuid, p_embedding vector, p_conditions memoryd.conditions,
    p_explained boolean)
returns setof memoryd.search_result
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    request memoryd.search_request;
begin
    request.query := p_message;
    request.agent := p_agent;
    request.about := p_as;
    request.on_behalf := p_as;
    request.embedding := p_embedding;
    request.count := 180;
    request.filter := '{}';
    request.conditions := p_conditions;
    request.explained := p_explained;
    request.by_kind := true;
    return query select r.* from memoryd.best_rows(request) r;
end
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
                       || memoryd.origin_mark(t.trust, m.agent_id = '_shared')
                       || memoryd.quoted(memoryd.excerpt(f.content, f.asked, 400), 400)
               when 'insight' then
                   '- (' || i.category || ', ' || to_char(i.confidence, 'FM0.00') || ') '
                       || memoryd.origin_mark(t.trust, i.agent_id = p_agent)
                       || memoryd.quoted(f.content, 300)
               else memoryd.passage_line(
                   f.source, f.metadata, f.content, f.asked, f.created_at, t.trust,
                   c.agent_id = p_agent) end,
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
        select t.agent_id from public.conversation_messages t
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
            else memoryd.trust_of_passage(f.source, f.metadata) end as trust offset 0) t
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
