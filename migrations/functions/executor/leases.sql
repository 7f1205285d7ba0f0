-- Leases of commands that executors outside of the daemon run. A lease that expires gives its command to the
-- next executor: daemons look for such (TAKE_OVER in plugins/executor/commands.py). The claim's started_at
-- tells it from the claims before and after it.

-- Refuses what is no length of a lease.
create or replace function memoryd.check_lease(p_seconds double precision) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if (p_seconds between 1 and 86400) is not true then
        perform memoryd.refuse('lease_seconds is ' || coalesce(p_seconds::text, 'null'),
                               'Give from 1 second to a day, and renew it three times as often.');
    end if;
end
$$;

-- Gives a command that runs since p_started a lease, and counts the try.
create or replace function memoryd.begin_lease(
    p_command uuid, p_started timestamptz, p_seconds double precision) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not memoryd.caller_is_service() then
        return;
    end if;
    insert into memoryd.executions as e (command_id, daemon_id, lease_until)
    select c.id, '00000000-0000-0000-0000-000000000000', clock_timestamp() + make_interval(secs => p_seconds)
    from public.agent_commands c
    where c.id = p_command and c.status = 'running' and c.started_at = p_started
    on conflict (command_id) do update
    set daemon_id = excluded.daemon_id, tries = e.tries + 1, lease_until = excluded.lease_until;
end
$$;

-- Ends the lease of a command that has ended.
create or replace function memoryd.end_lease(p_command uuid) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if memoryd.caller_is_service() then
        delete from memoryd.executions e
        using public.agent_commands c
        where e.command_id = p_command and c.id = e.command_id and c.status in ('completed', 'failed');
    end if;
end
$$;

create or replace function public.renew_command(
    command_id uuid, started_at timestamptz, lease_seconds double precision default 60) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform memoryd.check_lease(renew_command.lease_seconds);
    if not memoryd.caller_is_service() then
        raise exception 'leases are renewed by memoryd_service' using errcode = 'insufficient_privilege';
    end if;
    -- The lease of a command that is taken over meanwhile is infinite until it is claimed again.
    update memoryd.executions e
    set lease_until = clock_timestamp() + make_interval(secs => renew_command.lease_seconds)
    from public.agent_commands c
    where e.command_id = renew_command.command_id and e.lease_until <> 'infinity'
      and c.id = e.command_id and c.status = 'running' and c.started_at = renew_command.started_at;
    return found;
end
$$;
comment on function public.renew_command(uuid, timestamptz, double precision) is
    'Renews the lease of a command by the started_at of its claim. False: it runs no more, or for another '
    'executor; stop working on it.';
