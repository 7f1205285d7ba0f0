-- A job is snoozed at most once for each attempt: one with more snoozes than attempts would never be claimed
-- again, and block its lane. Jobs that are so are repaired.

update memoryd.jobs
set snoozes = attempt - case when claimed_by is null then 0 else 1 end
where snoozes > attempt - case when claimed_by is null then 0 else 1 end;

alter table memoryd.jobs add constraint jobs_snoozes_check
    check (snoozes <= attempt - case when claimed_by is null then 0 else 1 end) not valid;

comment on column memoryd.jobs.claimed_by is
    'The number of the daemon that has claimed it, 0 where that has none; '
    'null where it was handed back, or never claimed.';
