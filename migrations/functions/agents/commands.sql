-- Agents' commands: their times, the jobs for each new status, and the functions by which an executor takes
-- and ends one; and agents' runs (agent_sessions).

-- Sets the time at which a command began or ended where the writer left it out. Without started_at a command
-- that is running would never be overdue.
create or replace function memoryd.stamp_times() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.status = 'running' then
        new.started_at := now();
    else
        new.finished_at := now();
    end if;
    return new;
end
$$;

-- Adds agents that are new. Where another open transaction is adding the same name, this one does not wait
-- for it: a daemon registers the name, first after p_pause, and retries until it can. Nothing needs the
-- agent's row meanwhile. p_users: for whom the agents of the same index are named, null for nobody; an agent
-- keeps the first (named_for), and nobody where several are named at once.
create or replace function memoryd.register_agents(
    p_agents text[], p_pause interval default '0', p_users uuid[] default null) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    unknown constant text[] := array(
        select distinct a from unnest(p_agents) a
        where a <> '_shared'
          and not exists (select from public.agents g
                          where g.agent_id = a and (p_users is null or g.named_for is not null))
        order by a);
    patience constant text := current_setting('lock_timeout');
    nobody constant uuid := '00000000-0000-0000-0000-000000000000';
begin
    if cardinality(unknown) = 0 then
        return;
    end if;
    begin
        perform set_config('lock_timeout', '10ms', true);
        insert into public.agents as g (agent_id, named_for)
        select n.agent, case when p_users is not null then
                   case when count(distinct coalesce(n.user_id, nobody)) = 1
                        then coalesce((array_agg(n.user_id))[1], nobody) else nobody end end
        from unnest(p_agents, p_users) as n(agent, user_id)
        where n.agent = any(unknown)
        group by n.agent
        order by n.agent
        on conflict (agent_id) do update set named_for = excluded.named_for
        where g.named_for is null and excluded.named_for is not null;
        perform set_config('lock_timeout', patience, true);
    exception when lock_not_available then
        insert into memoryd.jobs (topic, payload, visible_at)
        select 'context', jsonb_build_object('register', u), now() + p_pause from unnest(unknown) u;
        perform memoryd.wake('context');
    end;
end
$$;

-- Whether end users may give commands to an agent; otherwise raises an error. A closed agent and one that
-- does not exist are refused by the same words after the same query: so a user does not learn which agents
-- exist.
create or replace function memoryd.is_open(p_agent text) returns boolean
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- The not-null constraint of the column has the better message.
    if p_agent is null
       or exists (select from public.agents a where a.agent_id = p_agent and a.open_to_users) then
        return true;
    end if;
    raise exception 'agent % takes no commands from users', quote_literal(left(p_agent, 200))
        using errcode = 'insufficient_privilege',
              hint = 'The service opens an agent to users: '
                     'update agents set open_to_users = true where agent_id = ...';
end
$$;

-- Tells executors which agents have commands that are ready.
create or replace function memoryd.announce_ready(p_agents text[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.announce('command_ready', json_build_object('agent_id', a.agent_id)::text)
    from (select distinct u.agent_id from unnest(p_agents) as u(agent_id)) a
$$;

-- Registers the agents of new commands, and queues a job for each command by its status: pending, a context;
-- ended, the capture of its outcome. Ready ones are announced to executors.
create or replace function memoryd.commands_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    waiting bigint;
    of_users bigint;
begin
    perform memoryd.register_agents(array_agg(agent_id), '0', array_agg(user_id))
    from (select distinct agent_id, user_id from new_rows) n
    having memoryd.caller_is_privileged() and count(*) > 0;

    select count(*), count(user_id) into waiting, of_users from new_rows where status = 'pending';
    if waiting > 0 then
        perform memoryd.check_pending(of_users) where of_users > 0;
        perform memoryd.queue_fairly(
            'context',
            array_agg(n.id order by n.created_at, n.id),
            array_agg(n.user_id order by n.created_at, n.id))
        from new_rows n
        where n.status = 'pending';
        perform memoryd.wake('context');
    end if;

    perform memoryd.queue_in_lanes('capture', array_agg(ended.agent_id), array_agg(ended.id))
    from (
        select agent_id, id from new_rows
        where status in ('completed', 'failed')
        order by finished_at, created_at, id
    ) ended
    having count(*) > 0;

    perform memoryd.announce_ready(array_agg(agent_id))
    from new_rows
    where status = 'ready'
    having count(*) > 0;
    return null;
end
$$;

-- The same for commands that reach another status. Rows before and after the change are joined by a hash (no
-- nested loop): a plan that was kept from a statement of one row would compare each row of a large statement
-- with each other.
create or replace function memoryd.commands_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
declare
    reached text[];
begin
    -- Most updates reach one new status, or none: only for these is there more to do.
    select array_agg(distinct n.status) into reached
    from new_rows n join old_rows o using (id)
    where n.status <> o.status;
    if reached is null then
        return null;
    end if;

    if reached && array['completed', 'failed'] then
        perform memoryd.queue_in_lanes('capture', array_agg(ended.agent_id), array_agg(ended.id))
        from (
            select n.agent_id, n.id
            from new_rows n join old_rows o using (id)
            where n.status in ('completed', 'failed') and o.status not in ('completed', 'failed')
            order by n.finished_at, n.created_at, n.id
        ) ended;
    end if;

    if 'pending' = any(reached) then
        perform memoryd.queue_fairly('context', array_agg(n.id order by n.created_at, n.id), null)
        from new_rows n join old_rows o using (id)
        where n.status = 'pending' and o.status <> 'pending';
        perform memoryd.wake('context');
    end if;

    if 'ready' = any(reached) then
        perform memoryd.announce_ready(array_agg(n.agent_id))
        from new_rows n join old_rows o using (id)
        where n.status = 'ready' and o.status <> 'ready';
    end if;
    return null;
end
$$;

-- Cancels the ready commands of an agent that is disabled. Its pending ones are cancelled when their turn
-- comes.
create or replace function memoryd.agent_disabled() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update public.agent_commands
    set status = 'cancelled',
        error = 'agent ' || new.agent_id || ' is disabled' || coalesce(': ' || new.disabled_reason, '')
    where agent_id = new.agent_id and status = 'ready';
    return null;
end
$$;

create or replace function public.claim_command(
    agent_id text, lease_seconds double precision default null) returns setof public.agent_commands
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    claimed public.agent_commands;
begin
    if claim_command.lease_seconds is not null then
        perform memoryd.check_lease(claim_command.lease_seconds);
    end if;
    with next as materialized (
        select c.id from public.agent_commands c
        where c.agent_id = claim_command.agent_id and c.status = 'ready'
        order by c.created_at, c.id
        limit 1
        for update skip locked
    )
    update public.agent_commands c
    set status = 'running', started_at = clock_timestamp()
    from next
    where c.id = next.id
    returning c.* into claimed;
    if found then
        if claim_command.lease_seconds is not null then
            perform memoryd.begin_lease(claimed.id, claimed.started_at, claim_command.lease_seconds);
        end if;
        return next claimed;
    elsif not exists (select from public.agents a where a.agent_id = claim_command.agent_id)
       -- The agent may not be registered yet: see memoryd.register_agents(). Then its commands are among the
       -- newest.
       and not exists (
           select from (
               select c.agent_id from public.agent_commands c order by c.created_at desc limit 1000
           ) recent
           where recent.agent_id = claim_command.agent_id) then
        raise exception 'unknown agent %', coalesce(quote_literal(claim_command.agent_id), 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'An agent is known from its first command. To claim before that: '
                         'insert into agents (agent_id) values (...). '
                         'Known agents: select agent_id from agents.';
    end if;
end
$$;
comment on function public.claim_command(text, double precision) is
    'Takes the oldest ready command of an agent (ready -> running), at most one; none when nothing is ready. '
    'With lease_seconds it is ready again, three times in all, unless renew_command() is called meanwhile.';

create or replace function public.complete_command(
    command_id uuid, output text, exit_code integer default 0, started_at timestamptz default null)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    current_status text;
begin
    if complete_command.exit_code is null then
        raise exception 'exit_code is null'
            using errcode = 'null_value_not_allowed', hint = 'Give 0 for success, anything else for failure.';
    end if;
    update public.agent_commands c
    set status = case when complete_command.exit_code = 0 then 'completed' else 'failed' end,
        output = complete_command.output,
        exit_code = complete_command.exit_code,
        finished_at = now()
    where c.id = complete_command.command_id and c.status = 'running'
      and (complete_command.started_at is null or c.started_at = complete_command.started_at);
    if found then
        perform memoryd.end_lease(complete_command.command_id);
        return;
    end if;
    select c.status into current_status from public.agent_commands c where c.id = complete_command.command_id;
    if current_status is null then
        raise exception 'no command %', complete_command.command_id
            using errcode = 'no_data_found', hint = 'Give the id that claim_command returned.';
    end if;
    if current_status = 'running' then
        raise exception 'command % was claimed again meanwhile', complete_command.command_id
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Its lease had expired. Renew it three times as often: renew_command().';
    end if;
    raise exception 'command % is %, not running', complete_command.command_id, current_status
        using errcode = 'object_not_in_prerequisite_state',
              hint = case when current_status in ('pending', 'ready')
                          then 'Claim it first: select * from claim_command(agent_id).'
                          else 'A command is completed once; its first outcome stands.' end;
end
$$;
comment on function public.complete_command(uuid, text, integer, timestamptz) is
    'Ends a running command: completed when exit_code is 0, else failed. Its outcome becomes a memory. '
    'started_at: of the claim; where another claim has followed, it is refused.';

-- Sets updated_at, completed_at when the run ends (null again when it continues), and a progress of 100 when
-- it completes and its writer says nothing of the progress. A run that an export brings back keeps its own.
create or replace function memoryd.stamp_session() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if memoryd.importing() then
        return new;
    end if;
    if new.status in ('completed', 'error', 'cancelled') then
        new.completed_at := coalesce(new.completed_at, clock_timestamp());
    elsif tg_op = 'UPDATE' and new.status is distinct from old.status then
        new.completed_at := null;
    end if;
    if new.status = 'completed' and (case when tg_op = 'INSERT' then new.progress_percentage = 0
            else old.status <> 'completed' and new.progress_percentage = old.progress_percentage end) then
        new.progress_percentage := 100;
    end if;
    new.updated_at := clock_timestamp();
    return new;
end
$$;
