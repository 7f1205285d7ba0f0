-- What the daemons share among themselves: settings, jobs, leases, the schedule, kept embeddings and locks.
-- Nobody but the daemons is granted anything on these tables.

create schema if not exists memoryd;
comment on schema memoryd is 'memoryd: the daemons'' own machinery. Users work with schema public.';

-- Settings that triggers and functions read. `memoryd migrate` and `memoryd run` write them.
create table memoryd.settings (
    key text primary key,
    value jsonb not null,
    updated_at timestamptz not null default now()
);
comment on table memoryd.settings is
    'Settings the triggers and functions read: embedding dimensions, default TTLs, notifications.';

insert into memoryd.settings (key, value) values
    ('public_notifications', 'true'),
    ('notification_user_ids', 'false'),
    ('pending_per_user', '100'),
    ('audit', 'true'),
    ('ttl_hours.outcome', '72'),
    ('ttl_hours.error', '72'),
    ('ttl_hours.observation', '72'),
    ('ttl_hours.task_memory', '2160');

-- With this key memoryd signs what it writes into the server's log, where any login may write lines.
insert into memoryd.settings (key, value)
select 'log_key', to_jsonb(string_agg(replace(gen_random_uuid()::text, '-', ''), ''))
from generate_series(1, 3);

-- A job is a unit of the daemons' own work. There is no status column: claiming raises `attempt` and moves
-- `visible_at` into the future, so that the claim of a worker that died expires by itself. (id, attempt) is
-- the fencing token.
--   snoozes        attempts that are not counted: they ended through no fault of the job (a provider was
--                  down, the daemon was stopping). A job with attempt > snoozes has failed, or its worker
--                  died: from then on it is in no batch with fresh jobs.
--   solo_attempts  how often its worker died while the job was the only one of its batch. Only such deaths
--                  make it a dead letter, since otherwise another job of the batch may have killed the
--                  worker.
--   claimed_by     the number of the daemon that has claimed it (memoryd.daemons.number).
-- Users take turns: the jobs of one user are a second apart (memoryd.next_fair_time).
create table memoryd.jobs (
    id bigint generated always as identity primary key,
    topic text not null,
    lane text,
    ref uuid,
    payload jsonb,
    tenant bigint,
    fair_at timestamptz not null default '-infinity',
    attempt integer not null default 0,
    snoozes integer not null default 0,
    solo_attempts integer not null default 0,
    claimed_by integer,
    visible_at timestamptz not null default now(),
    created_at timestamptz not null default now(),
    last_error text,
    -- A job is snoozed at most once for each attempt: with more it would never be claimed again, and block
    -- its lane.
    constraint jobs_snoozes_check
        check (snoozes <= attempt - case when claimed_by is null then 0 else 1 end)
) with (
    -- Rows live for milliseconds: room for the claim's update on the same page, and vacuum before dead rows
    -- pile up.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.0,
    autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table memoryd.jobs is
    'Work that waits for a daemon, or is claimed by one. Completed jobs are deleted.';
comment on column memoryd.jobs.tenant is
    'The user whom the job is for, as a hash (memoryd.tenant_of); '
    'null where it is the agents'' own, or no turns are taken.';
comment on column memoryd.jobs.fair_at is 'Jobs without a lane are claimed by this time, then in order.';
comment on column memoryd.jobs.claimed_by is
    'The number of the daemon that has claimed it, 0 where that has none; '
    'null where it was handed back, or never claimed.';
comment on column memoryd.jobs.last_error is
    'The error of its last attempt that failed; null where none did.';

-- No index contains visible_at, so that a claim stays a HOT update: few jobs are claimed at once, and a scan
-- skips them.
create index jobs_unlaned on memoryd.jobs (topic, fair_at, id) where lane is null;
create index jobs_laned on memoryd.jobs (topic, lane, id) where lane is not null;

-- What a user has pending, and the last turn of it.
create index jobs_tenant on memoryd.jobs (tenant, topic, fair_at) where tenant is not null;

-- A lane is an ordered stream of jobs of one topic (one agent's memories), leased to one worker at a time.
create table memoryd.lanes (
    topic text not null,
    lane text not null,
    leased_until timestamptz not null default '-infinity',
    not_before timestamptz not null default '-infinity',
    token bigint not null default 0,
    leased_by integer,
    primary key (topic, lane)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
comment on table memoryd.lanes is
    'Leases on ordered streams of jobs. After a failure the whole stream waits until not_before.';

create table memoryd.dead_letters (
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
comment on table memoryd.dead_letters is
    'Dead letters: jobs that are not retried any more, with the error. `memoryd dead` lists them, '
    '`memoryd dead requeue` tries again.';
create index dead_letters_topic on memoryd.dead_letters (topic, died_at);

create table memoryd.daemons (
    id uuid primary key,
    host text not null,
    pid integer not null,
    version text not null,
    wake_up text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    number integer,
    backend integer,
    failing jsonb not null default '{}'
);
comment on table memoryd.daemons is 'One row for each running daemon, refreshed by its heartbeat.';
comment on column memoryd.daemons.wake_up is 'How it learns of new jobs: listen (notifications) or poll.';
comment on column memoryd.daemons.number is 'What its claims are marked with (claimed_by).';
comment on column memoryd.daemons.backend is
    'The server process of its listener: when that has ended, the daemon has. Null behind a transaction '
    'pooler.';
comment on column memoryd.daemons.failing is
    'Parts that deal with the outside, have failed, and are started again: each with its error.';

-- A tick of the schedule is a row: whichever daemon inserts it runs it, so no leader is needed.
create table memoryd.ticks (
    name text not null,
    scheduled_at timestamptz not null,
    daemon_id uuid not null,
    primary key (name, scheduled_at)
);
comment on table memoryd.ticks is 'Ticks of the schedule that some daemon has taken.';

create table memoryd.daily_sizes (
    day date primary key,
    bytes bigint not null,
    measured_at timestamptz not null default now()
);
comment on table memoryd.daily_sizes is 'How big the database was, once a day: how fast it grows.';

-- Which daemon's built-in executor runs a command, and until when its lease lasts.
create table memoryd.executions (
    command_id uuid primary key,
    daemon_id uuid not null,
    tries integer not null default 1,
    lease_until timestamptz not null
);
comment on table memoryd.executions is
    'Commands that a daemon''s built-in executor runs now, with a lease that its heartbeat renews.';

-- Embeddings that were paid for, by content: a call repeated after a crash costs nothing.
create table memoryd.embeddings (
    embedder text not null,
    content_hash bytea not null,
    embedding vector not null,
    used_at timestamptz not null default now(),
    primary key (embedder, content_hash)
);
comment on table memoryd.embeddings is
    'Answers of remote embedders by SHA-256 of the text, kept while they are used.';

create table memoryd.model_calls (
    hour timestamptz primary key,
    calls integer not null,
    tokens bigint not null default 0
);
comment on table memoryd.model_calls is 'What the language model was asked in an hour, by all daemons.';
comment on column memoryd.model_calls.hour is 'The hour, in UTC, in which the calls were made.';
comment on column memoryd.model_calls.calls is
    'Calls, counted before they are made: also those of killed daemons.';
comment on column memoryd.model_calls.tokens is
    'What the replies cost, as the server says or as estimated.';

-- Locks that only the machinery can take: rows of a table that is closed to clients. Any login can take an
-- advisory lock whose key it knows. Users and sessions share 256 rows each: no row tells who they are, and
-- none is ever added.
create table memoryd.locks (
    name text primary key
);
comment on table memoryd.locks is 'Rows that are locked to exclude one another: see memoryd.lock().';

insert into memoryd.locks (name)
select unnest(array['executor', 'dream_sessions', 'lexeme_statistics'])
union all
select kind || n from unnest(array['user ', 'window ']) kind, generate_series(0, 255) n;

-- Locks of note_knowledge(), so that the same text given twice at once is stored once.
insert into memoryd.locks (name) select 'knowledge ' || n from generate_series(0, 63) n;

-- Two memories cannot be made to replace each other at the same moment: whoever sets superseded_by holds one
-- of these locks, by the hash of the user.
insert into memoryd.locks (name) select 'superseding ' || n from generate_series(0, 63) n;
