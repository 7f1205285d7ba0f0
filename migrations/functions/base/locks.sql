-- Every NOTIFY of memoryd: wake-ups for daemons (channel memoryd) and announcements to clients. And its
-- locks, which only memoryd can take: rows of memoryd.lanes (topic lock), and the table memoryd.erased_texts.
-- Each lasts until the end of the transaction. Statements after the call see what the transaction committed
-- that had the lock before.

-- THE ORDER OF LOCKS, which every transaction keeps that locks more than one row:
--   1. a user's own lock (memoryd.user_lock)   6. what is remembered, each by id: messages, memories,
--   2. lanes                                      links, then insights
--   3. jobs                                    7. the erasures' gate (memoryd.erased_texts), then requests
--   4. commands, by id                         8. the statistics' lock, then lexemes in their order
--   5. executions
-- Leaves of anchors come after what is remembered, then anchors; who gives them positions waits for neither
-- (trail/log.sql).
-- A statement that writes several of them first locks them in this order, in a CTE (`order by ... for
-- update`), all that it needs of a kind at once: two ordered statements on one table are not one order.
-- Daemons that cannot keep it skip what is locked, or give way to clients by a lock_timeout that is shorter
-- than deadlock_timeout. An erasure is the exception: it needs the commands before the jobs, since a command
-- that ends makes a job. So it waits for neither, but takes both with `nowait` and tries again. Who
-- removes what stored texts show (memories/quotes.sql) skips commands and requests that are locked. In which
-- order a client comes to its rows, in one statement or in several, is the client's (docs/sql.md).

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

create or replace function memoryd.lock(p_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from memoryd.lanes l where l.topic = 'lock' and l.lane = p_name for update;
    if not found then
        raise exception 'no lock %', p_name
            using errcode = 'undefined_object',
                  hint = 'Names: select lane from memoryd.lanes where topic = ''lock''.';
    end if;
end
$$;
comment on function memoryd.lock(text) is
    'Takes the lock of this name, once no other transaction has it, until the transaction ends.';

create or replace function memoryd.lock_shared(p_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from memoryd.lanes l where l.topic = 'lock' and l.lane = p_name for share;
    if not found then
        raise exception 'no lock %', p_name
            using errcode = 'undefined_object',
                  hint = 'Names: select lane from memoryd.lanes where topic = ''lock''.';
    end if;
end
$$;
comment on function memoryd.lock_shared(text) is
    'As memoryd.lock(), but any number of transactions may have it so at the same time.';

-- The name of a user's lock. With it a user is erased by one transaction at a time, and no dream writes
-- insights about them meanwhile.
create or replace function memoryd.user_lock(p_user uuid) returns text
language sql immutable parallel safe
return 'user ' || (uuid_hash_extended(p_user, 0) & 255);

-- Called before a copy of users' texts is written (an embedding, an answer): an erasure waits until the
-- copy is committed, and then finds it. A call while an erasure runs waits for the erasure; after it, the
-- text to copy does not exist any more.
create or replace function memoryd.block_erasures() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$ begin lock table memoryd.erased_texts in row share mode; end $$;

-- The same where it need not wait. A context is not held up by the erasure of somebody who leaves a
-- transaction open: what it shows is then removed by the last look (memoryd.remove_outdated).
create or replace function memoryd.try_to_block_erasures() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table memoryd.erased_texts in row share mode nowait;
exception when lock_not_available then
    null;
end
$$;
