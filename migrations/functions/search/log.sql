-- What a recall or a context has brought is logged in memory_queries: so it can be judged (mark_useful), and
-- what is used is known to be used. Uses are counted later and in batches, since an update of the entry in
-- each context would make contexts wait for each other.

-- Logs a retrieval in memory_queries, where it can be judged (mark_useful), and returns its id. Columns: the
-- source, the id and the score of each row that was found. p_reason: why nothing was searched. Null in a
-- read-only transaction. End users have no right to say which knowledge was used: none is shown to them.
create or replace function memoryd.log_retrieval(
    p_agent text, p_user uuid, p_command uuid, p_asked text[], p_patterns text[], p_reason text,
    p_sources text[], p_ids uuid[], p_scores double precision[]) returns uuid
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    memories uuid[];
    scores double precision[];
    knowledge uuid[];
    insights uuid[];
    made uuid;
begin
    if current_setting('transaction_read_only') = 'on' then
        return null;
    end if;
    select coalesce((array_agg(f.id order by f.nth) filter (where f.source = 'memory'))[:1000], '{}'),
           coalesce((array_agg(f.score order by f.nth) filter (where f.source = 'memory'))[:1000], '{}'),
           coalesce((array_agg(f.id order by f.nth) filter (where f.source = 'knowledge'))[:1000], '{}'),
           coalesce((array_agg(f.id order by f.nth) filter (where f.source = 'insight'))[:1000], '{}')
    into memories, scores, knowledge, insights
    from unnest(p_sources, p_ids, p_scores) with ordinality as f(source, id, score, nth);
    if knowledge = '{}' then
        insert into public.memory_queries (
            agent_id, user_id, command_id, task_keywords, retrieved_memory_ids, relevance_scores, patterns,
            reason, insight_ids)
        values (p_agent, p_user, p_command, p_asked, memories, scores, p_patterns, p_reason, insights)
        returning id into made;
    else
        insert into public.memory_queries (
            agent_id, user_id, command_id, task_keywords, retrieved_memory_ids, relevance_scores, patterns,
            reason, insight_ids, knowledge_ids)
        values (p_agent, p_user, p_command, p_asked, memories, scores, p_patterns, p_reason, insights,
                knowledge)
        returning id into made;
    end if;
    return made;
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

-- Counts the oldest p_maximum retrievals that are not counted, and returns how many these were: adds their
-- uses to accessed_count and last_accessed_at of knowledge and insights. Each is counted once, also where
-- several daemons do this at the same time. Entries are locked in the order of their ids, so that two that
-- count do not wait for each other. A user's retrievals count for that user's insights alone, so nobody
-- changes what the insights of others say of themselves. An insight that another transaction has locked, as a
-- dream that writes it, is not waited for: that use is not counted.
create or replace function memoryd.count_retrieved(p_maximum integer) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    taken uuid[];
begin
    with oldest as materialized (
        select q.id
        from public.memory_queries q
        where (q.knowledge_ids <> '{}' or q.insight_ids <> '{}') and not q.knowledge_counted
        order by q.query_time
        limit p_maximum
        for update skip locked
    ), counted as (
        update public.memory_queries q set knowledge_counted = true
        from oldest o where q.id = o.id
        returning q.id
    )
    select array_agg(c.id) into taken from counted c;
    with uses as materialized (
        select u.id, count(*)::integer as uses, max(q.query_time) as last
        from public.memory_queries q cross join lateral unnest(q.knowledge_ids) as u(id)
        where q.id = any(taken)
        group by u.id
    ), locked as materialized (
        select k.id, u.uses, u.last
        from public.shared_knowledge k join uses u on u.id = k.id
        order by k.id
        for no key update of k
    )
    update public.shared_knowledge k
    set accessed_count = k.accessed_count + l.uses,
        last_accessed_at = greatest(k.last_accessed_at, l.last)
    from locked l where k.id = l.id;
    with uses as materialized (
        select u.id, q.user_id, count(*)::integer as uses, max(q.query_time) as last
        from public.memory_queries q cross join lateral unnest(q.insight_ids) as u(id)
        where q.id = any(taken)
        group by u.id, q.user_id
    ), locked as materialized (
        select i.id, u.uses, u.last
        from public.dream_insights i
        join uses u on u.id = i.id and u.user_id is not distinct from i.user_id
        order by i.id
        for no key update of i skip locked
    )
    update public.dream_insights i
    set accessed_count = i.accessed_count + l.uses,
        last_accessed_at = greatest(i.last_accessed_at, l.last)
    from locked l where i.id = l.id;
    return coalesce(cardinality(taken), 0);
end
$$;
