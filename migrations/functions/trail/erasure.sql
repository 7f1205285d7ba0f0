-- What an erasure does to anchors. They and their leaves stay, so that the chains of hashes and the proofs of
-- all others are complete.

-- Erases what a user's anchors say, and the salts of their leaves. Returns how many anchors these were. It
-- comes before the memories are deleted: the deletion sets memory_id of their anchors to null (the foreign
-- key), and then they cannot be found any more.
create or replace function memoryd.erase_anchors(p_user uuid, p_memories uuid[]) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    anchors constant uuid[] := array(
        select a.id from public.memory_anchors a
        where a.memory_id in (select unnest(p_memories)) or a.payload ->> 'user_id' = p_user::text
        union
        select l.anchor_id from memoryd.trail_leaves l where l.user_id = p_user
        order by 1);
begin
    perform memoryd.seal_anchors(anchors);
    return cardinality(anchors);
end
$$;

-- The anchors of an agent that is erased stay one chain, with a random name.
create or replace function memoryd.rename_anchors(p_agents text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    renamed uuid[];
begin
    -- In order, as others lock them.
    perform from public.memory_anchors a where a.agent_id = any(p_agents) order by a.id for no key update;
    with names as materialized (
        select g as agent, 'erased ' || gen_random_uuid() as name from unnest(p_agents) g
    ), counted as (
        update memoryd.trail_agents t set agent_id = n.name from names n where t.agent_id = n.agent
    ), chained as (
        update public.memory_anchors a set agent_id = n.name from names n where a.agent_id = n.agent
        returning a.id
    )
    select array_agg(c.id order by c.id) into renamed from chained c;
    -- What they say has the name, too. Emptied is what was renamed: one that others committed meanwhile is
    -- either both or neither.
    perform memoryd.seal_anchors(renamed);
end
$$;
