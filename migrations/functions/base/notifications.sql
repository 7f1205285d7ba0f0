-- Notifications: wake-ups for daemons (channel memoryd) and announcements to clients. Every NOTIFY of
-- memoryd is sent here.

-- Whether notifications may be sent: not while the server's queue of notifications is half full. A full
-- queue fails each transaction that notifies. It grows while a listener stays idle within a transaction,
-- and any login can fill it. Daemons poll too, so they find their work without notifications.
create or replace function memoryd.may_notify() returns boolean
language sql volatile
return pg_notification_queue_usage() < 0.5;

-- Wakes the daemons that work on a topic. The payload is only the topic, since equal notifications of a
-- transaction are sent once.
create or replace function memoryd.wake(p_topic text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select pg_notify('memoryd', p_topic) where memoryd.may_notify() $$;

-- Tells clients of an event.
create or replace function memoryd.announce(p_channel text, p_payload text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select pg_notify(p_channel, p_payload) where memoryd.may_notify() $$;
