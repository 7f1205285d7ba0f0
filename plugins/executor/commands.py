"""The statements by which the built-in executor claims and completes commands: one for each step.

Promise: all daemons together run at most N commands of an agent at once. A daemon that lost the lease of a command writes
nothing. A command whose executor died, the built-in one or another with a lease, is run again, three times in all.
"""

from __future__ import annotations

MAX_TRIES = 3

# Claims at most $3 commands for daemon $1, for $4 seconds: at most $2 running ones for each agent, in all daemons together. One
# statement claims for all agents.
CLAIM = """
with room as materialized (
    select a.agent_id, $2 - (
        select count(*) from public.agent_commands r where r.status = 'running' and r.agent_id = a.agent_id) as free
    from (select distinct c.agent_id from public.agent_commands c where c.status = 'ready') a
), next as materialized (
    select n.id
    from room
    cross join lateral (
        select c.id, c.created_at from public.agent_commands c
        where c.agent_id = room.agent_id and c.status = 'ready'
        order by c.created_at, c.id
        limit greatest(0, room.free)
        for update skip locked
    ) n
    order by n.created_at, n.id
    limit $3
), started as (
    update public.agent_commands c
    set status = 'running', started_at = clock_timestamp()
    from next
    where c.id = next.id
    returning c.id, c.agent_id, c.session_id, c.message, c.context,
              substring(c.metadata ->> 'traceparent' from '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$')
                  as traceparent
), leased as (
    insert into memoryd.executions (command_id, daemon_id, lease_until)
    select id, $1, now() + make_interval(secs => $4) from started
    on conflict (command_id) do update
    set daemon_id = excluded.daemon_id, tries = executions.tries + 1, lease_until = excluded.lease_until
    returning command_id, tries
)
select s.*, l.tries from started s join leased l on l.command_id = s.id
"""

# One daemon at a time counts the running commands; claims are short.
LOCK = "select memoryd.lock('executor')"

# Returns the commands $3 that still belong to daemon $1.
RENEW = """
update memoryd.executions
set lease_until = now() + make_interval(secs => $2)
where daemon_id = $1 and command_id = any($3)
returning command_id
"""

# The output so far of a running command.
STREAM = """
update public.agent_commands
set output = $3
where id = $1 and status = 'running'
  and exists (select from memoryd.executions e where e.command_id = $1 and e.daemon_id = $2)
"""

# A daemon that lost the lease writes nothing. Commands are locked before executions, here and in every other statement (see THE
# ORDER OF LOCKS in migrations/functions/base/locks.sql): an erasure has the same order.
COMPLETE = """
with command as materialized (
    select c.id from public.agent_commands c where c.id = $1 for no key update
), mine as (
    delete from memoryd.executions e using command k
    where e.command_id = k.id and e.daemon_id = $2
    returning e.command_id
)
update public.agent_commands c
set status = case when $4 = 0 then 'completed' else 'failed' end, output = $3, exit_code = $4, error = $5,
    finished_at = clock_timestamp()
from mine
where c.id = mine.command_id and c.status = 'running'
returning 1
"""

# Commands $2 of daemon $1 are ready again, for any daemon; the attempt is not counted.
HAND_BACK = """
with commands as materialized (
    select c.id from public.agent_commands c where c.id = any($2) order by c.id for no key update
), mine as (
    delete from memoryd.executions e using commands k
    where e.command_id = k.id and e.daemon_id = $1
    returning e.command_id
)
update public.agent_commands c
set status = 'ready', started_at = null, output = null
from mine
where c.id = mine.command_id and c.status = 'running'
"""

# Without the commands of agents that have $1 running already, here or elsewhere.
ANY_TO_CLAIM = """
select exists (
    select from (select distinct c.agent_id from public.agent_commands c where c.status = 'ready') a
    where $1 > (select count(*) from public.agent_commands r
                where r.status = 'running' and r.agent_id = a.agent_id))
"""

# The row of executions stays when the command is run again: it counts the attempts. Until the next claim it belongs to no
# daemon, so a daemon that was only slow cannot complete a command that was taken over. A command that another transaction has
# locked is taken over later.
TAKE_OVER = """
with locked as materialized (
    select c.id, c.status
    from memoryd.executions e
    join public.agent_commands c on c.id = e.command_id
    where e.lease_until < now() or (e.lease_until = 'infinity' and c.status <> 'ready')
    order by c.id
    for no key update of c skip locked
), dead as materialized (
    select e.command_id, e.tries, e.lease_until < now() as expired
    from memoryd.executions e
    left join locked l on l.id = e.command_id
    where (e.lease_until < now() or (e.lease_until = 'infinity' and l.status is distinct from 'ready'))
      and (l.id is not null or not exists (select from public.agent_commands c where c.id = e.command_id))
    for update of e skip locked
), again as (
    update public.agent_commands c
    set status = 'ready', started_at = null, output = null
    from dead
    where c.id = dead.command_id and c.status = 'running' and dead.expired and dead.tries < $1
    returning c.id
), failed as (
    update public.agent_commands c
    set status = 'failed', finished_at = clock_timestamp(),
        error = 'its executor died, ' || $1 || ' times over'
    from dead
    where c.id = dead.command_id and c.status = 'running' and dead.expired and dead.tries >= $1
    returning c.id
), waiting as (
    update memoryd.executions e
    set lease_until = 'infinity', daemon_id = '00000000-0000-0000-0000-000000000000'
    from again
    where e.command_id = again.id
), ended as (
    delete from memoryd.executions e
    using dead
    where e.command_id = dead.command_id and not exists (select from again where again.id = e.command_id)
)
select (select count(*) from again) as again, (select count(*) from failed) as failed
"""
