-- What the queue has about a user: jobs, lanes, dead letters, executions of commands. An erasure takes them
-- from the daemons before it deletes anything else, so that nothing that a daemon is working on is written
-- afterwards.

-- Jobs that are about a user's rows. A job whose payload has "gone" is not among them: it indexes a
-- conversation's other messages again, without what was deleted between them.
create or replace function memoryd.jobs_of(p_user uuid) returns setof bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select j.id from memoryd.jobs j
    where not coalesce(j.payload ? 'gone', false) and j.ref in (select memoryd.row_ids_of(p_user))
$$;

-- The lanes in which a user's memories are linked.
create or replace function memoryd.lanes_of(p_user uuid) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array(
        select l.lane from memoryd.lanes l where right(l.lane, 17) = memoryd.associate_lane('', p_user))
$$;

-- THE ORDER OF LOCKS, which every transaction keeps that locks more than one row:
--   1. a user's own lock (memoryd.user_lock)   5. executions
--   2. lanes                                   6. what is remembered: memories, messages, links; by id
--   3. jobs                                    7. the erasures' gate (memoryd.erased_texts), then requests
--   4. commands, by id                         8. the statistics' lock, then lexemes in their order
-- A statement that writes several of them first locks them in this order, in a CTE (`order by ... for
-- update`). An erasure is the exception: it needs the commands before the jobs, since a command that ends
-- makes a job. So it waits for neither, but takes both with `nowait` and tries again.
--
-- Takes what is about a user from the daemons and the agents: first the commands, so that none of them can
-- end, then the lanes and the jobs, which it deletes. What a daemon was working on is then never written,
-- because its job is gone. A job that is being completed is waited for without any of these locks; what it
-- wrote is committed then, and erased with the rest.
create or replace function memoryd.take_jobs(p_user uuid, p_lanes text[] default '{}') returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    until constant timestamptz := clock_timestamp() + interval '30 seconds';
begin
    loop
        -- An exception in this block releases the locks that it has taken.
        begin
            perform from public.agent_commands c where c.user_id = p_user for update of c nowait;
            perform from memoryd.lanes l where l.lane = any(p_lanes) for update of l nowait;
            perform from memoryd.jobs j where j.id in (select memoryd.jobs_of(p_user)) for update of j nowait;
            exit;
        exception when lock_not_available then
            if clock_timestamp() > until then
                raise exception 'somebody has been writing about this user for half a minute'
                    using errcode = 'lock_not_available',
                          hint = 'Nothing was erased. Try again in a moment; '
                                 'a transaction that was left open must end first.';
            end if;
        end;
        perform pg_sleep(0.02);
    end loop;
    delete from memoryd.jobs j where j.id in (select memoryd.jobs_of(p_user));
end
$$;

-- Deletes executions, dead letters and jobs that are about these rows, of which an erasure has deleted all
-- but conversations that go on without the user. Of such a conversation the jobs and dead letters with "gone"
-- stay (see jobs_of). Dead letters that mention one of the rows, or the user, in their payload are deleted,
-- too. Comes after the rows are deleted, because deleting messages makes new jobs.
create or replace function memoryd.delete_jobs_about(p_user uuid, p_rows uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from memoryd.executions e where e.command_id in (select unnest(p_rows));
    delete from memoryd.dead_letters d
    where d.ref = any(p_rows)
              and not (coalesce(d.payload ? 'gone', false)
                       and exists (select from public.conversation_sessions s where s.id = d.ref))
       or d.payload is not null and exists (
           select
           from regexp_matches(d.payload::text, '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'g') as m(id)
           where m.id[1]::uuid = any(p_rows || p_user));
    -- A job that a daemon has locked is skipped: the daemon is completing it, and deletes it itself.
    delete from memoryd.jobs j
    where j.id in (select k.id from memoryd.jobs k
                   where k.ref = any(p_rows)
                     and not (coalesce(k.payload ? 'gone', false)
                              and exists (select from public.conversation_sessions s where s.id = k.ref))
                   for update skip locked);
end
$$;
