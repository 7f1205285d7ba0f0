"""The built-in executor: runs ready commands by a program of the user's, and completes them.

The program (MEMORYD_EXECUTOR_COMMAND) is run once for each command. It gets the context and the message on stdin, with
MEMORYD_COMMAND_ID, MEMORYD_AGENT_ID and MEMORYD_SESSION_ID in its environment; what it writes is the output, streamed into
the row while it runs; its exit code decides between completed and failed. What it may reach: see
`daemon/executor/confinement.py`.

Promise: at most N commands of an agent at once across all daemons; a time limit that ends the whole process group; output
of any bytes and any size is kept (NUL and invalid UTF-8 replaced, the middle left out past the limit). A command whose daemon
died is run again by another, three times in all: outside effects are at-least-once, its memory exactly-once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Sequence
from uuid import UUID

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.executor.confinement import Confinement
from daemon.executor.program import Output, run_program
from daemon.logs import describe
from memory.text import unframed

MOST_TRIES = 3
OUT_OF_ROOM_SECONDS = 1.0
STREAM_SECONDS = 1.0
LAST_CLAIM_SECONDS = 2.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 5.0
"""Between two tries to write an outcome."""

CONTENDED = (
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InsufficientResourcesError,
)
"""What passes by itself: a deadlock, a lock that is held too long, a full disk."""

# Up to $2 at once for each agent, counting those that other daemons run. One statement claims for all agents.
CLAIM = """
with room as materialized (
    select a.agent_id, $2 - (
        select count(*) from public.agent_commands r where r.status = 'running' and r.agent_id = a.agent_id) as places
    from (select distinct c.agent_id from public.agent_commands c where c.status = 'ready') a
), next as materialized (
    select n.id
    from room
    cross join lateral (
        select c.id, c.created_at from public.agent_commands c
        where c.agent_id = room.agent_id and c.status = 'ready'
        order by c.created_at, c.id
        limit greatest(0, room.places)
        for update skip locked
    ) n
    order by n.created_at, n.id
    limit $3
), started as (
    update public.agent_commands c
    set status = 'running', started_at = clock_timestamp()
    from next
    where c.id = next.id
    returning c.id, c.agent_id, c.session_id, c.message, c.context
), leased as (
    insert into memoryd.executions (command_id, daemon_id, lease_until)
    select id, $1, now() + make_interval(secs => $4) from started
    on conflict (command_id) do update
    set daemon_id = excluded.daemon_id, tries = executions.tries + 1, lease_until = excluded.lease_until
    returning command_id, tries
)
select s.*, l.tries from started s join leased l on l.command_id = s.id
"""

# One daemon at a time counts the places of the agents; claims are short.
LOCK = "select memoryd.lock('executor')"

RENEW = """
update memoryd.executions
set lease_until = now() + make_interval(secs => $2)
where daemon_id = $1 and command_id = any($3)
returning command_id
"""

STREAM = """
update public.agent_commands
set output = $3
where id = $1 and status = 'running'
  and exists (select from memoryd.executions e where e.command_id = $1 and e.daemon_id = $2)
"""

# Who lost the lease writes nothing. Commands are locked before executions, here and wherever both are (see THE ORDER OF LOCKS
# in the user controls' migration): an erasure does so, too.
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

GIVE_BACK = """
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

# The row of executions stays where the command is tried again: it counts the tries. It is nobody's until the next
# claim, so that a daemon that was only slow does not complete what was taken from it. A command that somebody holds is left
# for the next time.
RESCUE = """
with held as materialized (
    select c.id, c.status
    from memoryd.executions e
    join public.agent_commands c on c.id = e.command_id
    where e.lease_until < now() or (e.lease_until = 'infinity' and c.status <> 'ready')
    order by c.id
    for no key update of c skip locked
), dead as materialized (
    select e.command_id, e.tries, e.lease_until < now() as expired
    from memoryd.executions e
    left join held h on h.id = e.command_id
    where (e.lease_until < now() or (e.lease_until = 'infinity' and h.status is distinct from 'ready'))
      and (h.id is not null or not exists (select from public.agent_commands c where c.id = e.command_id))
    for update of e skip locked
), again as (
    update public.agent_commands c
    set status = 'ready', started_at = null, output = null
    from dead
    where c.id = dead.command_id and c.status = 'running' and dead.expired and dead.tries < $1
    returning c.id
), given_up as (
    update public.agent_commands c
    set status = 'failed', finished_at = clock_timestamp(),
        error = 'the daemon running it died, ' || $1 || ' times over'
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
select (select count(*) from again) as again, (select count(*) from given_up) as given_up
"""


class Executor:
    """Claims ready commands and runs them until told to stop."""

    def __init__(  # noqa: PLR0913 - one setting each
        self,
        argv: Sequence[str],
        *,
        confinement: Confinement,
        database: Database,
        daemon_id: UUID,
        lease_seconds: float,
        parallel: int,
        total: int,
        timeout_seconds: float,
        output_bytes: int,
        logger: FilteringBoundLogger,
    ) -> None:
        self._argv = argv
        self._confinement = confinement
        self._database = database
        self._daemon_id = daemon_id
        self._lease_seconds = lease_seconds
        self._parallel = parallel
        self._total = total
        self._timeout = timeout_seconds
        self._output_bytes = output_bytes
        self._log = logger
        self._rung = asyncio.Event()
        self._running: dict[UUID, asyncio.Task[None]] = {}
        self._claiming = asyncio.Lock()
        self._stopping = False

    def wake(self) -> None:
        """A command may be ready."""
        self._rung.set()

    async def run(self) -> None:
        """Claims whenever woken; run it beside `renew_leases`."""
        self._rung.set()
        while not self._stopping:
            await self._rung.wait()
            self._rung.clear()
            try:
                async with self._claiming:
                    await self._claim()
            except DATABASE_FAULTS as error:
                if not is_gone(error):
                    self._log.error("executor_claim_failed", error=describe(error))
                    await asyncio.sleep(1.0)
                await self._database.recover(error)
                self._rung.set()

    async def renew_leases(self) -> None:
        """Holds on to what runs here, and takes back what a dead daemon left; run it every third of the lease."""
        if running := dict(self._running):
            rows = await self._database.fetch(RENEW, self._daemon_id, self._lease_seconds, list(running))
            kept = {r["command_id"] for r in rows}
            for command_id, task in running.items():
                # Completed here in the meantime, or taken away: then another runs it, and this one must not go on.
                if command_id not in kept and not task.done():
                    self._log.warning("execution_lost", command=str(command_id))
                    task.cancel()
        row = await self._database.fetchrow(RESCUE, MOST_TRIES)
        if row is not None and (row["again"] or row["given_up"]):
            self._log.warning("executions_rescued", again=row["again"], given_up=row["given_up"])
            self.wake()

    async def stop(self, *, grace_seconds: float) -> None:
        """Starts nothing more, lets programs finish for `grace_seconds`, ends the rest and gives their commands back."""
        self._stopping = True
        self._rung.set()
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        # A claim under way still starts programs, which would be left to themselves.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._claiming.acquire(), max(grace_seconds, LAST_CLAIM_SECONDS))
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=max(0.0, until - loop.time()))
        left = dict(self._running)
        for task in left.values():
            task.cancel()
        if left:
            await asyncio.wait(list(left.values()))
            await self._database.execute(GIVE_BACK, self._daemon_id, list(left))
            self._log.info("commands_given_back", commands=len(left))

    async def _claim(self) -> None:
        places = self._total - len(self._running)
        if self._stopping or places <= 0:
            return
        async with self._database.transaction() as connection:
            await connection.execute(LOCK)
            rows = await connection.fetch(CLAIM, self._daemon_id, self._parallel, places, self._lease_seconds)
        for r in rows:
            task = asyncio.create_task(self._execute(r))
            self._running[r["id"]] = task
            task.add_done_callback(functools.partial(self._ended, r["id"]))

    def _ended(self, command_id: UUID, task: asyncio.Task[None]) -> None:
        if self._running.get(command_id) is task:
            del self._running[command_id]
        self._rung.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # The lease runs out, and the command is tried again.
            self._log.error("execution_failed", command=str(command_id), error=describe(error))

    async def _execute(self, row: asyncpg.Record) -> None:
        began = time.perf_counter()
        output = Output(self._output_bytes)
        try:
            exit_code, error = await self._run(row, output)
        except OSError as fault:
            # This machine has no room for one more process just now: another daemon may, or this one in a while.
            self._log.warning("executor_out_of_room", command=str(row["id"]), error=describe(fault))
            await asyncio.sleep(OUT_OF_ROOM_SECONDS)
            # Where the database is away too, the lease runs out and brings the command back.
            with contextlib.suppress(*DATABASE_FAULTS):
                await self._database.execute(GIVE_BACK, self._daemon_id, [row["id"]])
            return
        await self._complete(row["id"], output.text(), exit_code, error)
        self._log.info(
            "command_executed",
            command=str(row["id"]),
            agent=row["agent_id"],
            exit_code=exit_code,
            bytes=output.size,
            ms=round((time.perf_counter() - began) * 1000),
        )

    async def _complete(self, command_id: UUID, output: str, exit_code: int, error: str | None) -> None:
        """Writes the outcome. The work is done: it is tried until the row says so, or is gone."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._database.fetchval(COMPLETE, command_id, self._daemon_id, output, exit_code, error)
                return
            except DATABASE_FAULTS as fault:
                if is_gone(fault):
                    await self._database.recover(fault)
                elif not isinstance(fault, CONTENDED):
                    raise
                self._log.warning(
                    "outcome_waits", command=str(command_id), error=describe(fault), retry_in=pause
                )
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)

    async def _run(self, row: asyncpg.Record, output: Output) -> tuple[int, str | None]:
        streaming = asyncio.create_task(self._stream(row["id"], output))
        try:
            return await run_program(
                self._argv,
                given="\n\n".join(part for part in (row["context"], unframed(row["message"])) if part) + "\n",
                environment={
                    "MEMORYD_COMMAND_ID": str(row["id"]),
                    "MEMORYD_AGENT_ID": row["agent_id"],
                    "MEMORYD_SESSION_ID": str(row["session_id"] or ""),
                },
                confinement=self._confinement,
                timeout_seconds=self._timeout,
                output=output,
            )
        finally:
            streaming.cancel()

    async def _stream(self, command_id: UUID, output: Output) -> None:
        written = 0
        pause = STREAM_SECONDS
        while True:
            await asyncio.sleep(pause)
            size = output.size
            if size == written:
                continue
            written = size
            with contextlib.suppress(*DATABASE_FAULTS):
                await self._database.execute(STREAM, command_id, self._daemon_id, output.text())
            # Each time the whole text is written anew: the longer it is, the seldomer.
            pause = max(STREAM_SECONDS, size / 1_000_000)
