-- Dreams: insights whose memories change or go, and forgetting: links that nothing uses fade, and how often
-- memories are retrieved changes a little in which order recall returns them. Nothing that a person wrote is
-- changed or deleted here.

-- Insights that were drawn from these memories are drawn again by the next dream. Until then nobody finds
-- them, and what they said is overwritten at once: it may quote what was just deleted. What a person
-- wrote into an insight stays. p_buried: memories that can be brought back; insights that were drawn from
-- these are only hidden. p_only: no other insights than these (null: all).
create or replace function memoryd.outdate_insights(
    p_changed uuid[], p_gone uuid[], p_buried uuid[] default '{}', p_only uuid[] default null) returns void
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    -- All in one statement, locked in order: clients that change memories of the same insights wait for each
    -- other, and never in a circle.
    with locked as materialized (
        select i.id, i.source_memories && (p_changed || p_gone) as overwritten
        from public.dream_insights i
        where i.source_memories && (p_changed || p_gone || p_buried)
          and (p_only is null or i.id = any(p_only))
          and (i.source_memories && (p_changed || p_gone) or i.last_modified_human is null)
        order by i.id
        for no key update
    )
    update public.dream_insights i
    set source_memories = array(
            select s.id from unnest(i.source_memories) with ordinality as s(id, nth)
            where s.id <> all (p_gone)
            order by s.nth),
        insight = case when i.last_modified_human is null and l.overwritten
                       then 'To be drawn again: a memory that it was drawn from has changed.'
                       else i.insight end,
        confidence = case when i.last_modified_human is null then 0 else i.confidence end,
        topic = case when i.last_modified_human is null and l.overwritten then '{}' else i.topic end,
        stale = i.last_modified_human is null, sources_hash = null
    from locked l
    where i.id = l.id;
end
$$;

-- Memories were deleted. Those that had expired leave their insights as they are: to say later what was
-- learned from them is what insights are for. What a person deleted in the replica can be brought back for a
-- while: insights that were drawn from it are hidden, and keep their text until they are drawn again.
create or replace function memoryd.memories_deleted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.outdate_insights(
        '{}', coalesce(array_agg(o.id) filter (where b.row_id is null), '{}'),
        coalesce(array_agg(b.row_id) filter (where b.row_id is not null), '{}'))
    from old_rows o
    left join memoryd.replica_buried b on b.source = 'memory' and b.row_id = o.id
    where o.expires_at is null or o.expires_at > now()
    having count(*) > 0;
    return null;
end
$$;

-- Insights that were just written, and whose memories were deleted or changed while the dream had them: it
-- read them after p_since. Called when the insights are committed: a memory that goes later finds them.
create or replace function memoryd.recheck_insights(p_ids uuid[], p_since timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    gone uuid[];
    changed uuid[];
begin
    select array_agg(distinct s.id) filter (where m.id is null),
           array_agg(distinct s.id) filter (
               where coalesce(m.text_changed_at, m.updated_at) > greatest(p_since, m.created_at))
    into gone, changed
    from public.dream_insights i
    cross join lateral unnest(i.source_memories) as s(id)
    left join public.agent_memory m on m.id = s.id
    where i.id = any(p_ids);
    if gone is not null or changed is not null then
        -- Others that were drawn from them are outdated already, by the transaction that changed them.
        perform memoryd.outdate_insights(coalesce(changed, '{}'), coalesce(gone, '{}'), '{}', p_ids);
    end if;
end
$$;

-- Counts the retrievals between two times as use of memories, and of the links between those that came back
-- together. The first of a retrieval counts one, the second a half, the third a third. A retrieval that was
-- judged useful counts three times, one that was judged useless does not count. A user's retrievals count for
-- that user's memories alone, so nobody changes what others find.
create or replace function memoryd.count_uses(p_since timestamptz, p_until timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    with used as materialized (
        select r.id, sum(case when q.useful then 3.0 else 1.0 end / r.nth) as uses,
               max(q.query_time) as used_at
        from public.memory_queries q
        cross join lateral (
            select u.id, min(u.nth) as nth
            from unnest(q.retrieved_memory_ids) with ordinality as u(id, nth)
            group by u.id
        ) r
        where q.query_time > p_since and q.query_time <= p_until and q.useful is not false
          and exists (select from public.agent_memory m
                      where m.id = r.id and m.user_id is not distinct from q.user_id)
        group by r.id
    ), there as materialized (
        -- Locked, so that none of them is gone when the foreign key is checked.
        select m.id from public.agent_memory m
        where m.id in (select u.id from used u)
        order by m.id
        for key share skip locked
    )
    insert into memoryd.memory_uses as k (memory_id, uses, used_at)
    select u.id, u.uses, u.used_at from used u join there t on t.id = u.id order by u.id
    on conflict (memory_id) do update
    set uses = k.uses * 0.5 ^ (greatest(0, extract(epoch from excluded.used_at - k.used_at)) / 2592000)
                   + excluded.uses,
        used_at = greatest(k.used_at, excluded.used_at);

    with used as materialized (
        select a.id, max(q.query_time) as used_at
        from public.memory_queries q
        cross join lateral (select distinct u.id from unnest(q.retrieved_memory_ids) as u(id)) r
        join public.memory_associations a
            on a.memory_id = r.id and a.related_memory_id = any(q.retrieved_memory_ids)
        join public.agent_memory m on m.id = r.id and m.user_id is not distinct from q.user_id
        where q.query_time > p_since and q.query_time <= p_until and q.useful is not false
        group by a.id
    ), locked as materialized (
        select a.id from public.memory_associations a
        where a.id in (select u.id from used u)
        order by a.id
        for no key update skip locked
    )
    update public.memory_associations a
    set rested_at = greatest(a.rested_at, u.used_at)
    from used u join locked l on l.id = u.id
    where a.id = u.id;
end
$$;

-- Links that memoryd made and that rested for a week lose 15 percent of their strength for each week: from
-- 0.5 they take eight weeks to less than 0.15, and then a dream deletes them. Links that others made never
-- fade. Returns how many have faded: at most p_count.
create or replace function memoryd.fade_links(p_now timestamptz, p_count integer) returns bigint
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with resting as materialized (
        select a.id, floor(extract(epoch from p_now - a.rested_at) / 604800) as weeks
        from public.memory_associations a
        where a.automatic and a.rested_at <= p_now - interval '7 days'
        limit p_count
        for no key update skip locked
    ), faded as (
        update public.memory_associations a
        set strength = a.strength * 0.85 ^ r.weeks, rested_at = a.rested_at + r.weeks * interval '7 days'
        from resting r
        where a.id = r.id
        returning 1
    )
    select count(*) from faded
$$;

-- Writes the weights of the memories that were ever retrieved beside what recall searches: up to 5 percent
-- more for what is retrieved often. Without further use a memory loses half of its uses in 30 days, and so
-- comes back to the weight of what was never retrieved; it never has less. So only results that fit almost
-- equally well change places. A memory that is indexed again has the weight of its kind until the next dream.
-- Returns how many have changed.
create or replace function memoryd.weigh_memories(p_now timestamptz) returns bigint
language sql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    with weighed as materialized (
        select s.id, s.scope, s.weight * (1 + 0.05 * k.kept / (k.kept + 10)) as weight
        from memoryd.memory_uses u
        cross join lateral (
            select u.uses * 0.5 ^ (greatest(0, extract(epoch from p_now - u.used_at)) / 2592000) as kept) k
        join memoryd.source_memory s on s.id = u.memory_id
    ), free as materialized (
        -- What another transaction has locked is about to be indexed again, and waits for the next dream:
        -- nobody waits for a dream, nor a dream for anybody.
        select e.scope, e.id, e.source, e.passage, w.weight
        from weighed w
        join memoryd.entries e on e.scope = w.scope and e.id = w.id and e.source = 'memory'
        -- Smaller changes would only cost writes.
        where abs(e.weight - w.weight) > 0.002
        for no key update of e skip locked
    ), changed as (
        update memoryd.entries e
        set weight = f.weight
        from free f
        where e.scope = f.scope and e.id = f.id and e.source = f.source and e.passage = f.passage
        returning 1
    )
    select count(*) from changed
$$;
