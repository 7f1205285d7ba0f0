-- What a recall has brought is logged in memory_queries, as what contexts bring is: so it can be judged
-- (mark_useful), and what is used is known to be used.

-- Logs a recall by the caller, and remembers the id of its row for last_recall(). In a read-only transaction,
-- and for support, which writes nothing, nothing is logged.
create or replace function memoryd.log_recall(
    p_request memoryd.search_request, p_found memoryd.search_result[])
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    asked constant text[] := public.extract_keywords(left(p_request.query, 8192));
    agent constant text := memoryd.one_line(left(p_request.agent, 200));
    memories uuid[];
    scores double precision[];
    knowledge uuid[];
    insights uuid[];
    made uuid;
begin
    if current_setting('transaction_read_only') = 'on'
       or (caller.privileged and not caller.is_service)
       or (not caller.privileged and caller.user_id is null) then
        return;
    end if;
    select coalesce((array_agg(f.id order by f.nth) filter (where f.source = 'memory'))[:1000], '{}'),
           coalesce((array_agg(f.score order by f.nth) filter (where f.source = 'memory'))[:1000], '{}'),
           coalesce((array_agg(f.id order by f.nth) filter (where f.source = 'knowledge'))[:1000], '{}'),
           coalesce((array_agg(f.id order by f.nth) filter (where f.source = 'insight'))[:1000], '{}')
    into memories, scores, knowledge, insights
    from (select r.source, r.id, r.score, row_number() over () as nth from unnest(p_found) r) f;
    if knowledge = '{}' then
        insert into public.memory_queries (
            agent_id, user_id, task_keywords, retrieved_memory_ids, relevance_scores, insight_ids)
        values (agent, case when caller.privileged then p_request.about else caller.user_id end, asked,
                memories, scores, insights)
        returning id into made;
    else
        insert into public.memory_queries (
            agent_id, user_id, task_keywords, retrieved_memory_ids, relevance_scores, insight_ids,
            knowledge_ids)
        values (agent, p_request.about, asked, memories, scores, insights, knowledge)
        returning id into made;
    end if;
    perform set_config('memoryd.last_recall', coalesce(made::text, ''), false);
end
$$;

-- Where an end user writes a retrieval, only the ids of their own memories and insights are kept: ids of
-- other users' rows and ids of no row are dropped alike. So no row of one user names a row of another, and a
-- row that one user has locked by judging it does not delay the other user's erasure.
create or replace function memoryd.keep_own_retrieved() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Lists that are too long are refused by their checks.
    if greatest(cardinality(new.retrieved_memory_ids), cardinality(new.relevance_scores),
                cardinality(new.insight_ids)) > 1000 then
        return new;
    end if;
    select coalesce(array_agg(r.id order by r.nth)
                        filter (where r.nth <= cardinality(new.retrieved_memory_ids)), '{}'),
           coalesce(array_agg(r.score order by r.nth)
                        filter (where r.nth <= cardinality(new.relevance_scores)), '{}')
    into new.retrieved_memory_ids, new.relevance_scores
    from unnest(new.retrieved_memory_ids, new.relevance_scores) with ordinality as r(id, score, nth)
    where exists (select from public.agent_memory m where m.id = r.id and m.user_id = new.user_id);
    new.insight_ids := array(
        select r.id from unnest(new.insight_ids) with ordinality as r(id, nth)
        where exists (select from public.dream_insights i where i.id = r.id and i.user_id = new.user_id)
        order by r.nth);
    return new;
end
$$;

-- With the caller's rights: behind a pooler the connection's last recall may have been somebody else's.
create or replace function public.last_recall() returns uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select q.id from public.memory_queries q
    where q.id = nullif(current_setting('memoryd.last_recall', true), '')::uuid
$$;
comment on function public.last_recall() is
    'The row of memory_queries that the last recall of this connection has written, for mark_useful(); '
    'null where the caller may not read it.';
