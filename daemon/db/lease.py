"""Work that one process at a time does in a database: a lease on a lane of memoryd.lanes that has no jobs.

Promise: no transaction stays open while it is held, and after a kill -9 it expires by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pool import Database

TAKE = """
insert into memoryd.lanes as l (topic, lane, leased_until, token)
values ($1, $2, now() + make_interval(secs => $3), 1)
on conflict (topic, lane) do update
set leased_until = excluded.leased_until, token = l.token + 1
where l.leased_until <= now()
returning token
"""
RENEW = """
update memoryd.lanes
set leased_until = now() + make_interval(secs => $3)
where topic = $1 and lane = $2 and token = $4
returning true
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of one kind of work; without renewal it expires after `seconds`."""

    topic: str
    seconds: float
    lane: str = "build"

    async def take(self, database: Database) -> int | None:
        """Its token; None while another process has it."""
        token: int | None = await database.fetchval(TAKE, self.topic, self.lane, self.seconds)
        return token

    async def renew(self, database: Database, token: int) -> bool:
        """Whether it is still this process's, now for `seconds` more."""
        return bool(await database.fetchval(RENEW, self.topic, self.lane, self.seconds, token))

    async def give_back(self, database: Database, token: int) -> None:
        """Ends it."""
        with suppress(*DATABASE_FAULTS):
            await database.fetchval(RENEW, self.topic, self.lane, 0.0, token)

    @asynccontextmanager
    async def renewed(self, database: Database, token: int) -> AsyncIterator[None]:
        """Renews the lease that was taken, and returns it at the end."""
        renewing = asyncio.create_task(self._renew(database, token))
        try:
            yield
        finally:
            renewing.cancel()
            await self.give_back(database, token)

    async def _renew(self, database: Database, token: int) -> None:
        while True:
            await asyncio.sleep(self.seconds / 5)
            with suppress(*DATABASE_FAULTS):
                await self.renew(database, token)
