-- Counting which knowledge contexts have used: later and in batches, since an update of the entry in each
-- context would make contexts wait for each other.

-- Adds the uses that the oldest p_maximum retrievals logged to accessed_count and last_accessed_at, and
-- returns how many retrievals. Each is counted once, also where several daemons do this at the same time.
create or replace function memoryd.count_knowledge_uses(p_maximum integer) returns bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with taken as (
        select q.id, q.knowledge_ids, q.query_time
        from public.memory_queries q
        where q.knowledge_ids <> '{}' and not q.knowledge_counted
        order by q.query_time
        limit p_maximum
        for update skip locked
    ), counted as (
        update public.memory_queries q set knowledge_counted = true
        from taken t where q.id = t.id
        returning 1
    ), uses as (
        select u.id, count(*)::integer as uses, max(t.query_time) as last
        from taken t cross join lateral unnest(t.knowledge_ids) as u(id)
        group by u.id
    ), locked as (
        -- In the order of their ids, so that two that count do not wait for each other.
        select k.id, u.uses, u.last
        from public.shared_knowledge k join uses u on u.id = k.id
        order by k.id
        for no key update of k
    ), touched as (
        update public.shared_knowledge k
        set accessed_count = k.accessed_count + l.uses,
            last_accessed_at = greatest(k.last_accessed_at, l.last)
        from locked l where k.id = l.id
        returning 1
    )
    select count(*) from counted
$$;
