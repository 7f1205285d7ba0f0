-- What may stand in a context, as lines: insights and memories with their scores. What recall finds beside
-- them is in passages.sql; compose.sql chooses.

-- Insights that are relevant to the task, best first.
create or replace function memoryd.insight_lines(
    p_agent text, p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector, p_project text)
returns setof memoryd.context_line
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    with known as materialized (
        select d.*
        from public.dream_insights d
        where (d.agent_id = p_agent or d.agent_id is null)
          and (d.user_id = p_user or (not p_only_user and d.user_id is null))
          and d.confidence >= 0.4
    ), alike as materialized (
        select s.*
        from memoryd.similarities(
            'insight', array(select k.id from known k),
            memoryd.scopes_of(array[p_agent, '_shared'], p_user, p_only_user), p_embedding) s
    ), best as materialized (
        select d.*, d.confidence * r.relevance as rank
        from known d
        left join alike s on s.id = d.id
        cross join lateral (
            select memoryd.relevance((select count(*) from unnest(p_asked) k where k = any(d.keywords)),
                                     cardinality(p_asked), s.similarity) as relevance
        ) r
        where r.relevance > 0.1
          and memoryd.drawn_in_project(d.source_memories, p_project)
        order by rank desc
        limit 10
    )
    select 'insight', b.category, b.id, b.scope, b.rank, b.generated_at, t.trust, b.insight,
           '- (' || b.category || ', ' || to_char(b.confidence, 'FM0.00') || ') '
               || memoryd.origin_mark(t.trust) || memoryd.quoted(b.insight, 300),
           null
    from best b
    cross join lateral (
        select memoryd.trust_of_insight(b.user_id, b.agent_id, b.source_memories, p_agent) as trust
        offset 0) t
    order by b.rank desc, b.insight;
end
$$;

-- Memories of any age that the indexes find. It finds none where there are at most 250 memories: these are
-- all among the newest, which are scored in any case.
create or replace function memoryd.older_memories(
    p_agent text, p_message text, p_user uuid, p_only_user boolean, p_embedding vector, p_project text)
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    scopes bigint[] := '{}';
begin
    if p_user is not null then
        scopes := array[memoryd.scope_of(p_user, null)];
    end if;
    if not p_only_user then
        scopes := scopes || memoryd.scope_of(null, p_agent) || memoryd.scope_of(null, '_shared');
    end if;
    if memoryd.rows_in(scopes, 'memory') <= 250 then
        return '{}';
    end if;
    return memoryd.candidate_memories(p_message, scopes, p_embedding, 40, p_project);
end
$$;

-- The memories that are best for the task, best first: twice as many as a context has, since some may repeat
-- others.
create or replace function memoryd.memory_lines(
    p_agent text, p_user uuid, p_only_user boolean, p_asked text[], p_embedding vector, p_older uuid[],
    p_project text)
returns setof memoryd.context_line
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select 'memory', s.kind, s.id, t.scope, s.score, s.created_at, t.trust, s.content,
           case when s.score >= 0.5 then '★ ' else '- ' end
               || to_char(s.created_at at time zone 'utc', '[YYYY-MM-DD HH24:MI ') || s.kind || '] '
               || memoryd.origin_mark(t.trust) || memoryd.quoted(s.content, 400),
           null
    from memoryd.score_memories(
        array[p_agent, '_shared'], p_user, p_only_user, p_asked, p_embedding, 250, 20, p_older,
        p_project) s
    cross join lateral (
        -- Because of the offset each is looked up by its id, and not all rows are read to be joined.
        select m.scope,
               memoryd.trust_of_memory(m.user_id, m.agent_id, m.source, m.metadata, p_agent) as trust
        from public.agent_memory m where m.id = s.id
        offset 0) t
    order by s.score desc, s.created_at desc, s.id;
end
$$;
