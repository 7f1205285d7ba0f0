"""Calls that come while others run, gathered into one transaction.

Promise: a call that finds fewer than PARALLEL transactions begins at once. The others wait, and the next transaction does all
of them; if it fails, each is done alone, so that nobody's call fails because of another's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from memoryd_client._errors import MemorydError

if TYPE_CHECKING:
    from memoryd_client.langgraph import Batch

PARALLEL = 4
MOST = 500
"""Operations in a transaction of several calls."""


class Gathering:
    """Runs batches with `work`, which gives a result for each operation. All calls are made in one event loop of a process."""

    def __init__(self, work: Callable[[Batch], Awaitable[list[Any]]]) -> None:
        self._work = work
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._running = 0
        self._waiting: list[tuple[Batch, asyncio.Future[list[Any]]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, batch: Batch) -> list[Any]:
        if self._process != os.getpid():
            self._begin()  # what ran or waited before a fork is the parent's
        if self._running < PARALLEL and not self._waiting:
            self._running += 1
            try:
                return await self._work(batch)
            finally:
                self._running -= 1
                self._next()
        done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, done))
        return await done

    def _next(self) -> None:
        if self._running == PARALLEL or not self._waiting:
            return
        taken = [self._waiting.pop(0)]
        many = len(taken[0][0])
        while self._waiting and many + len(self._waiting[0][0]) <= MOST:
            taken.append(self._waiting.pop(0))
            many += len(taken[-1][0])
        self._running += 1
        task = asyncio.get_running_loop().create_task(self._run(taken))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._running -= 1
        self._next()

    async def _run(self, taken: list[tuple[Batch, asyncio.Future[list[Any]]]]) -> None:
        whole = taken[0][0]
        for batch, _ in taken[1:]:
            whole = whole.followed_by(batch)
        try:
            results = await self._work(whole)
        except Exception as error:  # noqa: BLE001 - it is the callers'
            if len(taken) == 1 or not isinstance(error, MemorydError):
                for _, done in taken:
                    if not done.done():
                        done.set_exception(error)
                return
            for one in taken:
                await self._run([one])
            return
        at = 0
        for batch, done in taken:
            if not done.done():  # it was cancelled
                done.set_result(results[at : at + len(batch)])
            at += len(batch)
