"""The connections to a database: one pool in each process and event loop.

Promise: a connection belongs to the process and the event loop that opened it, and is used and closed by nobody else.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import asyncpg

from memoryd_client._errors import Refused, TimedOut

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]

GRACE = 1.0
"""Second after a statement's time limit in which the database may still say so itself, and one for a rollback."""


class _Session(asyncpg.Connection):
    """A connection whose transactions leave nothing behind, so that giving it back costs no round trip."""

    def get_reset_query(self) -> str:
        return ""

    def hang_up(self) -> None:
        """Ends the session though its event loop is closed, in which nothing can be closed any more."""
        with suppress(Exception):
            self._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]


class Connections:
    """The settings of a Database's connections, and the connections that are open."""

    def __init__(self, url: str | None, size: int, time_limit: float, transaction_pooler: bool) -> None:
        self.url = url
        self.time_limit = time_limit
        self._size = size
        self._transaction_pooler = transaction_pooler
        self._pool: Pool | None = None
        self._home: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._sessions: WeakSet[_Session] = WeakSet()
        self._left: list[Pool] = []
        self._opening = asyncio.Lock()
        self._closed = False

    async def pool(self) -> Pool:
        """The pool of this process and event loop. Raises Refused."""
        here = (os.getpid(), asyncio.get_running_loop())
        if self._closed:
            raise Refused("This Database is closed.", hint="Make a new one.")
        if self._pool is not None and self._home != here:
            assert self._home is not None
            if self._home[0] == here[0] and not self._home[1].is_closed():
                raise Refused("This Database is used by another event loop.", hint="Make one for each loop.")
            self._leave(self._pool)
            self._pool, self._opening = None, asyncio.Lock()
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._home = here
                    self._pool = await self._opened()
        return self._pool

    async def close(self) -> None:
        """Waits for calls that run, for 5 seconds at most, and closes the connections."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._home != (os.getpid(), asyncio.get_running_loop()):
            self._leave(pool)
            return
        try:
            await asyncio.wait_for(pool.close(), 5.0)
        except Exception:  # noqa: BLE001 - whatever it is, they are ended
            pool.terminate()

    def late(self, pool: Pool) -> TimedOut:
        """Why a transaction did not begin in time."""
        if pool.get_size() == self._size and not pool.get_idle_size():
            return TimedOut(
                f"All {self._size} connections were in use for {self.time_limit:g} seconds; nothing was changed.",
                hint="Give Database a greater size.",
            )
        return TimedOut(
            f"The database let nobody in within {self.time_limit:g} seconds; nothing was changed.",
            hint="Check the URL and the server.",
        )

    async def _opened(self) -> Pool:
        options: dict[str, Any] = {}
        if self._transaction_pooler:
            options["statement_cache_size"] = 0
        else:
            options["server_settings"] = {"application_name": "memoryd-client", "jit": "off"}
        sessions = self._sessions = WeakSet()

        async def begun(session: Any) -> None:
            sessions.add(session)

        return await asyncpg.create_pool(
            self.url,
            min_size=0,
            max_size=self._size,
            timeout=self.time_limit,
            command_timeout=self.time_limit + GRACE,
            connection_class=_Session,
            init=begun,
            **options,
        )

    def _leave(self, pool: Pool) -> None:
        """Gives up connections of another process or event loop."""
        assert self._home is not None
        process, loop = self._home
        if process != os.getpid():
            # After a fork they are the parent's. They are kept, since to drop or close them would take them from it.
            self._left.append(pool)
        elif loop.is_closed():
            for session in list(self._sessions):
                session.hang_up()
        else:
            loop.call_soon_threadsafe(pool.terminate)


async def roll_back(connection: Connection) -> None:
    """Leaves no transaction open, or no connection: one that says nothing more is not waited for."""
    try:
        await asyncio.wait_for(connection.execute("rollback"), GRACE)
    except BaseException as error:
        with suppress(Exception):  # one that is lost has been given back
            connection.terminate()
        if not isinstance(error, Exception):
            raise
