-- Whether notifications are to be sent. A queue that is full fails the transaction that notifies: a listener that stands idle in
-- a transaction lets it grow, and any login can fill it. From half full on nothing is sent, and the daemons' poll does the work.
create or replace function memoryd.may_notify() returns boolean
language sql volatile
return pg_notification_queue_usage() < 0.5;

-- One constant payload for each topic: identical notifications collapse within a transaction.
create or replace function memoryd.ring(p_topic text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select pg_notify('memoryd', p_topic) where memoryd.may_notify() $$;

-- Notifications for clients, with the switch to turn them off: NOTIFY takes a lock on the whole cluster at commit.
create or replace function memoryd.announce(p_channel text, p_payload text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select pg_notify(p_channel, p_payload)
    where (select value from memoryd.settings where key = 'public_notifications') = 'true'::jsonb
      and memoryd.may_notify()
$$;
