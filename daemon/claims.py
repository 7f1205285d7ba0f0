"""The claims and leases of a daemon, kept: renewed long before they expire, and commands of lost executors taken over.

Promise: while the database is lost nothing is given up; a renewal that fails is told, and tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from structlog.typing import FilteringBoundLogger

from daemon.db import presence
from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.executor import commands
from daemon.executor.executor import Executor
from daemon.measures import Measures
from daemon.queue.worker import Worker


async def keep_claims(
    database: Database,
    workers: Collection[Worker],
    executor: Executor | None,
    *,
    measures: Measures,
    logger: FilteringBoundLogger,
) -> None:
    """Renews claims and leases, at a third of the time in which they expire, until cancelled."""
    while True:
        await asyncio.sleep(presence.CLAIM_SECONDS / 3)
        try:
            for worker in workers:
                await worker.renew_claims()
            if executor is not None:
                await executor.renew_leases()
            again, failed = await commands.take_over(database)
            if again or failed:
                measures.taken_over["commands"] += again + failed
                logger.warning("commands_taken_over", again=again, failed=failed)
                if executor is not None:
                    executor.wake()
        except DATABASE_FAULTS as error:
            if is_gone(error):
                await database.recover(error)
            elif not await database.reconnect_after_failover(error):
                logger.error("renewal_failed", error=type(error).__name__)  # noqa: TRY400 - a traceback may show content
