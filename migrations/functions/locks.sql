-- Held until the transaction ends. What comes after it is a statement of its own and sees what the last holder committed.
create or replace function memoryd.lock(p_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from memoryd.locks l where l.name = p_name for update;
    if not found then
        raise exception 'no lock %', p_name using errcode = 'undefined_object', hint = 'Names: select name from memoryd.locks.';
    end if;
end
$$;
comment on function memoryd.lock is 'Waits until nobody else holds the lock of this name, and holds it to the end of the transaction.';

create or replace function memoryd.lock_shared(p_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from memoryd.locks l where l.name = p_name for share;
    if not found then
        raise exception 'no lock %', p_name using errcode = 'undefined_object', hint = 'Names: select name from memoryd.locks.';
    end if;
end
$$;
comment on function memoryd.lock_shared is 'As memoryd.lock(), but any number may hold it so at once.';

-- One erasure of a user at a time, and no dream's insights about them meanwhile.
create or replace function memoryd.user_lock(p_user uuid) returns text
language sql immutable parallel safe
return 'user ' || (uuid_hash_extended(p_user, 0) & 255);

-- Whoever writes a copy of others' texts (an embedding, an answer) holds this until it is committed: an erasure waits for it,
-- and then finds the copy; who comes later finds the text no more.
create or replace function memoryd.hold_off_erasures() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$ begin lock table memoryd.erased_texts in row share mode; end $$;
