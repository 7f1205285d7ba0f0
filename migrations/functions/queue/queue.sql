-- Queueing jobs, in lanes or in turns of users, and claiming those in lanes, for the topics whose jobs must
-- run in order. (daemon/queue claims jobs without a lane.)

-- A user among those who take turns, as a hash.
create or replace function memoryd.tenant_of(p_user uuid) returns bigint
language sql immutable parallel safe strict
return hashtextextended('user ' || p_user::text, 0);

-- When a tenant's next turn is: now, or a second after the last turn of its pending jobs. Jobs are claimed
-- in the order of their turns. So a tenant that asks for one thing gets it before another tenant, which
-- asked for hundreds, gets the rest of its own. If no other tenant waits, no job waits for its turn. No job
-- waits for ever: a job that is queued after a turn has passed comes after that turn.
create or replace function memoryd.next_fair_time(p_topic text, p_tenant bigint) returns timestamptz
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select greatest(clock_timestamp(), (select j.fair_at + interval '1 second' from memoryd.jobs j
                                        where j.tenant = p_tenant and j.topic = p_topic
                                        order by j.fair_at desc
                                        limit 1))
$$;

-- Queues a job of p_topic for each of p_refs, in their order, and gives them turns: one a second for each
-- user, sixteen a second for what is the agents' own. p_users has the user of each ref, null for the
-- agents' own; p_users null: all are the agents' own.
create or replace function memoryd.queue_fairly(p_topic text, p_refs uuid[], p_users uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into memoryd.jobs (topic, ref, tenant, fair_at)
    select p_topic, t.ref, t.tenant,
           t.begins + make_interval(secs => (t.nth - 1) / case when t.tenant is null then 16 else 1 end)
    from (
        select p.*,
               max(case p.nth when 1 then memoryd.next_fair_time(p_topic, p.tenant) end)
                   over (partition by p.tenant) as begins
        from (
            select r.ref, r.ordinality, memoryd.tenant_of(r.user_id) as tenant,
                   row_number() over (partition by r.user_id order by r.ordinality) as nth
            from unnest(p_refs, p_users) with ordinality as r(ref, user_id, ordinality)
        ) p
    ) t
    order by t.ordinality;
end
$$;

-- Ends a statement by which an end user would have more than a hundred requests and commands pending;
-- agents have no such limit. Called with how many jobs the statement adds, before they are queued. Statements
-- that run at the same time do not see each other's jobs.
create or replace function memoryd.check_pending(p_added bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    most constant integer := 100;
    pending bigint;
begin
    if memoryd.caller_is_service() then
        return;
    end if;
    select count(*) into pending
    from (select from memoryd.jobs j where j.tenant = memoryd.tenant_of(memoryd.caller_id()) limit most) c;
    if pending + p_added > most then
        raise exception 'at most % requests and commands of a user may be pending, and this would make %',
                        most, pending + p_added
            using errcode = 'configuration_limit_exceeded',
                  hint = 'Nothing of this statement was taken. Wait for answers to those that are pending, '
                         'then ask for fewer at once.';
    end if;
end
$$;

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

-- Whether 1,000 jobs or more wait. Then work that is not urgent (dreams of an idle fleet, builds of large
-- indexes) is postponed, so that the jobs have the processor to themselves.
create or replace function memoryd.is_busy() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select count(*) = 1000
    from (select from memoryd.jobs where visible_at <= now() and topic <> 'situate' limit 1000) waiting
$$;

-- For people at a prompt, and for tests: programs LISTEN. Each look is a statement of its own, and sees what
-- was committed meanwhile.
create or replace function public.wait_until_idle(seconds double precision default 10) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    ends constant timestamptz := clock_timestamp() + make_interval(secs => least(coalesce(seconds, 10), 600));
begin
    -- Jobs of a plugin that was taken away stay.
    while exists (
        select from memoryd.jobs j
        where coalesce((select s.value from memoryd.settings s where s.key = 'topics') ? j.topic, true)) loop
        if clock_timestamp() >= ends then
            return false;
        end if;
        perform pg_sleep(0.01);
    end loop;
    return true;
end
$$;
comment on function public.wait_until_idle(double precision) is
    'Waits until no job is left: true, or false when the seconds (600 at most) are over. Call it when the '
    'rows are committed.';

-- How many jobs are retried in one batch after p_deaths of their workers (attempts that neither succeeded
-- nor were handed back): half a batch after the first, an eighth after the second, then each alone. So if
-- the worker was killed from outside, its jobs are retried with a few claims; and if one of them kills
-- workers, that job is found.
create or replace function memoryd.suspects_to_try(p_deaths integer, p_jobs integer, p_max_attempts integer)
returns integer
language sql immutable parallel safe
return case when p_deaths = 1 and p_max_attempts > 2 then greatest(1, p_jobs / 2)
            when p_deaths = 2 and p_max_attempts > 3 then greatest(1, p_jobs / 8)
            else 1 end;

-- Lanes that have work and may be leased. Up to p_lanes whose first job is fresh, the oldest first; and the
-- oldest lane whose first job is suspect (its worker died), with others that have seen as many deaths: up to
-- p_lanes after one death, a quarter of them after two, none after more. So no lane waits for lanes whose
-- jobs are younger than its own, however often workers die.
create or replace function memoryd.free_lanes(p_topic text, p_lanes integer, p_max_attempts integer)
returns text[]
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    -- One index look-up for each lane, which finds the lane's oldest job.
    with recursive pending(lane, oldest, deaths) as (
        (select j.lane, j.id, j.attempt - j.snoozes from memoryd.jobs j
         where j.topic = p_topic and j.lane is not null
         order by j.lane, j.id limit 1)
        union all
        select n.lane, n.id, n.deaths
        from pending p
        cross join lateral (
            select j.lane, j.id, j.attempt - j.snoozes as deaths from memoryd.jobs j
            where j.topic = p_topic and j.lane > p.lane
            order by j.lane, j.id limit 1
        ) n
    ), free as (
        select p.lane, p.oldest, p.deaths
        from pending p
        left join memoryd.lanes l on l.topic = p_topic and l.lane = p.lane
        where l.lane is null or (l.leased_until <= clock_timestamp() and l.not_before <= clock_timestamp())
    ), fresh as (
        select f.lane from free f where f.deaths = 0 order by f.oldest limit p_lanes
    ), first as (
        select f.deaths from free f where f.deaths > 0 order by f.oldest limit 1
    ), suspects as (
        select f.lane from free f
        where f.deaths = (select s.deaths from first s)
        order by f.oldest
        limit (select memoryd.suspects_to_try(s.deaths, 2 * p_lanes, p_max_attempts) from first s)
    )
    select array_agg(c.lane) from (select lane from fresh union all select lane from suspects) c
$$;

-- Leases those of these lanes that are still free; returns which. Lanes that another transaction is leasing
-- at this moment are skipped.
create or replace function memoryd.lease_lanes(
    p_topic text, p_lanes text[], p_lease interval, p_daemon integer)
returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    leased text[];
begin
    insert into memoryd.lanes (topic, lane)
    select p_topic, c from unnest(p_lanes) c
    where not exists (select from memoryd.lanes l where l.topic = p_topic and l.lane = c)
    on conflict do nothing;

    with chosen as materialized (
        select l.lane from memoryd.lanes l
        where l.topic = p_topic
          and l.lane = any(p_lanes)
          and l.leased_until <= clock_timestamp()
          and l.not_before <= clock_timestamp()
        for update skip locked
    ), leases as (
        update memoryd.lanes l
        set leased_until = clock_timestamp() + p_lease, token = l.token + 1, leased_by = p_daemon
        from chosen c
        where l.topic = p_topic and l.lane = c.lane
        returning l.lane
    )
    select array_agg(l.lane) into leased from leases l;
    return leased;
end
$$;

-- Leases lanes that have work and claims their first jobs: up to p_jobs that are fresh, an equal share of
-- each lane, and as many suspects as may be tried together, likewise. The jobs are read by a statement of
-- their own after the lease, in a volatile function: its snapshot is younger than the lease, so it sees the
-- last commit of the worker that had the lane before. A lane whose jobs that worker has done meanwhile is
-- free again. The jobs of a lane that are claimed together have the same number of deaths.
create or replace function memoryd.claim_lanes(
    p_topic text, p_lanes integer, p_jobs integer, p_lease interval, p_max_attempts integer default 5,
    p_daemon integer default null)
returns table (id bigint, lane text, ref uuid, payload jsonb, attempt integer, snoozes integer,
               solo_attempts integer, created_at timestamptz, token bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    free constant text[] := memoryd.free_lanes(p_topic, p_lanes, p_max_attempts);
    leased text[];
begin
    if free is null then
        return;
    end if;
    leased := memoryd.lease_lanes(p_topic, free, p_lease, p_daemon);
    if leased is null then
        return;
    end if;

    return query
    with first as materialized (
        select l.lane, f.deaths,
               case f.deaths when 0 then p_jobs
                    else memoryd.suspects_to_try(f.deaths, p_jobs, p_max_attempts) end
               / count(*) over (partition by f.deaths > 0) as share
        from unnest(leased) as l(lane)
        cross join lateral (
            select j.attempt - j.snoozes as deaths from memoryd.jobs j
            where j.topic = p_topic and j.lane = l.lane
            order by j.id limit 1
        ) f
    ), head as materialized (
        select h.id
        from first f
        cross join lateral (
            -- The window runs from the first job to this one.
            select w.id, bool_and(w.deaths = f.deaths) over (order by w.id) as alike
            from (
                select j.id, j.attempt - j.snoozes as deaths from memoryd.jobs j
                where j.topic = p_topic and j.lane = f.lane
                order by j.id
                limit greatest(1, f.share)
            ) w
        ) h
        where h.alike
    ), done_meanwhile as (
        update memoryd.lanes l set leased_until = '-infinity'
        where l.topic = p_topic and l.lane = any(leased) and l.lane not in (select f.lane from first f)
    )
    update memoryd.jobs j
    set attempt = j.attempt + 1, claimed_by = coalesce(p_daemon, 0)
    from head, memoryd.lanes l
    where j.id = head.id and l.topic = p_topic and l.lane = j.lane
    returning j.id, j.lane, j.ref, j.payload, j.attempt, j.snoozes, j.solo_attempts, j.created_at, l.token;
    if not found then
        update memoryd.lanes l set leased_until = '-infinity'
        where l.topic = p_topic and l.lane = any(leased);
    end if;
end
$$;
comment on function memoryd.claim_lanes(text, integer, integer, interval, integer, integer) is
    'Leases lanes that have work and claims their first jobs, in order.';
