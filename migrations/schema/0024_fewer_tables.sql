-- Seven small tables become rows of two others. Locks and ticks are lanes that have no jobs. What is one
-- value, or has a row now and then, is a setting: what the language model was asked in this hour, the big
-- indexes, the sizes of the days, the accounts that were deleted and whose memory is not erased yet, and what
-- the last upgrade made, which this one notes again.

insert into memoryd.lanes (topic, lane) select 'lock', l.name from memoryd.locks l;
insert into memoryd.lanes (topic, lane, not_before)
select 'tick', t.name, max(t.scheduled_at) from memoryd.ticks t group by t.name;

insert into memoryd.settings (key, value)
select 'model_calls', jsonb_build_object('hour', c.hour, 'calls', c.calls, 'tokens', c.tokens)
from memoryd.model_calls c
order by c.hour desc
limit 1;
insert into memoryd.settings (key, value)
select 'dense_index.' || d.source,
       jsonb_build_object('index_name', d.index_name, 'lists', d.lists, 'rows', d.rows)
from memoryd.dense_indexes d;
insert into memoryd.settings (key, value)
select 'sizes',
       jsonb_object_agg(to_char(s.day, 'YYYY-MM-DD'),
                        jsonb_build_object('bytes', s.bytes, 'measured_at', s.measured_at))
from memoryd.daily_sizes s
having count(*) > 0;
insert into memoryd.settings (key, value)
select 'deleted_account.' || a.user_id, to_jsonb(a.deleted_at) from memoryd.deleted_accounts a;

drop table memoryd.locks, memoryd.ticks, memoryd.model_calls, memoryd.dense_indexes, memoryd.daily_sizes,
           memoryd.deleted_accounts;
drop table if exists memoryd.made_objects;

comment on table memoryd.settings is
    'Settings that the triggers and functions read, and single values that the daemons keep.';
comment on table memoryd.lanes is
    'Leases on ordered streams of jobs. After a failure the whole stream waits until not_before. Without '
    'jobs: leases of other work, locks (topic lock), and the last tick of each scheduled task (topic tick).';

-- These settings are gone.
delete from memoryd.settings where key in ('public_notifications', 'pending_per_user');
