-- Locks that only memoryd can take: rows of memoryd.lanes (topic lock), and the table memoryd.erased_texts.
-- Each lasts until the end of the transaction. Statements after the call see what the transaction committed
-- that had the lock before.

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
