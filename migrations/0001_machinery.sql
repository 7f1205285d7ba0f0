-- The machinery: what the daemons share among themselves. Nobody but them is granted anything here.

create schema if not exists memoryd;
comment on schema memoryd is 'memoryd: the daemons'' own machinery. Users work with schema public.';

-- Settings that the database itself must know (its triggers read them), written by `memoryd migrate` and `memoryd run`.
create table memoryd.settings (
    key text primary key,
    value jsonb not null,
    updated_at timestamptz not null default now()
);
comment on table memoryd.settings is 'Settings the triggers and functions read: embedding dimensions, default TTLs, notifications.';

insert into memoryd.settings (key, value) values
    ('public_notifications', 'true'),
    ('pending_per_user', '100'),
    ('ttl_hours.outcome', '72'),
    ('ttl_hours.error', '72'),
    ('ttl_hours.observation', '72'),
    ('ttl_hours.task_memory', '2160');

-- A job is a unit of the daemons' own work. There is no status column: claiming raises `attempt` and moves `visible_at`
-- into the future, so that the claim of a worker that died simply runs out. (id, attempt) is the fencing token.
-- `spared` counts the attempts that were handed back through no fault of the job (a provider was down, the daemon was
-- stopping): a job with attempt > spared has once been claimed and never come back, and is tried alone from then on.
-- What users ask for is done in turns, a second between two of one user: see memoryd.next_turn.
create table memoryd.jobs (
    id bigint generated always as identity primary key,
    topic text not null,
    lane text,
    ref uuid,
    payload jsonb,
    party bigint,
    turn timestamptz not null default '-infinity',
    attempt integer not null default 0,
    spared integer not null default 0,
    visible_at timestamptz not null default now(),
    created_at timestamptz not null default now()
) with (
    -- Rows live for milliseconds: room for the claim's update on the same page, and vacuum before the dead pile up.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.0,
    autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table memoryd.jobs is 'Work that waits for a daemon, or is claimed by one. Settled jobs are deleted.';
comment on column memoryd.jobs.party is 'The user whom the job is for, as a hash (memoryd.party_of); null where it is the agents'' own, or no turns are taken.';
comment on column memoryd.jobs.turn is 'Jobs without a lane are claimed by turn, then in order.';

-- No index holds visible_at, so that a claim stays a HOT update: the jobs in flight are few, and a scan steps over them.
create index jobs_unlaned on memoryd.jobs (topic, turn, id) where lane is null;
create index jobs_laned on memoryd.jobs (topic, lane, id) where lane is not null;
-- What a user has pending, and the last turn of it.
create index jobs_party on memoryd.jobs (party, topic, turn) where party is not null;

-- A lane is an ordered stream of jobs of one topic (one agent's memories): held by one worker at a time.
create table memoryd.lanes (
    topic text not null,
    lane text not null,
    leased_until timestamptz not null default '-infinity',
    not_before timestamptz not null default '-infinity',
    token bigint not null default 0,
    primary key (topic, lane)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
comment on table memoryd.lanes is 'Leases on ordered streams of jobs; backoff of an ordered stream sits here (not_before).';

create table memoryd.dead_jobs (
    id bigint primary key,
    topic text not null,
    lane text,
    ref uuid,
    payload jsonb,
    attempts integer not null,
    error text not null,
    created_at timestamptz not null,
    died_at timestamptz not null default now()
);
comment on table memoryd.dead_jobs is 'Jobs that were given up, with the error. `memoryd dead` lists them, `memoryd dead requeue` tries again.';
create index dead_jobs_topic on memoryd.dead_jobs (topic, died_at);

create table memoryd.daemons (
    id uuid primary key,
    host text not null,
    pid integer not null,
    version text not null,
    doorbell text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now()
);
comment on table memoryd.daemons is 'One row for each running daemon, refreshed by its heartbeat.';

-- A tick of the schedule is a row: whichever daemon inserts it runs it, so no leader is needed.
create table memoryd.ticks (
    name text not null,
    scheduled_at timestamptz not null,
    daemon_id uuid not null,
    primary key (name, scheduled_at)
);
comment on table memoryd.ticks is 'Ticks of the schedule that some daemon has taken.';

-- Which daemon's built-in executor runs a command, and until when it may be believed.
create table memoryd.executions (
    command_id uuid primary key,
    daemon_id uuid not null,
    tries integer not null default 1,
    lease_until timestamptz not null
);
comment on table memoryd.executions is 'Commands that a daemon''s built-in executor runs now, with a lease that its heartbeat renews.';

-- Embeddings that were paid for, by content: a call repeated after a crash costs nothing.
create table memoryd.embeddings (
    embedder text not null,
    content_hash bytea not null,
    embedding vector(:dimensions) not null,
    used_at timestamptz not null default now(),
    primary key (embedder, content_hash)
);
comment on table memoryd.embeddings is 'Answers of remote embedders by SHA-256 of the text, kept while they are used.';

create function memoryd.setting_integer(p_key text) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select (value #>> '{}')::integer from memoryd.settings where key = p_key $$;

-- Whether so much work waits that what has time should leave it the processor: dreams of an idle fleet, builds of big indexes.
create function memoryd.is_busy() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select count(*) = 1000 from (select from memoryd.jobs where visible_at <= now() limit 1000) waiting $$;

-- A user among those who take turns.
create function memoryd.party_of(p_user uuid) returns bigint
language sql immutable parallel safe strict
return hashtextextended('user ' || p_user::text, 0);

-- When it is a party's turn next, as far as others wait: now, or a second after the last of what it has pending. Jobs are claimed in the
-- order of their turns, so who asks for one thing overtakes what another, who asked for hundreds, has not got yet. With nobody
-- else waiting nothing waits for its turn; and nobody waits for ever: whoever comes after a turn has passed stands behind it.
create function memoryd.next_turn(p_topic text, p_party bigint) returns timestamptz
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select greatest(clock_timestamp(), (select j.turn + interval '1 second' from memoryd.jobs j
                                        where j.party = p_party and j.topic = p_topic
                                        order by j.turn desc
                                        limit 1))
$$;

-- Ends a statement by which an end user would have more pending than MEMORYD_PENDING_PER_USER; agents have no such limit. Called with
-- how many the statement adds, whose jobs are not queued yet. Statements at the same time do not see one another's.
create function memoryd.check_pending(p_added bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    most integer;
    pending bigint;
begin
    if memoryd.caller_is_service() then
        return;
    end if;
    most := memoryd.setting_integer('pending_per_user');
    select count(*) into pending
    from (select from memoryd.jobs j where j.party = memoryd.party_of(memoryd.caller_id()) limit most) counted;
    if pending + p_added > most then
        raise exception 'at most % requests and commands of a user may be pending, and this would make %', most, pending + p_added
            using errcode = 'configuration_limit_exceeded',
                  hint = 'Nothing of this statement was taken. Wait for answers to those that are pending, then ask for fewer at once.';
    end if;
end
$$;

-- Ends a check constraint that failed with words that help: `check (<allowed> or memoryd.refuse(what, hint))`.
-- Strict, so that null, which a check lets pass, is let pass here too.
create function memoryd.refuse(p_message text, p_hint text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', p_message using errcode = 'check_violation', hint = p_hint;
end
$$;

-- The checks of how big a value may be: `check (memoryd.text_fits('content', content, 10000000))`. Calls, and no expressions of many
-- parts, since every statement prepares the checks of its table anew. Each is true, or ends the statement with words that help.
create function memoryd.text_fits(p_name text, p_text text, p_most integer) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    -- In bytes first: how many those are is known without reading a long text.
    return octet_length(p_text) <= p_most or length(p_text) <= p_most
        or memoryd.refuse(p_name || ' has ' || length(p_text) || ' characters',
                          'At most ' || to_char(p_most, 'FM999,999,999') || ' characters: give it in parts, or say where it is found.');
end
$$;

create function memoryd.list_fits(p_name text, p_list anyarray) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return cardinality(p_list) = 0 or (cardinality(p_list) <= 1000 and octet_length(p_list::text) <= 100000)
        or memoryd.refuse(p_name || ' has ' || cardinality(p_list) || ' entries, ' || octet_length(p_list::text) || ' bytes',
                          'At most 1,000 entries, and 100,000 bytes together.');
end
$$;

-- Deep values and long numbers break the parsers of who reads them (Python's take 4,300 digits of an integer).
create function memoryd.json_fits(p_name text, p_json jsonb) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
declare
    fault text;
begin
    if p_json = '{}' then
        return true;
    end if;
    -- Statement by statement: the text comes last, since of 1e9999 it is ten thousand times as long. Few characters hold no long number.
    if jsonb_path_exists(p_json, 'strict $.**{65 to last}') then
        fault := ' is nested deeper than 64 levels';
    elsif pg_column_size(p_json) <= 2000 and octet_length(p_json::text) <= 1000 then
        return true;
    elsif exists (select from jsonb_path_query(p_json, 'strict $.** ? (@.type() == "number")') as n(value)
                  where abs(n.value::numeric) >= 1e1000 or scale(n.value::numeric) > 1000) then
        fault := ' holds a number of more than 1,000 digits';
    elsif octet_length(p_json::text) > 1048576 then
        fault := ' has ' || octet_length(p_json::text) || ' bytes as text';
    end if;
    return fault is null
        or memoryd.refuse(p_name || fault, 'At most 1,048,576 bytes of JSON, 64 levels deep, its numbers of 1,000 digits.');
end
$$;

-- One constant payload for each topic: identical notifications collapse within a transaction.
create function memoryd.ring(p_topic text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select pg_notify('memoryd', p_topic) $$;

-- Notifications for clients, with the switch to turn them off: NOTIFY takes a lock on the whole cluster at commit.
create function memoryd.announce(p_channel text, p_payload text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select pg_notify(p_channel, p_payload)
    where (select value from memoryd.settings where key = 'public_notifications') = 'true'::jsonb
$$;

-- Leases up to p_lanes lanes that have work and reads their first jobs, an equal share of p_jobs each.
-- Three statements in one volatile function: the jobs are read with a snapshot younger than the lease, so a
-- previous holder's last commit is always seen. A job that once did not come back is read alone.
create function memoryd.claim_lanes(p_topic text, p_lanes integer, p_jobs integer, p_lease interval)
returns table (id bigint, lane text, ref uuid, payload jsonb, attempt integer, spared integer,
               created_at timestamptz, token bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    candidates text[];
    leased text[];
begin
    -- One step of the index a lane, each at the lane's oldest job.
    with recursive pending(lane, oldest) as (
        (select j.lane, j.id from memoryd.jobs j
         where j.topic = p_topic and j.lane is not null
         order by j.lane, j.id limit 1)
        union all
        select n.lane, n.id
        from pending p
        cross join lateral (
            select j.lane, j.id from memoryd.jobs j
            where j.topic = p_topic and j.lane > p.lane
            order by j.lane, j.id limit 1
        ) n
    )
    select array_agg(f.lane) into candidates
    from (
        select p.lane
        from pending p
        left join memoryd.lanes l on l.topic = p_topic and l.lane = p.lane
        where (l.lane is null or (l.leased_until <= clock_timestamp() and l.not_before <= clock_timestamp()))
        order by p.oldest
        limit p_lanes
    ) f;
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
        set leased_until = clock_timestamp() + p_lease, token = l.token + 1
        from chosen c
        where l.topic = p_topic and l.lane = c.lane
        returning l.lane
    )
    select array_agg(h.lane) into leased from held h;
    if leased is null then
        return;
    end if;

    return query
    with head as materialized (
        select h.id
        from unnest(leased) as l(lane)
        cross join lateral (
            select w.id,
                   row_number() over (order by w.id) as place,
                   bool_or(w.attempt > w.spared) over (order by w.id) as suspect
            from (
                select j.id, j.attempt, j.spared from memoryd.jobs j
                where j.topic = p_topic and j.lane = l.lane
                order by j.id
                limit greatest(1, p_jobs / cardinality(leased))
            ) w
        ) h
        where not h.suspect or h.place = 1
    )
    update memoryd.jobs j
    set attempt = j.attempt + 1
    from head, memoryd.lanes l
    where j.id = head.id and l.topic = p_topic and l.lane = j.lane
    returning j.id, j.lane, j.ref, j.payload, j.attempt, j.spared, j.created_at, l.token;
    if not found then
        update memoryd.lanes l set leased_until = '-infinity'
        where l.topic = p_topic and l.lane = any(leased);
    end if;
end
$$;
comment on function memoryd.claim_lanes is 'Leases lanes that have work and claims their first jobs, in order.';

revoke all on schema memoryd from public;
revoke all on all tables in schema memoryd from public;
revoke all on all functions in schema memoryd from public;
