"""The claims of a daemon's workers, kept: renewed long before they expire.

Promise: while the database is lost nothing is given up; a renewal that fails is told, and tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from structlog.typing import FilteringBoundLogger

from daemon.db import presence
from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.queue.worker import Worker


async def keep_claims(
    database: Database, workers: Collection[Worker], *, logger: FilteringBoundLogger
) -> None:
    """Renews claims, until cancelled."""

    async def renew() -> None:
        for worker in workers:
            await worker.renew_claims()

    await keep_renewed(renew, database, logger=logger)


async def keep_renewed(
    renew: Callable[[], Awaitable[None]], database: Database, *, logger: FilteringBoundLogger
) -> None:
    """Calls it at a third of the time in which claims expire, until cancelled."""
    while True:
        await asyncio.sleep(presence.CLAIM_SECONDS / 3)
        try:
            await renew()
        except DATABASE_FAULTS as error:
            if is_gone(error):
                await database.recover(error)
            elif not await database.reconnect_after_failover(error):
                logger.error("renewal_failed", error=type(error).__name__)  # noqa: TRY400 - a traceback may show content
