-- The log: the positions of leaves, the facts about them, and what a context says of an agent's anchors.

-- Gives leaves to anchors that were there before the log, oldest first; p_limit at a time. Returns how many.
create or replace function memoryd.carry_anchors(p_limit integer) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    anchors uuid[];
begin
    if (select t.carried from memoryd.trail t for update) then
        return 0;
    end if;
    anchors := array(
        select a.id from public.memory_anchors a
        where not exists (select from memoryd.trail_leaves l where l.anchor_id = a.id)
        order by a.created_at, a.id
        limit p_limit);
    -- What is erased at this moment is waited for, and read as it is then.
    perform from public.memory_anchors a where a.id = any(anchors) order by a.id for no key update;
    perform memoryd.add_leaves(anchors, true);
    if cardinality(anchors) < p_limit then
        update memoryd.trail set carried = true;
    end if;
    return cardinality(anchors);
end
$$;

-- At once, in the upgrade that brings the log: what is erased after it is found by its leaf.
do $$
begin
    perform memoryd.carry_anchors(2147483647);
end
$$;

-- Gives the next positions in the log to leaves that have none, in the order in which they were written, and
-- writes the chains of their agents. Whoever calls it has the row of memoryd.trail until the end of the
-- transaction, so positions are given one after the other. It waits for nobody: an anchor that another
-- transaction has locked gets its position the next time.
create or replace function memoryd.sequence_anchors(p_limit integer)
returns table (leaf_position bigint, leaf bytea)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    first_position bigint;
begin
    select t.size into first_position from memoryd.trail t for update;
    return query
    with waiting as materialized (
        select l.id, l.anchor_id, l.leaf, l.chained from memoryd.trail_leaves l
        where l.position is null
        order by l.id
        limit p_limit
        for update skip locked
    ), free as materialized (
        select a.id, a.agent_id, a.content_hash
        from public.memory_anchors a
        where a.id in (select w.anchor_id from waiting w)
        for update skip locked
    ), ready as materialized (
        select w.id, w.anchor_id, w.leaf, w.chained, f.agent_id, f.content_hash,
               first_position + row_number() over (order by w.id) - 1 as position
        from waiting w
        left join free f on f.id = w.anchor_id
        -- The leaf of an anchor that was deleted meanwhile has its position, too.
        where f.id is not null
           or not exists (select from public.memory_anchors a where a.id = w.anchor_id)
    ), chain as materialized (
        select r.*, coalesce(lag(r.content_hash) over (partition by r.agent_id order by r.position),
                             g.last_hash) as before
        from ready r
        left join memoryd.trail_agents g on g.agent_id = r.agent_id
        where r.agent_id is not null
    ), linked as (
        update public.memory_anchors a set previous_hash = c.before
        from chain c where a.id = c.anchor_id and not c.chained and c.before is not null
    ), counted as (
        insert into memoryd.trail_agents as g (agent_id, anchors, last_hash)
        select distinct on (c.agent_id) c.agent_id, count(*) over (partition by c.agent_id), c.content_hash
        from chain c
        order by c.agent_id, c.position desc
        on conflict (agent_id) do update
        set anchors = g.anchors + excluded.anchors, last_hash = excluded.last_hash
    ), placed as (
        update memoryd.trail_leaves l set position = r.position from ready r where l.id = r.id
    ), longer as (
        update memoryd.trail t set size = t.size + (select count(*) from ready)
    )
    select r.position, r.leaf from ready r order by r.position;
end
$$;

-- Writes, once for each anchored memory, the fact that it is anchored: when its checkpoint is signed, or
-- when one of p_ledgers has it for good, where these are to keep it. Returns how many.
create or replace function memoryd.write_anchor_facts(p_ledgers text[], p_limit integer) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    written integer;
begin
    with due as materialized (
        select l.id, l.anchor_id, l.user_id, l.position, r.ledger, r.reference
        from memoryd.trail_leaves l
        left join lateral (
            select r.ledger, r.reference from memoryd.trail_receipts r
            where r.anchor_id = l.anchor_id and r.final and r.ledger = any(p_ledgers)
            order by r.created_at limit 1) r on true
        where not l.fact_written and l.position < (select max(c.size) from memoryd.trail_checkpoints c)
          and (r.ledger is not null
               or not exists (select from memoryd.trail_ledgers g
                              where g.name = any(p_ledgers) and g.from_position <= l.position))
        order by l.position
        limit p_limit
        for update of l skip locked
    ), marked as (
        update memoryd.trail_leaves l set fact_written = true from due d where l.id = d.id
    ), facts as (
        insert into public.agent_memory (agent_id, user_id, kind, content, source, ttl_hours, metadata)
        select a.agent_id, d.user_id, 'fact',
               case a.category when 'incident' then 'An ' else 'A ' end || a.category
                   || ' was anchored: CID ' || coalesce(a.cid, 'none') || ', '
                   || coalesce(case d.ledger when 'evm' then 'transaction ' else d.ledger || ' ' end
                               || d.reference, 'leaf ' || d.position || ' of the trail') || '.',
               'anchor', null,
               jsonb_strip_nulls(jsonb_build_object(
                   'anchor_id', a.id, 'category', a.category, 'cid', a.cid, 'ledger', d.ledger,
                   'reference', d.reference))
        from due d
        join public.memory_anchors a on a.id = d.anchor_id
        order by d.position
        returning 1
    )
    select count(*) into written from facts;
    return written;
end
$$;

-- How many anchors an agent has, and the last of them, for its context; null where there is none. Only who
-- works for the agents is told. Counted are the agent's own, and those of the user whom the context is for:
-- what is anchored or erased of other users changes nothing.
create or replace function memoryd.anchor_line(p_agent text, p_user uuid) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not memoryd.caller_is_privileged() then
        return null;
    end if;
    return (
        with shown as (
            (select a.id, a.category, a.created_at
             from public.memory_anchors a join memoryd.trail_leaves l on l.anchor_id = a.id
             where a.agent_id = p_agent and a.category is not null and l.user_id is null
             order by a.created_at desc limit 1000)
            union all
            (select a.id, a.category, a.created_at
             from memoryd.trail_leaves l join public.memory_anchors a on a.id = l.anchor_id
             where l.user_id = p_user and a.agent_id = p_agent and a.category is not null
             order by a.created_at desc limit 1000)
        ), newest as (
            select n.* from shown n order by n.created_at desc, n.id desc limit 1
        )
        select 'Anchors: ' || case when count(*) < 1000 then count(*)::text else '1000 or more' end
               || ', the last ' || case n.category when 'incident' then 'an ' else 'a ' end || n.category
               || ' of ' || to_char(n.created_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC.'
        from newest n, shown
        group by n.category, n.created_at);
end
$$;

-- Makes the chains of agents from their anchors again, after an import has put anchors back under another
-- name than they had as erased ones.
create or replace function memoryd.link_anchors(p_agents text[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select from memoryd.trail t for update;
    with chain as materialized (
        select a.id, l.chained, a.previous_hash,
               lag(a.content_hash) over (partition by a.agent_id order by l.position) as before
        from public.memory_anchors a
        join memoryd.trail_leaves l on l.anchor_id = a.id
        where a.agent_id = any(p_agents) and l.position is not null
    )
    update public.memory_anchors a set previous_hash = c.before
    from chain c
    where a.id = c.id and not c.chained and c.previous_hash is distinct from c.before;
    delete from memoryd.trail_agents g where g.agent_id = any(p_agents);
    insert into memoryd.trail_agents (agent_id, anchors, last_hash)
    select distinct on (a.agent_id) a.agent_id, count(*) over (partition by a.agent_id), a.content_hash
    from public.memory_anchors a
    join memoryd.trail_leaves l on l.anchor_id = a.id
    where a.agent_id = any(p_agents) and l.position is not null
    order by a.agent_id, l.position desc;
$$;
