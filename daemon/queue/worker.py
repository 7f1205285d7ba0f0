"""The worker of one topic: claims batches, runs the handler's two halves, and decides what becomes of failures.

Promise: a bad job is buried alone and its batch goes through; a provider that is down burns no attempts; a daemon that
stops hands its claims back at once; a worker that lost its claim writes nothing.

A batch that fails is halved until the culprit stands alone. In a lane the halves run in order, and when a job must wait, the
rest of its lane waits behind it. A provider that fails for one text alone looks like a provider that is down: see `_apart`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.pool import DATABASE_FAULTS, Database, is_gone, is_locked_out, is_outage
from daemon.logs import describe, frames
from daemon.queue import queue
from handlers.shared.ports import Handler, Held, Job, Poison
from providers.ports import Rejected, Unavailable

LAST_CLAIM_SECONDS = 2.0
MOST_LOCK_SECONDS = 10.0
"""Longest pause until jobs are tried again that waited too long for what somebody's transaction holds."""
MOST_OUTAGE_SECONDS = 60.0
"""Longest pause until jobs are tried again that could not be done in a database that is full, read-only or overloaded."""
MOST_CLAIM_PAUSE_SECONDS = 15.0
SUFFERING = 3
"""Times a job was handed back for a provider's sake before it is suspected of being the reason."""
MOST_SUFFERERS = 10_000


@dataclass(frozen=True, slots=True)
class Topic:
    """How the work of one topic is done. `batch` jobs at most in one call, `parallel` calls at once in this daemon.

    `follow_ups` are topics whose jobs this one's effects enqueue; `waits_for` gives the seconds until a provider that the
    topic cannot do without may be asked again (0: now).
    """

    name: str
    handler: Handler
    batch: int
    parallel: int = 1
    lanes: int = 0
    follow_ups: tuple[str, ...] = ()
    waits_for: Callable[[], float] = lambda: 0.0


class Worker:
    """Runs one topic until told to stop."""

    def __init__(
        self,
        topic: Topic,
        *,
        database: Database,
        claim_seconds: float,
        max_attempts: int,
        logger: FilteringBoundLogger,
        wake_others: Callable[[Sequence[str]], None],
        retry_max_seconds: float = queue.BACKOFF_MOST_SECONDS,
        holder: int | None = None,
    ) -> None:
        """`holder` is the number of the daemon, by which others know whose the claims are."""
        self.topic = topic
        self._database = database
        self._claim_seconds = claim_seconds
        self._max_attempts = max_attempts
        self._retry_most = retry_max_seconds
        self._holder = holder
        self._log = logger.bind(topic=topic.name)
        self._wake_others = wake_others
        self._rung = asyncio.Event()
        self._slots = asyncio.Semaphore(topic.parallel)
        self._claiming = asyncio.Lock()
        self._suspecting = asyncio.Lock()
        self._failed_claims = 0
        self._stopping = False
        self._batches: dict[asyncio.Task[None], list[Job]] = {}
        self._successes = 0
        self._sufferers: dict[int, int] = {}

    def wake(self) -> None:
        """There may be work."""
        self._rung.set()

    async def run(self) -> None:
        """Claims and processes until `stop`; survives the loss of the database."""
        self._rung.set()
        while not self._stopping:
            await self._rung.wait()
            await self._wait_for_provider()
            await self._slots.acquire()
            self._rung.clear()
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
                self._rung.set()
                continue
            if not jobs:
                self._slots.release()
            elif self._may_be_more(jobs):
                self._rung.set()

    async def renew_claims(self) -> None:
        """Holds on to all claims in flight; run it every third of the claim's time."""
        for jobs in list(self._batches.values()):
            await queue.renew(self._database, jobs, seconds=self._claim_seconds)

    async def stop(self, *, grace_seconds: float) -> None:
        """Claims no more, lets running batches finish for `grace_seconds`, hands the rest back."""
        self._stopping = True
        self._rung.set()
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        # A claim under way still brings jobs: they are waited for, or handed back, like all others.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._claiming.acquire(), max(grace_seconds, LAST_CLAIM_SECONDS))
        if self._batches:
            await asyncio.wait(list(self._batches), timeout=max(0.0, until - loop.time()))
        for task in list(self._batches):
            task.cancel()
        if self._batches:
            await asyncio.wait(list(self._batches))

    def _begin(self, jobs: list[Job]) -> None:
        task = asyncio.create_task(self._run_batch(jobs))
        self._batches[task] = jobs
        task.add_done_callback(self._batch_done)

    def _batch_done(self, task: asyncio.Task[None]) -> None:
        self._batches.pop(task, None)
        self._slots.release()
        # Jobs that arrived in a lane while it was leased to this batch were passed over by every claim since.
        if self.topic.lanes:
            self._rung.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("batch_lost", error=describe(error), at=frames(error))

    def _may_be_more(self, jobs: Sequence[Job]) -> bool:
        """Whether a claim left work behind that no notification will tell of: it took all it could, or a suspect."""
        if self.topic.lanes:
            return len({j.lane for j in jobs}) >= self.topic.lanes
        return len(jobs) >= self.topic.batch or any(j.suspect for j in jobs)

    async def _pause_claims(self, error: Exception) -> None:
        self._failed_claims += 1
        seconds = queue.backoff(self._failed_claims, most=MOST_CLAIM_PAUSE_SECONDS)
        said = {"retry_in": round(seconds, 1), "error": describe(error)}
        if is_outage(error):
            self._log.warning("claim_failed", **said)
        else:
            self._log.error("claim_failed", **said)
        await self._heed_failover(error)
        await asyncio.sleep(seconds)

    async def _heed_failover(self, error: Exception) -> None:
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            await self._database.reconnect()

    def _wake_in(self, seconds: float) -> None:
        # Nothing else tells of a job that waited for its time; the poll may be an hour away.
        asyncio.get_running_loop().call_later(seconds, self.wake)

    async def _wait_for_provider(self) -> None:
        while not self._stopping and (seconds := self.topic.waits_for()) > 0:
            await asyncio.sleep(min(seconds, 1.0))

    async def _claim(self) -> list[Job]:
        topic = self.topic
        if self._stopping:
            return []
        if topic.lanes:
            return await queue.claim_lanes(
                self._database,
                topic.name,
                lanes=topic.lanes,
                most=topic.batch,
                seconds=self._claim_seconds,
                max_attempts=self._max_attempts,
                holder=self._holder,
            )
        return await queue.claim(
            self._database,
            topic.name,
            most=topic.batch,
            seconds=self._claim_seconds,
            max_attempts=self._max_attempts,
            holder=self._holder,
        )

    async def _run_batch(self, jobs: list[Job]) -> None:
        began = time.perf_counter()
        try:
            done = True
            for part in self._apart([j for j in jobs if not j.suspect]):
                done = await self._attempt(part, first=True) and done
            for company in self._companies(jobs):
                done = await self._attempt_suspects(company) and done
        except asyncio.CancelledError:
            await asyncio.shield(self._hand_back(jobs))
            raise
        except Exception as error:
            outage = is_outage(error)
            if not (outage or is_gone(error)):
                raise
            # The claims outlived the server: without this they would hold until they run out. Where the connection was lost
            # the attempt counts, or a job that takes the server down would do so for ever.
            if is_gone(error):
                await self._database.recover(error)
            await self._hand_back_in_an_outage(jobs, spared=outage, error=_reason(error))
            self._rung.set()
            return
        self._wake_others(self.topic.follow_ups)
        self._log.debug(
            "batch_done", jobs=len(jobs), whole=done, ms=round((time.perf_counter() - began) * 1000, 1)
        )

    def _companies(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """The suspects in the companies they are tried in. Those of several lanes are one company once, and then no more."""
        suspects = [j for j in jobs if j.suspect]
        if all(j.lane is None or j.deaths == 1 for j in suspects):
            return [suspects] if suspects else []
        return [list(lane) for _, lane in groupby(suspects, key=lambda j: j.lane)]

    async def _attempt_suspects(self, company: Sequence[Job]) -> bool:
        """One company at a time: that a job dies while another one of this topic is tried alone says nothing against it."""
        async with self._suspecting:
            first = company[0]
            if len(company) == 1:
                if first.alone > 0 and first.deaths >= self._max_attempts:
                    given_up = f"given up after {self._max_attempts} attempts"
                    await self._bury(
                        first,
                        f"{given_up}: its worker died or lost the database each time",
                        before_last=f"{given_up}; the last one that came back said: ",
                    )
                    await queue.unlease(self._database, [first])
                    return True
                await queue.begin_alone(self._database, first)
            return await self._attempt(company, first=True)

    async def _attempt(self, jobs: Sequence[Job], *, first: bool = False) -> bool:
        """True when every job was settled or buried; False when some must wait. `first` holds for whole lanes."""
        try:
            await self._process(jobs, unlease=first)
            return True
        except Unavailable as error:
            self._log.info(
                "jobs_wait_for_provider",
                jobs=len(jobs),
                provider=error.provider,
                retry_in=round(error.retry_in, 1),
            )
            spared = not (error.asked and self._blame(jobs))
            await queue.release(self._database, jobs, seconds=error.retry_in, spared=spared)
            await queue.unlease(self._database, jobs, seconds=error.retry_in)
            if not spared and jobs[0].attempt - jobs[0].spared >= self._max_attempts:
                await self._bury(jobs[0], _reason(error), error=error)
                return True
            self._wake_in(error.retry_in)
            return False
        except Held:
            return await self._wait_for_lock(jobs, first=first)
        except Exception as error:
            # A database that answers was not lost: then it is the jobs that something is wrong with.
            if is_gone(error) and await self._database.recover(error):
                raise
            if is_locked_out(error):
                return await self._wait_for_lock(jobs, first=first)
            if is_outage(error):
                return await self._wait_for_database(jobs, error)
            if len(jobs) == 1:
                done = await self._failed(jobs[0], error)
            else:
                self._log.info("batch_split", jobs=len(jobs), error=describe(error))
                done = await self._split(jobs)
            if first:
                await queue.unlease(self._database, jobs)
            return done

    async def _wait_for_lock(self, jobs: Sequence[Job], *, first: bool) -> bool:
        """Those that stand apart from the one that met a lock go on; in a lane all wait, and no attempt is counted."""
        if len({j.lane for j in jobs}) > 1 or (jobs[0].lane is None and len(jobs) > 1):
            done = await self._split(jobs)
            if first:
                await queue.unlease(self._database, jobs)
            return done
        seconds = queue.backoff(1 + jobs[0].spared, most=MOST_LOCK_SECONDS)
        self._log.info("jobs_wait_for_lock", jobs=len(jobs), retry_in=round(seconds, 1))
        await self._return(jobs, seconds)
        return False

    async def _wait_for_database(self, jobs: Sequence[Job], error: Exception) -> bool:
        """All wait, and no attempt is counted: what failed fails for everybody."""
        seconds = queue.backoff(
            1 + min(j.spared for j in jobs), most=min(MOST_OUTAGE_SECONDS, self._retry_most)
        )
        self._log.warning(
            "jobs_wait_for_database", jobs=len(jobs), retry_in=round(seconds, 1), error=describe(error)
        )
        await self._heed_failover(error)
        await self._return(jobs, seconds)
        return False

    async def _return(self, jobs: Sequence[Job], seconds: float) -> None:
        await queue.release(self._database, jobs, seconds=seconds, spared=True)
        await queue.unlease(self._database, jobs, seconds=seconds)
        self._wake_in(seconds)

    def _apart(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """The batch in the parts to try one after the other.

        Whoever made the provider fail often enough, in whatever company, may be the reason for it: one half of those, by
        lot, comes last and alone. So the others get through, and the culprit is found by halving.
        """
        sufferers = [j for j in jobs if j.lane is None and j.spared >= SUFFERING]
        last = set(random.sample([j.id for j in sufferers], (len(sufferers) + 1) // 2))
        parts = [[j for j in jobs if j.id not in last], [j for j in jobs if j.id in last]]
        return [part for part in parts if part]

    def _blame(self, jobs: Sequence[Job]) -> bool:
        """Notes whom the provider failed with; True when it is one alone, often, and others went well since it first did.

        Then it is not the provider that is down: it is the job.
        """
        if len(self._sufferers) > MOST_SUFFERERS:
            self._sufferers.clear()
        for job in jobs:
            self._sufferers.setdefault(job.id, self._successes)
        first = jobs[0]
        alone = len(jobs) == 1 and first.spared >= SUFFERING
        return alone and self._successes > self._sufferers[first.id]

    async def _split(self, jobs: Sequence[Job]) -> bool:
        lanes = [list(group) for _, group in groupby(jobs, key=lambda j: j.lane)]
        if len(lanes) > 1:
            return all([await self._attempt(lane) for lane in lanes])
        middle = len(jobs) // 2
        first, second = jobs[:middle], jobs[middle:]
        done = await self._attempt(first)
        if jobs[0].lane is not None and not done:
            await queue.release(self._database, second)
            return False
        return await self._attempt(second) and done

    async def _process(self, jobs: Sequence[Job], *, unlease: bool) -> None:
        commit = await self.topic.handler.prepare(jobs)
        pauses: Iterable[float] = ()
        async with self._database.transaction() as connection:
            ours = await queue.settle(connection, jobs, unlease=unlease)
            if ours:
                pauses = await commit(connection, ours) or ()
        for seconds in pauses:
            self._wake_in(seconds)
        self._successes += 1
        for job in jobs:
            self._sufferers.pop(job.id, None)
        if len(ours) < len(jobs):
            self._log.warning("claim_lost", jobs=len(jobs) - len(ours))

    async def _failed(self, job: Job, error: Exception) -> bool:
        failures = job.attempt - job.spared
        if _is_permanent(error) or failures >= self._max_attempts:
            await self._bury(job, _reason(error), error=error)
            return True
        seconds = queue.backoff(failures, most=self._retry_most)
        self._log.warning(
            "job_postponed",
            job=job.id,
            ref=str(job.ref),
            attempt=failures,
            retry_in=round(seconds, 1),
            error=describe(error),
        )
        await queue.postpone(self._database, job, seconds=seconds, error=_storable(_reason(error)))
        if job.lane is not None:
            await queue.unlease(self._database, [job], seconds=seconds)
        self._wake_in(seconds)
        return False

    async def _bury(
        self, job: Job, reason: str, *, error: Exception | None = None, before_last: str | None = None
    ) -> None:
        await queue.bury(self._database, job, error=_storable(reason), before_last=before_last)
        self._log.error(
            "job_buried",
            job=job.id,
            ref=str(job.ref),
            attempts=job.attempt - job.spared,
            error=describe(error) if error else "its last attempt never came back",
            hint="memoryd dead",
        )

    async def _hand_back_in_an_outage(self, jobs: Sequence[Job], *, spared: bool, error: str) -> None:
        """Until it succeeds: claims that ran out instead would count as the death of their worker."""
        failures = 0
        while True:
            try:
                await queue.release(self._database, jobs, spared=spared, error=_storable(error))
                await queue.unlease(self._database, jobs)
                return
            except DATABASE_FAULTS as fault:
                failures += 1
                seconds = queue.backoff(failures, most=MOST_CLAIM_PAUSE_SECONDS)
                self._log.warning(
                    "claims_not_returned", jobs=len(jobs), retry_in=round(seconds, 1), error=describe(fault)
                )
                if is_gone(fault):
                    await self._database.recover(fault)
                await self._heed_failover(fault)
                await asyncio.sleep(seconds)

    async def _hand_back(self, jobs: Sequence[Job]) -> None:
        try:
            await queue.release(self._database, jobs)
            await queue.unlease(self._database, jobs)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the claims run out by themselves
            self._log.warning("claims_not_returned", jobs=len(jobs), error=describe(fault))


def _is_permanent(error: Exception) -> bool:
    return isinstance(
        error,
        Rejected | Poison | asyncpg.DataError | asyncpg.CheckViolationError | asyncpg.NotNullViolationError,
    )


def _reason(error: Exception) -> str:
    # Of Postgres the message alone: its detail quotes the row.
    said = error.args[0] if isinstance(error, asyncpg.PostgresError) and error.args else error
    return f"{type(error).__name__}: {said}"


def _storable(text: str) -> str:
    """As Postgres can store it."""
    return text.replace("\x00", "�")
