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
    from (
        select from memoryd.jobs j
        where j.tenant = memoryd.tenant_of(memoryd.caller_id())
        limit most
    ) counted;
    if pending + p_added > most then
        raise exception 'at most % requests and commands of a user may be pending, and this would make %',
                        most, pending + p_added
            using errcode = 'configuration_limit_exceeded',
                  hint = 'Nothing of this statement was taken. Wait for answers to those that are pending, '
                         'then ask for fewer at once.';
    end if;
end
$$;
