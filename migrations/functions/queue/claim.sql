-- Whether so much work waits that what has time should leave it the processor: dreams of an idle fleet, builds of big indexes.
create or replace function memoryd.is_busy() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select count(*) = 1000 from (select from memoryd.jobs where visible_at <= now() limit 1000) waiting $$;

-- How many jobs that were in a dead worker's hands are tried together, after so many deaths: first half a batch, then an eighth,
-- at last each alone. So a worker that was only killed costs a few claims, and one that a job kills finds that job.
create or replace function memoryd.company(p_deaths integer, p_jobs integer, p_most_attempts integer) returns integer
language sql immutable parallel safe
return case when p_deaths = 1 and p_most_attempts > 2 then greatest(1, p_jobs / 2)
            when p_deaths = 2 and p_most_attempts > 3 then greatest(1, p_jobs / 8)
            else 1 end;

-- Lanes that have work and may be leased, the one with the oldest job first: up to p_lanes whose first job is fresh, and of those
-- whose first job was in a dead worker's hands as many again after one death, but a single one after more.
create or replace function memoryd.free_lanes(p_topic text, p_lanes integer, p_most_attempts integer) returns text[]
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    -- One step of the index a lane, each at the lane's oldest job.
    with recursive pending(lane, oldest, deaths) as (
        (select j.lane, j.id, j.attempt - j.spared from memoryd.jobs j
         where j.topic = p_topic and j.lane is not null
         order by j.lane, j.id limit 1)
        union all
        select n.lane, n.id, n.deaths
        from pending p
        cross join lateral (
            select j.lane, j.id, j.attempt - j.spared as deaths from memoryd.jobs j
            where j.topic = p_topic and j.lane > p.lane
            order by j.lane, j.id limit 1
        ) n
    ), free as (
        select p.lane, p.oldest, p.deaths, p.deaths > 1 or p_most_attempts <= 2 as apart
        from pending p
        left join memoryd.lanes l on l.topic = p_topic and l.lane = p.lane
        where l.lane is null or (l.leased_until <= clock_timestamp() and l.not_before <= clock_timestamp())
    ), fresh as (
        select f.lane from free f where f.deaths = 0 order by f.oldest limit p_lanes
    ), suspects as (
        select f.lane, f.oldest, f.deaths, f.apart, bool_and(f.apart) over () as all_apart
        from free f where f.deaths > 0
        order by f.deaths, f.oldest
        limit p_lanes
    )
    select array_agg(c.lane)
    from (
        select lane from fresh
        union all
        select lane from suspects where not apart
        union all
        (select lane from suspects where all_apart order by deaths, oldest limit 1)
    ) c
$$;

-- Leases lanes that have work and reads their first jobs, an equal share of p_jobs each.
-- Three statements in one volatile function: the jobs are read with a snapshot younger than the lease, so a
-- previous holder's last commit is always seen. Jobs that did not come back are read with their like: see memoryd.company().
create or replace function memoryd.claim_lanes(
    p_topic text, p_lanes integer, p_jobs integer, p_lease interval, p_most_attempts integer default 5,
    p_holder integer default null)
returns table (id bigint, lane text, ref uuid, payload jsonb, attempt integer, spared integer, alone integer,
               created_at timestamptz, token bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    candidates constant text[] := memoryd.free_lanes(p_topic, p_lanes, p_most_attempts);
    leased text[];
    share integer;
begin
    if candidates is null then
        return;
    end if;

    insert into memoryd.lanes (topic, lane)
    select p_topic, c from unnest(candidates) c
    where not exists (select from memoryd.lanes l where l.topic = p_topic and l.lane = c)
    on conflict do nothing;

    with chosen as materialized (
        select l.lane from memoryd.lanes l
        where l.topic = p_topic
          and l.lane = any(candidates)
          and l.leased_until <= clock_timestamp()
          and l.not_before <= clock_timestamp()
        for update skip locked
    ), held as (
        update memoryd.lanes l
        set leased_until = clock_timestamp() + p_lease, token = l.token + 1, holder = p_holder
        from chosen c
        where l.topic = p_topic and l.lane = c.lane
        returning l.lane
    )
    select array_agg(h.lane) into leased from held h;
    if leased is null then
        return;
    end if;
    share := greatest(1, p_jobs / cardinality(leased));

    return query
    with head as materialized (
        select h.id
        from unnest(leased) as l(lane)
        cross join lateral (
            select w.id, w.deaths,
                   row_number() over (order by w.id) as place,
                   first_value(w.deaths) over (order by w.id) as first,
                   min(w.deaths) over (order by w.id) as fewest,
                   max(w.deaths) over (order by w.id) as most
            from (
                select j.id, j.attempt - j.spared as deaths from memoryd.jobs j
                where j.topic = p_topic and j.lane = l.lane
                order by j.id
                limit share
            ) w
        ) h
        where h.fewest = h.first and h.most = h.first
          and (h.first = 0 or h.place <= memoryd.company(h.first, share, p_most_attempts))
    )
    update memoryd.jobs j
    set attempt = j.attempt + 1
    from head, memoryd.lanes l
    where j.id = head.id and l.topic = p_topic and l.lane = j.lane
    returning j.id, j.lane, j.ref, j.payload, j.attempt, j.spared, j.alone, j.created_at, l.token;
    if not found then
        update memoryd.lanes l set leased_until = '-infinity'
        where l.topic = p_topic and l.lane = any(leased);
    end if;
end
$$;
comment on function memoryd.claim_lanes is 'Leases lanes that have work and claims their first jobs, in order.';
