-- Queueing jobs in lanes. (Jobs in turns of users: see queue/fairness.sql.)

-- Queues a job of p_topic for each of p_refs, in their order, each in the lane of the same index in p_lanes,
-- and wakes the daemons. Nulls instead of arrays, as array_agg() gives for no rows, queue nothing.
create or replace function memoryd.queue_in_lanes(p_topic text, p_lanes text[], p_refs uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into memoryd.jobs (topic, lane, ref)
    select p_topic, r.lane, r.ref
    from unnest(p_lanes, p_refs) with ordinality as r(lane, ref, nth)
    order by r.nth;
    if found then
        perform memoryd.wake(p_topic);
    end if;
end
$$;
