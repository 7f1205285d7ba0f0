-- Counting which knowledge and which insights contexts and recalls have used: later and in batches, since an
-- update of the entry in each context would make contexts wait for each other.

-- Adds the uses of these retrievals to accessed_count and last_accessed_at of the entries of knowledge.
-- Locked in the order of their ids, so that two that count do not wait for each other.
create or replace function memoryd.touch_used_knowledge(p_queries uuid[]) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with uses as materialized (
        select u.id, count(*)::integer as uses, max(q.query_time) as last
        from public.memory_queries q cross join lateral unnest(q.knowledge_ids) as u(id)
        where q.id = any(p_queries)
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
    from locked l where k.id = l.id
$$;

-- The same of insights. A user's retrievals count for that user's insights alone, so nobody changes what the
-- insights of others say of themselves. What another transaction has locked, as a dream that writes it, is
-- not waited for: that use is not counted.
create or replace function memoryd.touch_used_insights(p_queries uuid[]) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with uses as materialized (
        select u.id, q.user_id, count(*)::integer as uses, max(q.query_time) as last
        from public.memory_queries q cross join lateral unnest(q.insight_ids) as u(id)
        where q.id = any(p_queries)
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
    from locked l where i.id = l.id
$$;

-- Counts the oldest p_maximum retrievals that are not counted, and returns how many these were. Each is
-- counted once, also where several daemons do this at the same time.
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
    if taken is null then
        return 0;
    end if;
    perform memoryd.touch_used_knowledge(taken);
    perform memoryd.touch_used_insights(taken);
    return cardinality(taken);
end
$$;
