"""Which daemons run: their heartbeats, the claims that they renew, and the take-over of a dead daemon's claims.

A row of memoryd.daemons has the time of the last heartbeat, and the server process of the daemon's listener.

Promise: a daemon that was killed counts as dead as soon as the server has closed its listener's connection, and its claims are
taken over within seconds. One that only polls (behind a transaction pooler), or whose whole machine is gone, counts as dead
after three heartbeats; its claims expire. A daemon that lost only its listener, and is slow to get a new one, does some work
twice and writes nothing twice: (id, attempt) and the token of the lane are fencing tokens. While the database is lost no claim
is given up. Whether a dream is due is read only from the database, so a restart changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.plugins import Core

if TYPE_CHECKING:
    # It loads numpy, whose words must not come before the log is ready.
    from handlers.dream.dreamer import Dreamer

HEARTBEAT_SECONDS = 30.0
"""Pause between two heartbeats."""
CLAIM_SECONDS = 30.0
"""How long a claim or a lease is valid without being renewed."""

LISTENS = """
(pg_is_in_recovery()
 or exists (select from pg_stat_get_activity(d.backend) a join pg_database b on b.oid = a.datid
            where b.datname = current_database() and coalesce(a.backend_start <= d.seen_at, true)))
"""
"""Of a row `d` with a backend. A process that is younger than the last heartbeat is another one with the same id, and one in
another database listens there: this database is a copy of that one. At a standby, whose primary has the process, only the
heartbeats tell."""

RESTS = "rest"
"""What `wake_up` says of a daemon that leaves the database alone until it is told of work: it has no heartbeat."""

ALIVE = f"""
((d.seen_at > now() - make_interval(secs => $1) or (d.wake_up = '{RESTS}' and d.backend is not null))
 and (d.backend is null or {LISTENS}))
"""
"""A condition on a row `d`; $1: `silence` of the heartbeat."""

GONE = 0
"""Instead of the backend of a daemon whose claims another one has ended. Should it run after all, it writes its own again."""


def silence() -> float:
    """Seconds without a heartbeat after which a daemon counts as dead: three heartbeats, and never less than 5 s."""
    return max(5.0, 3 * HEARTBEAT_SECONDS)


BEAT = """
insert into memoryd.daemons (id, host, pid, version, wake_up, number, backend, failing)
values ($1, $2, $3, $4, $5, $6, $7, $8::jsonb)
on conflict (id) do update
set seen_at = now(), wake_up = excluded.wake_up, backend = excluded.backend, failing = excluded.failing
"""

LEAVE = "delete from memoryd.daemons where id = $1"


class Heartbeat:
    """Beats until cancelled."""

    def __init__(
        self,
        core: Core,
        *,
        number: int,
        wake_up: str,
        dreamer: Dreamer,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """`wake_up`: listen or poll. `turn`: within it a dream runs when the fleet is idle."""
        self._core = core
        self._log = core.logger
        self._number = number
        self._wake_up = wake_up
        self._dreamer = dreamer
        self._turn = turn
        self._backend: int | None = None
        self._failing: dict[str, str] = {}
        self._news = asyncio.Event()
        self._dream: asyncio.Task[object] | None = None

    async def run(self) -> None:
        """Beats at once, then every heartbeat."""
        try:
            while True:
                try:
                    await self.beat()
                    await self._dreamer.end_dead()
                    due = not self.dreams and await self._dreamer.due()
                    self._log.debug("heartbeat", dream_due=due, dreams=self.dreams)
                    if due:
                        self._dream = asyncio.create_task(self._idle_dream())
                except DATABASE_FAULTS as error:
                    if not (is_gone(error) or await self._core.database.reconnect_after_failover(error)):
                        self._log.error("heartbeat_failed", error=describe(error))
                # Not wait_for: it loses a cancellation that comes at the same moment as the event.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await self._news.wait()
                self._news.clear()
        finally:
            if self._dream is not None:
                self._dream.cancel()
                await asyncio.wait([self._dream], timeout=2.0)

    @property
    def dreams(self) -> bool:
        """Whether a dream goes on, or waits for its turn."""
        return self._dream is not None and not self._dream.done()

    def listens_on(self, backend: int | None) -> None:
        """Writes at once which server process belongs to the listener: other daemons see by it that this one runs."""
        self._backend = backend
        self._news.set()

    def tell(self, part: str, error: str | None) -> None:
        """Writes at once that a part has failed; None: that it works."""
        before = dict(self._failing)
        if error is None:
            self._failing.pop(part, None)
        else:
            self._failing[part] = error
        if self._failing != before:
            self._news.set()

    async def beat(self) -> None:
        """Writes this daemon's row."""
        await self._core.database.execute(
            BEAT,
            self._core.daemon_id,
            socket.gethostname(),
            os.getpid(),
            self._core.version,
            self._wake_up,
            self._number,
            self._backend,
            json.dumps(self._failing),
        )

    async def leave(self) -> None:
        """Deletes this daemon's row: it stops on purpose."""
        await self._core.database.execute(LEAVE, self._core.daemon_id)

    async def _idle_dream(self) -> None:
        try:
            async with self._turn():
                await self._dreamer.dream("idle")
        except DATABASE_FAULTS as error:
            self._log.warning("dream_lost", error=describe(error))


async def keep_renewed(
    renew: Callable[[], Awaitable[None]], database: Database, *, logger: FilteringBoundLogger
) -> None:
    """Calls it at a third of the time in which claims expire, until cancelled."""
    while True:
        await asyncio.sleep(CLAIM_SECONDS / 3)
        try:
            await renew()
        except DATABASE_FAULTS as error:
            if is_gone(error):
                await database.recover(error)
            elif not await database.reconnect_after_failover(error):
                logger.error("renewal_failed", error=type(error).__name__)  # noqa: TRY400 - a traceback may show content


LOOK_SECONDS = 1.0
GONE_SECONDS = 3.0
"""A running daemon has a new listener, written into its row, sooner than this."""

MISSED = f"""
select d.id, d.backend
from memoryd.daemons d
where d.backend <> {GONE} and d.id <> $1 and not {LISTENS}
"""  # noqa: S608 - a constant of ours

# Only one daemon takes over: the first one changes `backend`, and the others then find no row.
TAKE_OVER = f"""
with dead as (
    update memoryd.daemons set backend = {GONE} where id = $1 and backend = $2 returning number
), jobs as (
    update memoryd.jobs j
    set visible_at = now()
    from dead
    where j.claimed_by = dead.number and j.lane is null and j.visible_at > now()
    returning 1
), lanes as (
    update memoryd.lanes l
    set leased_until = '-infinity', leased_by = null
    from dead
    where l.leased_by = dead.number and l.leased_until > now()
    returning 1
)
select (select count(*) from jobs) as jobs, (select count(*) from lanes) as lanes
from dead
"""  # noqa: S608 - a constant of ours


async def take_over(core: Core, wake: Callable[[], None]) -> None:
    """Checks the other daemons once a second, and takes over the claims of those that died; until cancelled."""
    database, missed = core.database, dict[tuple[UUID, int], float]()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            now = asyncio.get_running_loop().time()
            gone = {(r["id"], r["backend"]) for r in await database.fetch(MISSED, core.daemon_id)}
            missed = {one: missed.get(one, now) for one in gone}
            for daemon, backend in [one for one, since in missed.items() if now - since >= GONE_SECONDS]:
                if (row := await database.fetchrow(TAKE_OVER, daemon, backend)) is None:
                    continue
                core.measures.taken_over.update(dict(row))
                if row["jobs"] or row["lanes"]:
                    core.logger.warning(
                        "claims_taken_over", daemon=str(daemon), jobs=row["jobs"], lanes=row["lanes"]
                    )
                wake()
        except DATABASE_FAULTS as error:
            # If the server was restarted, every daemon gets a new listener first.
            missed.clear()
            if not is_gone(error):
                core.logger.warning("presence_failed", error=describe(error))
            await database.recover(error)
