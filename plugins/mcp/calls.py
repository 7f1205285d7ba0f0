"""One call: its arguments are checked, it runs with the identity's rights and a time limit, and it is logged.

Promise: a call that fails changes nothing and says why in a short text; the next call works again. The log has the tool, how
it ended and how long it took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone, is_outage
from daemon.db.pool import Database
from daemon.logs import describe, frames
from handlers.shared.ports import AnyConnection
from plugins.mcp.arguments import read
from plugins.mcp.faults import CallRefusedError, fault_of
from plugins.mcp.identity import Identity, acting
from plugins.mcp.resources import read_resource
from plugins.mcp.tools import Again, ToolOf

Result = TypeVar("Result")
DEAD_CONNECTIONS = 5
"""The number of connections that a call tries if they prove dead before a statement ran on them."""
FIRST = 1.0
"""Seconds that the start waits for the database: clients ask their model without our tools after a second or two."""
GRACE = 2.0
"""Seconds after a statement's time limit in which the database may still report it."""


class CallFailedError(Exception):
    """The call failed; the message is for the model."""


class Calls:
    def __init__(
        self,
        opened: Callable[[], Coroutine[Any, Any, Database]],
        identity: Identity,
        *,
        seconds: float,
        logger: FilteringBoundLogger,
    ) -> None:
        """`opened` opens the database. What it raises fails one call, and the next opens it again."""
        self.identity = identity
        self._opened = opened
        self._opening: asyncio.Task[Database] | None = None
        self._seconds = seconds
        self._log = logger
        self._running: set[asyncio.Task[Any]] = set()

    async def begin(self) -> None:
        """Opens the database; one that is away or slow is waited for by the calls. Raises what is wrong with the settings."""
        try:
            async with asyncio.timeout(FIRST):
                await self._database()
        except Exception as error:
            if not isinstance(error, TimeoutError) and not is_gone(error) and not is_outage(error):
                raise
            self._log.warning("mcp_database_away", error=describe(error))

    async def _database(self) -> Database:
        last = self._opening
        if last is None or (last.done() and (last.cancelled() or last.exception() is not None)):
            self._opening = last = asyncio.create_task(self._opened())
        return await asyncio.shield(last)

    async def tool(self, tool: ToolOf, given: dict[str, Any] | None) -> Any:
        """The answer of a tool. Raises Failed."""

        async def work() -> Any:
            arguments = read(tool.arguments, given)
            if "project" in tool.arguments.model_fields and not arguments.project:  # type: ignore[attr-defined]
                arguments = arguments.model_copy(update={"project": self.identity.project})
            answer = await self._acting(lambda c: tool.run(c, self.identity, arguments))
            if isinstance(answer, partial):
                again: Again = answer
                answer = await self._acting(lambda c: again(c, self.identity, arguments))
            return answer

        return await self._told(work, tool=tool.name)

    async def database_answers(self) -> bool:
        try:
            async with asyncio.timeout(GRACE):
                await (await self._database()).fetchval("select 1")
        except (TimeoutError, *DATABASE_FAULTS) as error:
            if not isinstance(error, TimeoutError):
                await self._lost(error)
            return False
        return True

    async def _lost(self, error: BaseException) -> None:
        if self._opening is not None and self._opening.done() and self._opening.exception() is None:
            await self._opening.result().reconnect_after_failover(error)

    async def resource(self, uri: str) -> Any:
        """The content of a resource; None if no resource has this address. Raises Failed."""

        async def work() -> Any:
            return await self._acting(lambda c: read_resource(c, self.identity, uri))

        return await self._told(work, resource=uri.partition("://")[2].partition("/")[0][:20])

    async def _acting(self, work: Callable[[AnyConnection], Awaitable[Result]]) -> Result:
        async def inside() -> Result:
            async with asyncio.timeout(self._seconds + GRACE):
                database = await self._database()
                for left in reversed(range(DEAD_CONNECTIONS)):
                    begun = False
                    try:
                        async with acting(database, self.identity, seconds=self._seconds) as connection:
                            begun = True
                            return await work(connection)
                    except Exception as error:
                        # Other connections of the pool may have died at the same time; no statement has run on them yet.
                        if begun or not left or not is_gone(error):
                            raise
            raise AssertionError("the last attempt returns or raises")

        # A separate task: the SDK cancels every await of a cancelled call, also those that end its statement
        # and roll back.
        task = asyncio.create_task(inside())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _told(self, work: Callable[[], Awaitable[Result]], **what: str) -> Result:
        began = time.perf_counter()

        def ended(outcome: str, **more: object) -> None:
            ms = round((time.perf_counter() - began) * 1000, 1)
            if outcome == "failed":
                self._log.warning("mcp_call", **what, outcome=outcome, ms=ms, **more)
            else:
                self._log.info("mcp_call", **what, outcome=outcome, ms=ms, **more)

        try:
            answer = await work()
        except asyncio.CancelledError:
            ended("cancelled")
            raise
        except CallRefusedError as error:
            ended("refused")
            raise CallFailedError(fault_of(error, seconds=self._seconds)) from None
        except Exception as error:  # noqa: BLE001 - no call ends the server
            ended("failed", error=describe(error), at=frames(error)[-3:])
            await self._lost(error)
            raise CallFailedError(fault_of(error, seconds=self._seconds)) from None
        ended("done")
        return answer
