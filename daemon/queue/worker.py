"""The worker of one topic: claims batches and runs them, until it is told to stop.

Promise: it goes on after the loss of the database; a daemon that stops hands its claims back at once; a worker that lost its
claim writes nothing. What becomes of jobs that fail: see `batch.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone, is_outage
from daemon.db.pool import Database
from daemon.logs import describe, frames
from daemon.measures import Measures
from daemon.queue import failures, queue
from daemon.queue.batch import BatchRunner
from daemon.queue.topic import Topic
from handlers.shared.ports import Job

LAST_CLAIM_SECONDS = 2.0
REST, MAX_REST_SECONDS = 4, 5.0
"""After a batch of a topic that gives way: so many times as long as the batch took, while the other one has a backlog."""
LONGEST_TURN_SECONDS = 0.5
"""What comes last waits no longer than this for others that go on and on."""
LONGEST_WAIT_SECONDS = 60.0
"""For a provider; a circuit waits no longer of its own accord, but a provider may ask for an hour."""


class Worker:
    """Runs one topic until told to stop."""

    def __init__(  # noqa: PLR0913 - one setting each
        self,
        topic: Topic,
        *,
        database: Database,
        claim_seconds: float,
        max_attempts: int,
        logger: FilteringBoundLogger,
        wake_others: Callable[[Sequence[str]], None],
        retry_max_seconds: float = failures.BACKOFF_MAX_SECONDS,
        daemon: int | None = None,
        measures: Measures | None = None,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        others: Callable[[], Sequence[Worker]] = tuple,
    ) -> None:
        """`daemon`: the number of the daemon, which is written to each claim (`claimed_by`). `measures` counts what is done.

        `turn`: within it a batch is done. `others`: those that it gives way to.
        """
        self.has_backlog = False
        """Whether the last claim took as many jobs as it may."""
        self.topic = topic
        self._turn = turn
        self._others = others
        self._rests_until = 0.0
        self._database = database
        self._claim_seconds = claim_seconds
        self._max_attempts = max_attempts
        self._daemon = daemon
        self._log = logger.bind(topic=topic.name)
        self._woken = asyncio.Event()
        self._slots = asyncio.Semaphore(topic.parallel)
        self._claiming = asyncio.Lock()
        self._failed_claims = 0
        self._stopping = False
        self._perhaps_lost = False
        self._batches: dict[asyncio.Task[None], list[Job]] = {}
        self._runner = BatchRunner(
            topic,
            database=database,
            max_attempts=max_attempts,
            retry_max_seconds=retry_max_seconds,
            wake=self.wake,
            wake_others=wake_others,
            logger=self._log,
            measures=measures or Measures(),
        )

    def wake(self) -> None:
        """There may be work."""
        self._woken.set()

    def wake_after_loss(self) -> None:
        """The database was away. What a crash of it took back is claimed by this daemon, and no batch has it."""
        self._perhaps_lost = True
        self.wake()

    @property
    def is_busy(self) -> bool:
        """Whether it has work, or is about to look for some."""
        return bool(self._batches) or self._woken.is_set() or self._claiming.locked()

    async def run(self) -> None:
        """Claims, whenever it is woken, and processes until `stop`; survives the loss of the database."""
        while not self._stopping:
            await self._woken.wait()
            await self._wait_for_provider()
            await self._slots.acquire()
            await self._give_way()
            self._woken.clear()
            try:
                async with self._claiming:
                    jobs = await self._claim()
                    if jobs:
                        self._begin(jobs)
                self._failed_claims = 0
            except DATABASE_FAULTS as error:
                self._slots.release()
                if not is_gone(error):
                    await self._pause_claims(error)
                await self._database.recover(error)
                self.wake_after_loss()
                continue
            self.has_backlog = bool(jobs) and self._may_be_more(jobs)
            if not jobs:
                self._slots.release()
            elif self.has_backlog:
                self._woken.set()

    async def renew_claims(self) -> None:
        """Renews the claims of all running batches; call it at a third of the time in which a claim expires."""
        for jobs in list(self._batches.values()):
            await queue.renew(self._database, jobs, seconds=self._claim_seconds)

    async def stop(self, *, grace_seconds: float) -> None:
        """Claims no more, lets running batches finish for `grace_seconds`, hands the rest back."""
        self._stopping = True
        self._woken.set()
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        # A claim that has begun still brings jobs: they are waited for, or handed back, like all others.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._claiming.acquire(), max(grace_seconds, LAST_CLAIM_SECONDS))
        if self._batches:
            await asyncio.wait(list(self._batches), timeout=max(0.0, until - loop.time()))
        for task in list(self._batches):
            task.cancel()
        if self._batches:
            await asyncio.wait(list(self._batches))

    def _begin(self, jobs: list[Job]) -> None:
        task = asyncio.create_task(self._do(jobs))
        self._batches[task] = jobs
        task.add_done_callback(self._batch_done)

    async def _do(self, jobs: list[Job]) -> None:
        # Claimed before: what is awaited now is renewed like what is done.
        async with self._turn():
            began = time.monotonic()
            await self._runner.run(jobs)
            ended = time.monotonic()
            self._rests_until = ended + min(REST * (ended - began), MAX_REST_SECONDS)

    def _batch_done(self, task: asyncio.Task[None]) -> None:
        self._batches.pop(task, None)
        self._slots.release()
        # Every claim since then has skipped the jobs that arrived in a lane while it was leased to this batch.
        if self.topic.lanes:
            self._woken.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("batch_lost", error=describe(error), at=frames(error))

    def _may_be_more(self, jobs: Sequence[Job]) -> bool:
        """Whether there may be more jobs, for which no wake-up will come: the claim took as many as it may, or suspects."""
        if self.topic.lanes:
            return len({j.lane for j in jobs}) >= self.topic.lanes
        return len(jobs) >= self.topic.batch or any(j.suspect for j in jobs)

    async def _pause_claims(self, error: Exception) -> None:
        self._failed_claims += 1
        seconds = failures.backoff(self._failed_claims, maximum=failures.CLAIM_MAX_SECONDS)
        if not await self._database.reconnect_after_failover(error):
            level = logging.WARNING if is_outage(error) else logging.ERROR
            self._log.log(level, "claim_failed", retry_in=round(seconds, 1), error=describe(error))
        await asyncio.sleep(seconds)

    async def _wait_for_provider(self) -> None:
        # For longer its jobs are begun: what needs no provider is done, and they go back to the queue until it may be asked.
        while not self._stopping and 0 < (seconds := self.topic.waits_for()) <= LONGEST_WAIT_SECONDS:
            await asyncio.sleep(min(seconds, 1.0))

    async def _give_way(self) -> None:
        latest = time.monotonic() + (LONGEST_TURN_SECONDS if self.topic.last else 0.0)
        while not self._stopping:
            now, others = time.monotonic(), self._others()
            rests = now < self._rests_until and any(other.has_backlog for other in others)
            if not rests and not (now < latest and any(other.is_busy for other in others)):
                return
            await asyncio.sleep(0.01)

    async def _claim(self) -> list[Job]:
        topic = self.topic
        if self._stopping:
            return []
        lost, self._perhaps_lost = self._perhaps_lost, False
        if lost and self._daemon is not None:
            held = [job for jobs in self._batches.values() for job in jobs]
            released = await queue.release(self._database, topic.name, daemon=self._daemon, jobs=held)
            if any(released.values()):
                self._log.info("claims_released", **released)
        claim = partial(queue.claim_lanes, lanes=topic.lanes) if topic.lanes else queue.claim
        return await claim(
            self._database,
            topic.name,
            limit=topic.batch,
            seconds=self._claim_seconds,
            max_attempts=self._max_attempts,
            daemon=self._daemon,
        )
