-- The history of the queue serves one plot, the last day of the page Now. Minutes alone are kept, and each
-- daemon has rows of its own.

drop table memoryd.activity_writers, memoryd.daily_retrievals;

truncate memoryd.activity;
alter table memoryd.activity
    drop column seconds,
    drop column oldest_seconds,
    drop column waited,
    drop column ran,
    add column writer uuid not null,
    add column number bigint not null,
    add primary key (writer, number, topic);
create index activity_time on memoryd.activity (began_at);
comment on table memoryd.activity is
    'What a daemon did of a topic in a minute, and what waited at its end, for two days. What has no row had '
    'nothing to do.';
comment on column memoryd.activity.writer is
    'The process that counted; zeros for what waited, which is measured once for all.';
comment on column memoryd.activity.number is
    'The number of the minute, by which the process writes it once.';
comment on column memoryd.activity.waiting is
    'Jobs that nobody has claimed, at the end of the minute. Above 5,000 it is an estimate.';
