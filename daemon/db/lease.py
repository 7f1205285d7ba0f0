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
values ($1, 'build', now() + make_interval(secs => $2), 1)
on conflict (topic, lane) do update
set leased_until = excluded.leased_until, token = l.token + 1
where l.leased_until <= now()
returning token
"""
RENEW = """
update memoryd.lanes
set leased_until = now() + make_interval(secs => $3)
where topic = $1 and lane = 'build' and token = $2
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of one kind of work; without renewal it expires after `seconds`."""

    topic: str
    seconds: float

    async def take(self, database: Database) -> int | None:
        """Its token; None while another process has it."""
        token: int | None = await database.fetchval(TAKE, self.topic, self.seconds)
        return token

    @asynccontextmanager
    async def renewed(self, database: Database, token: int) -> AsyncIterator[None]:
        """Renews the lease that was taken, and returns it at the end."""
        renewing = asyncio.create_task(self._renew(database, token))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(*DATABASE_FAULTS):
                await database.execute(RENEW, self.topic, token, 0.0)

    async def _renew(self, database: Database, token: int) -> None:
        while True:
            await asyncio.sleep(self.seconds / 5)
            with suppress(*DATABASE_FAULTS):
                await database.execute(RENEW, self.topic, token, self.seconds)
