-- What the daemons did and how the memory grew, as history: the queue minute by minute, sources and
-- retrievals day by day. Counts and durations only: no row says of a user or an agent.

create table memoryd.activity (
    seconds integer not null check (seconds in (60, 3600)),
    began_at timestamptz not null,
    topic text not null,
    done bigint not null default 0,
    failed bigint not null default 0,
    waiting bigint,
    oldest_seconds real,
    waited integer[] not null default '{}',
    ran integer[] not null default '{}',
    primary key (seconds, began_at, topic)
    -- A minute is written by each daemon, and once more when the queue is measured.
) with (fillfactor = 70);
comment on table memoryd.activity is
    'What the daemons did of a topic in a minute, later in an hour. What has no row had nothing to do.';
comment on column memoryd.activity.seconds is
    'How long it is: 60; 3600 for what is older than 26 hours.';
comment on column memoryd.activity.done is 'Jobs whose effects were committed.';
comment on column memoryd.activity.failed is
    'Attempts of jobs that failed: they are retried, or became dead letters.';
comment on column memoryd.activity.waiting is
    'Jobs that nobody has claimed, at the end of the minute; in an hour the maximum. Above 5,000 it is '
    'an estimate.';
comment on column memoryd.activity.oldest_seconds is
    'How long the job had waited whose turn it was, at the end of the minute; in an hour the maximum.';
comment on column memoryd.activity.waited is
    'How many jobs waited up to each of the bounds until they were first claimed (SECONDS in '
    'daemon/measures.py), and longer than the last one.';
comment on column memoryd.activity.ran is
    'How many batches that were done took up to each of these bounds, and longer.';

-- The last minute that each daemon has written: it may be written again when the answer was lost, and counts
-- once.
create table memoryd.activity_writers (
    id uuid primary key,
    number bigint not null,
    written_at timestamptz not null default now()
);
comment on table memoryd.activity_writers is
    'Who writes memoryd.activity, and the number of the last minute that each has written.';

alter table memoryd.daily_sizes add column source_rows jsonb not null default '{}';
comment on column memoryd.daily_sizes.source_rows is
    'Rows by source, as the server estimates them. Empty where it was not counted yet.';

create table memoryd.daily_retrievals (
    day date primary key,
    asked bigint not null,
    useful bigint not null,
    not_useful bigint not null
);
comment on table memoryd.daily_retrievals is
    'How many retrievals there were on a day, and how they were judged: kept when memory_queries is swept.';
comment on column memoryd.daily_retrievals.asked is
    'Recalls, and contexts for which was searched.';
comment on column memoryd.daily_retrievals.useful is 'How many of them were judged useful (mark_useful).';
