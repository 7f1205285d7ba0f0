-- Who deletes an account deletes its memory: a trigger on the application's table of accounts (auth.users),
-- which supabase.sql makes where it may. The erasure belongs to the transaction that deletes the account:
-- they are committed together, or neither is.

-- Those of these users about whom anything is kept.
create or replace function memoryd.known_users(p_users uuid[]) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.users_with_rows(p_users)
    union
    select t.user_id from memoryd.trail_leaves t where t.user_id = any(p_users)
    union
    select t.user_id from memoryd.replica_collections t where t.user_id = any(p_users)
    union
    select t.user_id from memoryd.replica_buried t where t.user_id = any(p_users)
    union
    select t.user_id from memoryd.replica_left_out t where t.user_id = any(p_users)
    union
    select t.user_id from memoryd.replica_section_conflicts t where t.user_id = any(p_users)
$$;

-- Erases one user now, and returns whether it did. It waits for nobody longer than two seconds: what is in
-- the way, and a user with more than a few thousand rows, is left to the daemon. So is everybody where it
-- would read more than a million rows of others, to find who has retrieved the user's memories.
create or replace function memoryd.erased_at_once(p_user uuid) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if (select count(*) from (select from memoryd.row_ids_of(p_user) limit 2001) r) > 2000
       or (select sum(c.reltuples) from pg_class c
           where c.oid in ('public.memory_queries'::regclass, 'public.memory_anchors'::regclass)) > 1e6 then
        return false;
    end if;
    -- Errors undo what it has done, and release its locks.
    perform memoryd.erase_user(p_user, '2 seconds');
    return true;
exception when others then
    raise log 'memoryd: the memory of a deleted account is erased later (%)', sqlstate;
    return false;
end
$$;

-- After accounts were deleted. What cannot be erased at once, because many accounts were deleted, because it
-- has taken two seconds already, because somebody is in the way, or in a transaction that does not see what
-- others commit, is queued: as a request to erase, which the daemon carries out as soon as the deletion is
-- committed.
create or replace function memoryd.account_deleted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    -- In one order, so that two transactions that delete the same accounts do not wait for each other.
    users constant uuid[] := array(
        select k.id from memoryd.known_users(array(select g.id from gone g)) as k(id)
        order by memoryd.user_lock(k.id));
    at_once boolean :=
        cardinality(users) <= 20 and current_setting('transaction_isolation') = 'read committed';
    until constant timestamptz := clock_timestamp() + interval '2 seconds';
    whose uuid;
    later uuid[] := '{}';
begin
    if users = '{}'
       or exists (select from memoryd.settings s
                  where s.key = 'erase_with_account' and s.value = 'false') then
        return null;
    end if;
    insert into memoryd.settings (key, value)
    select 'deleted_account.' || u.id, to_jsonb(now()) from unnest(users) as u(id)
    on conflict (key) do nothing;
    foreach whose in array users loop
        if not at_once or clock_timestamp() > until or not memoryd.erased_at_once(whose) then
            -- Who is in the way of one may be in the way of all: it waits once.
            at_once := false;
            later := later || whose;
        end if;
    end loop;
    if later <> '{}' then
        insert into public.memory_requests (kind, user_id) select 'erase', u.id from unnest(later) as u(id);
    end if;
    return null;
end
$$;
