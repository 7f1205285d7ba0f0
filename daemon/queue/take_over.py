"""Take-over: when the server process of a daemon's listener is gone, another daemon ends the claims of that daemon.

Promise: when a daemon is killed, its jobs wait for seconds, not until its claims expire. A daemon that lost only its listener,
and is slow to get a new one, does some work twice and writes nothing twice: (id, attempt) and the token of the lane are fencing
tokens. Behind a transaction pooler a daemon has no server process of its own: there claims only expire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.db.presence import GONE, LISTENS
from daemon.logs import describe
from daemon.measures import Measures

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


class TakeOver:
    """Takes over the claims of daemons that died, until cancelled."""

    def __init__(
        self,
        *,
        database: Database,
        daemon_id: UUID,
        wake: Callable[[], None],
        measures: Measures,
        logger: FilteringBoundLogger,
    ) -> None:
        self._database = database
        self._daemon_id = daemon_id
        self._wake = wake
        self._measures = measures
        self._log = logger
        self._missed: dict[tuple[UUID, int], float] = {}

    async def run(self) -> None:
        """Checks the other daemons once a second."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except DATABASE_FAULTS as error:
                # If the server was restarted, every daemon gets a new listener first.
                self._missed.clear()
                if not is_gone(error):
                    self._log.warning("presence_failed", error=describe(error))
                await self._database.recover(error)

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        gone = {(r["id"], r["backend"]) for r in await self._database.fetch(MISSED, self._daemon_id)}
        self._missed = {one: self._missed.get(one, now) for one in gone}
        for daemon, backend in [one for one, since in self._missed.items() if now - since >= GONE_SECONDS]:
            row = await self._database.fetchrow(TAKE_OVER, daemon, backend)
            if row is None:
                continue
            self._measures.taken_over.update(dict(row))
            if row["jobs"] or row["lanes"]:
                self._log.warning(
                    "claims_taken_over", daemon=str(daemon), jobs=row["jobs"], lanes=row["lanes"]
                )
            self._wake()
