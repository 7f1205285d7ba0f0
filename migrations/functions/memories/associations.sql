-- Links between memories: their jobs, linking again what has changed, and what reads or strengthens links.

-- The lane of jobs that link memories: links of one agent and user are written in order, and a transaction
-- that keeps one of their memories locked delays only their links. First the user, as a hash, so that after
-- an erasure the lane does not identify them, or - for no user; then the agent. What users can choose is the
-- name of an agent: so no name makes the lane of another user.
create or replace function memoryd.associate_lane(p_agent text, p_user uuid) returns text
language sql immutable parallel safe
return coalesce(left(encode(sha256(uuid_send(p_user)), 'hex'), 16), '-') || ' ' || p_agent;

-- Queues the links of these memories to be made again, because memories that they are linked to have
-- changed.
create or replace function memoryd.associate_again(p_memories uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.queue_in_lanes('associate', array_agg(u.lane), array_agg(u.id))
    from (
        select memoryd.associate_lane(m.agent_id, m.user_id) as lane, m.id
        from public.agent_memory m
        where m.id = any(p_memories)
          -- The others are linked once they are indexed.
          and exists (select from memoryd.entries e
                      where e.scope = m.scope and e.id = m.id and e.source = 'memory' and e.code is not null)
          -- A job that waits already reads the memories as they are when it runs.
          and not exists (select from memoryd.jobs j
                          where j.topic = 'associate' and j.ref = m.id and j.attempt = 0
                          offset 0)
        order by m.created_at, m.id
    ) u
$$;

-- Locks all links of these memories, in the order of their ids, and returns them. One index look-up for each
-- memory and direction.
create or replace function memoryd.links_locked(p_memories uuid[]) returns uuid[]
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with locked as materialized (
        select a.id from public.memory_associations a
        where a.id = any(array(
            select l.id
            from unnest(p_memories) as c(id)
            cross join lateral (
                (select f.id from public.memory_associations f where f.memory_id = c.id offset 0)
                union all
                (select t.id from public.memory_associations t where t.related_memory_id = c.id offset 0)
            ) l))
        order by a.id
        for update
    )
    select array_agg(k.id) from locked k
$$;

-- Locks these memories, their links, and insights that were drawn from them: before several of them are
-- written one after the other (see the order of locks in base/locks.sql).
create or replace function memoryd.lock_memories(p_memories uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from public.agent_memory m where m.id = any(p_memories) order by m.id for update;
    perform memoryd.links_locked(p_memories);
    perform from public.dream_insights i where i.source_memories && p_memories
    order by i.id for no key update;
end
$$;

-- Locks the links of deleted memories in order, before the foreign keys delete them memory by memory: two
-- clients that delete memories which are linked to each other would lock them in two orders. Called for each
-- row, since foreign keys come before the statement's triggers; the first row does it for all.
create or replace function memoryd.lock_links() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if old.id = (select o.id from old_rows o limit 1) then
        perform memoryd.links_locked(array(select o.id from old_rows o));
    end if;
    return null;
end
$$;

-- Deletes the links of memories whose text has changed, and queues new ones for those that were linked to
-- them. They themselves are linked once they are indexed. A link that is being made of the old text waits
-- for this, or this for it (see memoryd.stamp_memory). Insights that were drawn from them, or from
-- memories that another has replaced, are drawn again.
create or replace function memoryd.memories_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    changed uuid[];
    replaced uuid[];
    links uuid[];
    linked uuid[];
begin
    -- `not in` is looked up by a hash. A join whose plan was kept from a statement of one row would compare
    -- all pairs of rows.
    select array_agg(n.id) into replaced
    from new_rows n
    where n.superseded_by is not null
      and n.id not in (select o.id from old_rows o where o.superseded_by is not null);
    if replaced is not null then
        perform memoryd.mark_outdated(replaced);
    end if;
    select array_agg(n.id) into changed
    from new_rows n
    where (n.id, n.content) not in (select o.id, o.content from old_rows o);
    -- Links before insights, as where memories are deleted: see the order of locks in base/locks.sql.
    if changed is not null then
        links := memoryd.links_locked(changed);
        with unlinked as (
            delete from public.memory_associations a where a.id = any(links) returning a.memory_id
        )
        select array_agg(u.memory_id) into linked
        from (select distinct d.memory_id from unlinked d where d.memory_id <> all (changed) limit 100) u;
    end if;
    if changed is not null or replaced is not null then
        perform memoryd.outdate_insights(changed || replaced, '{}');
    end if;
    if linked is not null then
        perform memoryd.associate_again(linked);
    end if;
    return null;
end
$$;

-- Judges a retrieval, and strengthens the links among what it returned. An end user judges their own
-- retrievals alone: of another's row it looks at no more than of one that is not there, neither locks it nor
-- waits for it. It runs as the owner, because users have no right to change these rows: with such a right
-- they could lock them by statements of their own.
create or replace function public.mark_useful(query_id uuid, useful boolean) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
    retrieved uuid[];
    was_reinforced boolean;
begin
    -- What a policy would ask: a row that this leaves out is not locked.
    select q.retrieved_memory_ids, q.reinforced into retrieved, was_reinforced
    from public.memory_queries q
    where q.id = mark_useful.query_id and (caller.is_service or q.user_id = caller.user_id)
    for update;
    if not found then
        raise exception 'no query %', mark_useful.query_id
            using errcode = 'no_data_found',
                  hint = 'Give the id of a row of memory_queries, of your own as an end user.';
    end if;
    update public.memory_queries q
    set useful = mark_useful.useful, reinforced = was_reinforced or coalesce(mark_useful.useful, false)
    where q.id = mark_useful.query_id;
    -- Only once for each query, even if it is judged several times. Two at once lock the links in one order.
    if mark_useful.useful and not was_reinforced then
        with links as materialized (
            select a.id from public.memory_associations a
            where a.memory_id = any(retrieved) and a.related_memory_id = any(retrieved)
              and (caller.is_service
                   or exists (select from public.agent_memory m
                              where m.id = a.memory_id and m.user_id = caller.user_id)
                      and exists (select from public.agent_memory m
                                  where m.id = a.related_memory_id and m.user_id = caller.user_id))
            order by a.id
            for no key update
        )
        update public.memory_associations a
        set strength = least(1, a.strength + 0.1), updated_at = now()
        from links l
        where a.id = l.id;
    end if;
end
$$;
comment on function public.mark_useful(uuid, boolean) is
    'Judges a retrieval. Useful: the associations among what was retrieved gain 0.1, once. '
    'Users judge their own.';

