"""Whether a URL leads through a transaction pooler, where LISTEN and prepared statements are of no use.

Promise: found out by trying, and not by the look of the URL: a notification is sent over one connection and awaited on another.
A pooler that takes no settings is treated as one, too.
"""

from __future__ import annotations

import asyncio
import uuid

import asyncpg

from daemon.db.errors import is_gone
from daemon.db.pool import connect
from daemon.settings import Settings


async def is_pooled(settings: Settings, url: str) -> bool:
    """Whether there is a pooler: as MEMORYD_POOLER says, or found out where it says auto."""
    if settings.pooler != "auto":
        return settings.pooler == "transaction"
    return not await hears_notifications(url)


async def hears_notifications(url: str) -> bool:
    """Whether a notification sent over one connection reaches another, and settings are taken: false behind a pooler."""
    channel = f"memoryd_test_{uuid.uuid4().hex}"
    heard = asyncio.Event()
    listener = await connect(url, pooled=True)
    try:
        sender = await connect(url)
        try:
            try:
                await listener.add_listener(channel, lambda *_: heard.set())
                # Several short transactions: a pooler hands its server connections round.
                for _ in range(3):
                    async with sender.transaction():
                        await sender.execute(f"notify {channel}")
            except (asyncpg.ProgramLimitExceededError, asyncpg.ReadOnlySQLTransactionError):
                # The server's queue is full, and will not stay so; or it is a standby, where nobody listens before it is
                # promoted. Then what counts is whose the connections are.
                return await _have_backends_of_their_own(listener, sender)
            await asyncio.wait_for(heard.wait(), 2.0)
        finally:
            await sender.close()
        return True
    except (TimeoutError, asyncpg.ProtocolViolationError):
        return False  # the second: it takes no settings, whatever it does with sessions
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        if is_gone(error):
            raise  # a database that comes up or goes down is no pooler
        return False
    finally:
        listener.terminate()


async def _have_backends_of_their_own(one: asyncpg.Connection, other: asyncpg.Connection) -> bool:
    """A transaction pooler gives both what server connection is free, mostly the same one."""
    seen = [[await c.fetchval("select pg_backend_pid()") for _ in range(3)] for c in (one, other, one)]
    return [len(set(pids)) for pids in seen] == [1, 1, 1] and seen[0][0] == seen[2][0] != seen[1][0]
