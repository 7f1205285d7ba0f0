-- What recall finds for a task beside memories, as lines of a context: the team's knowledge, passages of
-- documents and turns of earlier conversations.

-- What recall found as a line: with its date, and of knowledge its tier and category, of a document its
-- title, of a turn who said it.
create or replace function memoryd.passage_line(
    p_source text, p_metadata jsonb, p_content text, p_created_at timestamptz, p_trust text) returns text
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
        || '] ' || memoryd.origin_mark(p_trust)
        -- A note without a title of its own has the beginning of its text as one.
        || case when p_source = 'knowledge' and not starts_with(p_content, p_metadata ->> 'title')
                then memoryd.quoted(p_metadata ->> 'title', 100) || ': '
                else '' end
        || memoryd.quoted(p_content, 300)
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

-- Whether these sources have anything in these scopes that the caller may find. It keeps contexts quick where
-- there is nothing but memories.
create or replace function memoryd.has_rows(
    p_agent text, p_user uuid, p_sources text[], p_as uuid default null) returns boolean
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    caller memoryd.caller := memoryd.current_caller();
    open bigint[];
begin
    if p_as is not null and caller.is_service then
        caller := (p_as, false, false)::memoryd.caller;
    end if;
    if not caller.privileged and caller.user_id is null then
        return false;
    end if;
    open := memoryd.open_scopes(caller, (memoryd.scopes_asked(caller, p_agent, p_user)).scopes);
    -- What others share is neither counted nor looked at for an end user: whether there is any would be told.
    -- To a user for whom a service asks, something is shared.
    if 0 = any(open) and not caller.privileged
       or caller.privileged and p_user is not null and memoryd.has_shared(p_user) then
        return true;
    end if;
    return exists (
        select from unnest(open) as o(scope)
        cross join unnest(p_sources) as s(source)
        cross join lateral (
            (select from memoryd.scope_statistics t where t.scope = o.scope and t.source = s.source limit 1)
            union all
            (select from memoryd.unindexed u where u.scope = o.scope and u.source = s.source limit 1)
        ) r);
end
$$;

-- The rows that recall finds in these sources, that are relevant and may be shown here: for an end user all
-- that they may read; for a service that works for a user (p_as) the same; else what belongs to nobody.
create or replace function memoryd.found_passages(
    p_agent text, p_message text, p_as uuid, p_embedding vector, p_sources text[],
    p_conditions memoryd.conditions default null)
returns table (source text, id uuid, score double precision, created_at timestamptz, content text,
               metadata jsonb)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
    request memoryd.search_request;
begin
    request.query := p_message;
    request.agent := p_agent;
    request.on_behalf := p_as;
    request.embedding := p_embedding;
    request.count := 120;
    -- The team's knowledge is not for end users.
    request.sources := array_remove(p_sources, case when not caller.privileged then 'knowledge' end);
    request.filter := '{}';
    request.conditions := p_conditions;
    if not memoryd.has_rows(p_agent, null, request.sources, p_as) then
        return;
    end if;
    return query
    with found as materialized (
        select f.source, f.id, f.relevance * f.weight as score, f.created_at
        from memoryd.find(request) f
        where f.relevance >= 0.25
    )
    select f.source, f.id, f.score, f.created_at, s.content, s.metadata
    from found f
    join memoryd.show_rows(caller, array(select k.source from found k order by k.id),
                           array(select k.id from found k order by k.id)) s
        on s.id = f.id and s.source = f.source
    order by f.score desc, f.created_at desc, f.id;
end
$$;

-- The entries that are of somebody or something that the message names (memoryd.names_of), the newest first;
-- then those whose titles have the name.
-- Of the caller's organisation alone: for callers who name none, row-level security shows those of all.
create or replace function memoryd.named_knowledge(p_names text[])
returns table (source text, id uuid, score double precision, created_at timestamptz, content text,
               metadata jsonb)
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    if p_names = '{}' or not memoryd.caller_is_privileged() then
        return;
    end if;
    return query
    select 'knowledge', s.id, 0.5::float8, s.created_at, s.content, s.metadata
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
        select t.* from memoryd.source_knowledge t where t.id = k.id and t.is_current offset 0) s
    order by k.rank, s.created_at desc, s.id
    limit 4;
end
$$;

-- Knowledge, documents and turns for a task, best first, with `why` for what is left out by what it is. For a
-- user: what the user may read, and (without p_only_user) what belongs to nobody and has no access level.
-- p_patterns: what of the knowledge is asked for (memoryd.pattern_scopes), beside what says one of p_names.
-- p_enough: the agent's own memories say enough, so that of knowledge only the agent's own is added.
-- p_conditions: which turns are left out, as those of the conversation that is going on. Turns of
-- conversations are not searched for a bare task: what it needs was done or noted before, and what was only
-- said is for who refers to it.
create or replace function memoryd.passage_lines(
    p_agent text, p_message text, p_user uuid, p_only_user boolean, p_embedding vector, p_patterns text[],
    p_names text[], p_enough boolean, p_conditions memoryd.conditions default null)
returns setof memoryd.context_line
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    sources constant text[] := array_remove(
        array['document', case when p_patterns <> '{task}' then 'conversation' end], null);
    named constant text := '\m(' || (
        select string_agg(replace(regexp_replace(n, '([^[:alnum:] ])', '\\\1', 'g'), ' ', '\s+'), '|')
        from unnest(p_names) n) || ')\M';
begin
    if p_user is not null then
        return query
        select f.source, null, f.id, memoryd.scope_of(p_user, null), f.score, f.created_at, t.trust,
               f.content,
               memoryd.passage_line(f.source, f.metadata, f.content, f.created_at, t.trust),
               case when btrim(f.content) = btrim(p_message) then 'the message itself' end
        from memoryd.found_passages(
            p_agent, p_message, p_user, p_embedding, sources, p_conditions) f
        cross join lateral (
            select memoryd.trust_of_passage(f.source, f.metadata) as trust offset 0) t;
    end if;
    if not p_only_user then
        return query
        -- Knowledge and what is shared are in scope 0, the agent's own turns in its own.
        select f.source, k.category, f.id,
               memoryd.scope_of(null, case when f.source = 'conversation' then p_agent end),
               f.score, f.created_at, t.trust, coalesce(k.title || ': ', '') || f.content,
               memoryd.passage_line(f.source, f.metadata, f.content, f.created_at, t.trust),
               case when f.source <> 'knowledge' then
                         case when btrim(f.content) = btrim(p_message) then 'the message itself' end
                    when k.id is null or k.expires_at < now() then 'expired'
                    when lower(k.title || ' ' || f.content) !~ coalesce(named, '^\M') and not exists (
                        select from memoryd.pattern_scopes() s
                        where s.pattern = any(p_patterns) and s.tier = k.tier
                          and (s.categories is null or k.category = any(s.categories)
                               or rtrim(k.category, 's') = any(s.categories)))
                        then 'not asked for by the pattern'
                    when p_enough and k.created_by <> p_agent then 'own memories say enough' end
        from (select distinct on (b.source, b.id) b.*
              from (select * from memoryd.found_passages(
                        p_agent, p_message, null, p_embedding, '{knowledge}' || sources, p_conditions)
                    union all
                    select * from memoryd.named_knowledge(p_names)) b
              order by b.source, b.id, b.score desc) f
        left join public.shared_knowledge k on f.source = 'knowledge' and k.id = f.id
        left join public.memory_chunks c on f.source = 'document' and c.id = f.id
        left join public.conversation_messages m on f.source = 'conversation' and m.id = f.id
        cross join lateral (
            select case when f.source = 'knowledge'
                        then memoryd.trust_of_knowledge(k.created_by, k.created_by_name, k.source, p_agent)
                        else memoryd.trust_of_passage(f.source, f.metadata) end as trust offset 0) t
        -- What has an access level and is open to the user was found above.
        where p_user is null or coalesce(c.access_level, m.access_level) is null;
    end if;
end
$$;
