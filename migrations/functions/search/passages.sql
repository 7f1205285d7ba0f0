-- What ranking asks of the candidates: read from their entries, or from rows that are not indexed yet.

-- Whether a row is one of those asked for: of this user (null: of any), only without an owner (p_unowned),
-- for this agent (null: for any). Inlined.
create or replace function memoryd.is_asked_for(
    p_owner uuid, p_for_agent text, p_is_current boolean, p_user uuid, p_unowned boolean, p_agent text)
returns boolean
language sql immutable parallel safe
return p_is_current
    and (p_user is null or p_owner = p_user)
    and (not p_unowned or p_owner is null)
    and (p_agent is null or p_for_agent is null or p_for_agent = p_agent);

-- Rows that are not indexed yet, since they were written a moment ago: 200, and of 4,000 that came with an
-- embedding the nearest 64; where rows are asked for by their ids, 1,000 of these. They are weighed here.
create or replace function memoryd.fresh_passages(p_request memoryd.search_request)
returns table (source text, id uuid, scope bigint, embedding vector, weights sparsevec, length integer,
               asks boolean, times datemultirange, owner_id uuid, agent_id text, is_current boolean,
               expires_at timestamptz, session_id uuid, "position" integer, speaker text, role text,
               created_at timestamptz, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    scopes constant bigint[] := p_request.scopes;
    sources constant text[] := p_request.sources;
    sought constant vector := p_request.embedding;
    groups constant bigint[] := p_request.groups;
    ids constant uuid[] := p_request.ids;
begin
    if not exists (select from memoryd.unindexed u
                   where (scopes is null or u.scope = any(scopes)) and u.source = any(sources)) then
        return;
    end if;
    return query
    with waiting as materialized (
        (select u.source, u.id, u.scope from memoryd.unindexed u
         where ids is null and (scopes is null or u.scope = any(scopes)) and u.source = any(sources)
           and memoryd.is_found_here(u.scope, case when u.source = 'knowledge' then u.scope end, scopes)
         limit 200)
        union
        (select u.source, u.id, u.scope
         from unnest(ids) as i(id)
         cross join unnest(scopes) as s(scope)
         cross join lateral (
             select t.* from memoryd.unindexed t where t.scope = s.scope and t.id = i.id
             offset 0) u
         where u.source = any(sources)
           and memoryd.is_found_here(u.scope, case when u.source = 'knowledge' then u.scope end, scopes)
         limit 1000)
        union
        (select g.source, g.id, g.scope
         from (select u.source, u.id, u.scope from memoryd.unindexed u
               where ids is null and u.given and (scopes is null or u.scope = any(scopes))
                 and u.source = any(sources) and sought is not null
                 and memoryd.is_found_here(
                     u.scope, case when u.source = 'knowledge' then u.scope end, scopes)
               limit 4000) g
         cross join lateral (
             select t.given_embedding from memoryd.searchable t where t.source = g.source and t.id = g.id
         ) r
         order by r.given_embedding <=> sought
         limit 64)
    ), fresh as materialized (
        select s.*, w.scope as found_in, left(s.searched_text, 8192) as text, row_number() over () as nth
        from (-- A message in a group waits in two scopes.
              select distinct on (n.source, n.id) n.* from waiting n
              order by n.source, n.id, n.scope = any(groups) desc) w
        cross join lateral (
            select t.* from memoryd.searchable t
            where t.source = w.source and t.id = w.id
              and memoryd.may_find(p_request, w.scope, t.owner_id, t.access_level, t.visibility_tags,
                                   t.row_metadata)
        ) s
    ), columns as (
        select array_agg(f.text order by f.nth) as texts from fresh f
    )
    select f.source, f.id, f.found_in, f.given_embedding, w.weights, w.length, memoryd.asks(f.text),
           memoryd.row_times(f.text, f.created_at, f.valid_from), f.owner_id,
           f.agent_id, f.is_current, f.expires_at, f.session_id, f.position, f.speaker, f.role, f.created_at,
           f.weight
    from columns c
    cross join lateral memoryd.weigh_passages(c.texts) w
    join fresh f on f.nth = w.nth;
end
$$;

-- The candidates: what ranking asks of them, numbered. Only those that are asked for: of this user (null: of
-- any), of these groups, or shared with this user; for this agent, with these metadata, in this project; and
-- of what others say in groups or share nothing of users who have switched memory off. meets: whether it
-- meets the conditions. A message that does not is no result, but its words count for the messages beside it.
-- rare: it has a word asked for that hardly any row has. Of such passages of memories the kind says only
-- which counts more than another: the heaviest counts whole.
create or replace function memoryd.read_passages(
    p_request memoryd.search_request, p_question memoryd.question, p_tids tid[])
returns table (number bigint, tid tid, source text, id uuid, weights sparsevec, rare boolean,
               similarity double precision, length integer, row_length integer, asks boolean,
               times datemultirange, session_id uuid, "position" integer, speaker text, role text,
               created_at timestamptz, weight double precision, meets boolean)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    sought constant halfvec := l2_normalize(p_request.embedding)::halfvec;
    rare_words constant sparsevec := (p_question).rare;
    groups constant bigint[] := p_request.groups;
    about constant uuid := p_request.about;
    -- Who may find what is shared is asked when it is looked for.
    about_shared constant uuid :=
        case when about is distinct from (p_request.reader).user_id then about end;
    wanted constant jsonb := p_request.filter;
    conditions constant memoryd.conditions := p_request.conditions;
    project constant text := conditions.project;
    scale constant record := memoryd.calibration();
begin
    return query
    select row_number() over (), r.tid, r.source, r.id, r.weights, h.rare,
           memoryd.calibrated(h.cosine, scale.background, scale.unit), r.length, r.row_length,
           r.asks, r.times, r.session_id, r.position, r.speaker, r.role, r.created_at,
           r.weight / case when h.rare and r.source = 'memory' then least(
               1, max(r.weight) filter (where h.rare and r.source = 'memory') over ()) else 1 end,
           memoryd.meets(conditions, r.created_at, r.session_id, r.position, r.role, r.speaker)
    from (select e.ctid as tid, e.source, e.id, e.scope, e.weights, e.embedding, e.length, e.row_length,
                 e.asks, e.times, e.owner_id,
                 e.agent_id, e.grants_metadata, e.is_current, e.expires_at, e.session_id, e.position,
                 e.speaker, e.role, e.created_at, e.weight::double precision as weight
          from memoryd.entries e
          where e.ctid = any(p_tids)
          union all
          select null, f.source, f.id, f.scope, f.weights, l2_normalize(f.embedding)::halfvec, f.length,
                 f.length, f.asks, f.times, f.owner_id, f.agent_id, '{}'::jsonb, f.is_current,
                 f.expires_at, f.session_id, f.position,
                 f.speaker, f.role, f.created_at, f.weight
          from memoryd.fresh_passages(p_request) f) r
    cross join lateral (select coalesce(r.weights <#> rare_words < 0, false) as rare,
                               1 - (r.embedding <=> sought) as cosine offset 0) h
    where memoryd.is_asked_for(
              r.owner_id, r.agent_id,
              case when conditions.as_of is null
                   then r.is_current and (r.expires_at is null or r.expires_at > now())
                   else memoryd.stood(
                       conditions, r.source, r.id, r.is_current, r.created_at, r.expires_at) end,
              case when r.scope = any(groups) then null when r.scope = 0 then about_shared else about end,
              p_request.unowned, p_request.agent)
      and ((r.scope <> 0 and r.scope <> all (groups)) or not memoryd.memory_is_off(r.owner_id))
      and memoryd.in_project(r.grants_metadata, project)
      and (project is null or r.source <> 'insight' or memoryd.drawn_in_project(
          (select i.source_memories from public.dream_insights i where i.id = r.id), project))
      and (wanted = '{}' or exists (
          select from memoryd.searchable s
          where s.source = r.source and s.id = r.id and s.metadata @> wanted));
end
$$;
