"""One claimed batch on its way: the handler's two halves, and for jobs that fail what the failure policy decides.

Promise: a bad job is buried alone and its batch goes through; a provider that is down burns no attempts; whatever happens, no
job stays claimed.

In a lane the halves of a split batch run in order, and when a job must wait, the rest of its lane waits behind it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone, is_outage
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.queue import failures, queue
from daemon.queue.failures import Fault, ProviderSuspects, reason_of
from daemon.queue.topic import Topic
from handlers.shared.ports import Job
from providers.ports import Unavailable


class BatchRunner:
    """Runs the batches of one topic."""

    def __init__(
        self,
        topic: Topic,
        *,
        database: Database,
        max_attempts: int,
        retry_max_seconds: float,
        wake: Callable[[], None],
        wake_others: Callable[[Sequence[str]], None],
        logger: FilteringBoundLogger,
    ) -> None:
        """`wake`: there may be work of this topic; `wake_others`: of these topics."""
        self._topic = topic
        self._database = database
        self._max_attempts = max_attempts
        self._retry_max_seconds = retry_max_seconds
        self._wake = wake
        self._wake_others = wake_others
        self._log = logger
        self._trying_suspects = asyncio.Lock()
        self._provider_suspects = ProviderSuspects()

    async def run(self, jobs: list[Job]) -> None:
        """Runs a batch to its end: each of its jobs is settled, buried or handed back."""
        began = time.perf_counter()
        try:
            done = True
            for part in self._provider_suspects.separate([j for j in jobs if not j.suspect]):
                done = await self._attempt(part, first=True) and done
            for suspects in failures.suspect_batches(jobs):
                done = await self._attempt_suspects(suspects) and done
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
            await self._hand_back_in_an_outage(jobs, uncounted=outage, error=reason_of(error))
            self._wake()
            return
        self._wake_others(self._topic.follow_ups)
        self._log.debug(
            "batch_done", jobs=len(jobs), whole=done, ms=round((time.perf_counter() - began) * 1000, 1)
        )

    # --- An attempt.

    async def _attempt_suspects(self, suspects: Sequence[Job]) -> bool:
        """One batch at a time: that a job dies while another one of this topic is tried alone says nothing against it."""
        async with self._trying_suspects:
            first = suspects[0]
            if len(suspects) == 1:
                if first.solo_attempts > 0 and first.deaths >= self._max_attempts:
                    given_up = f"given up after {self._max_attempts} attempts"
                    await self._bury(
                        first,
                        f"{given_up}: its worker died or lost the database each time",
                        before_last=f"{given_up}; the last one that came back said: ",
                    )
                    await queue.unlease(self._database, [first])
                    return True
                await queue.begin_alone(self._database, first)
            return await self._attempt(suspects, first=True)

    async def _attempt(self, jobs: Sequence[Job], *, first: bool = False) -> bool:
        """True when every job was settled or buried; False when some must wait. `first` holds for whole lanes."""
        try:
            await self._process(jobs, unlease=first)
            return True
        except Unavailable as error:
            return await self._wait_for_provider(jobs, error)
        except Exception as error:
            # A database that answers was not lost: then it is the jobs that something is wrong with.
            if is_gone(error) and await self._database.recover(error):
                raise
            match failures.fault_of(error):
                case Fault.LOCK_CONTENTION:
                    return await self._wait_for_lock(jobs, first=first)
                case Fault.OUTAGE:
                    return await self._wait_for_database(jobs, error)
            if len(jobs) == 1:
                done = await self._failed(jobs[0], error)
            else:
                self._log.info("batch_split", jobs=len(jobs), error=describe(error))
                done = await self._split(jobs)
            if first:
                await queue.unlease(self._database, jobs)
            return done

    async def _process(self, jobs: Sequence[Job], *, unlease: bool) -> None:
        commit = await self._topic.handler.prepare(jobs)
        pauses: Iterable[float] = ()
        async with self._database.transaction() as connection:
            ours = await queue.settle(connection, jobs, unlease=unlease)
            if ours:
                pauses = await commit(connection, ours) or ()
        for seconds in pauses:
            self._wake_in(seconds)
        self._provider_suspects.succeeded(jobs)
        if len(ours) < len(jobs):
            self._log.warning("claim_lost", jobs=len(jobs) - len(ours))

    async def _split(self, jobs: Sequence[Job]) -> bool:
        lanes = failures.by_lane(jobs)
        if len(lanes) > 1:
            return all([await self._attempt(lane) for lane in lanes])
        first, second = failures.halves(jobs)
        done = await self._attempt(first)
        if jobs[0].lane is not None and not done:
            await queue.release(self._database, second)
            return False
        return await self._attempt(second) and done

    # --- Jobs that wait without a fault of theirs.

    async def _wait_for_provider(self, jobs: Sequence[Job], error: Unavailable) -> bool:
        self._log.info(
            "jobs_wait_for_provider",
            jobs=len(jobs),
            provider=error.provider,
            retry_in=round(error.retry_in, 1),
        )
        uncounted = not (error.asked and self._provider_suspects.provider_failed(jobs))
        await queue.release(self._database, jobs, seconds=error.retry_in, uncounted=uncounted)
        await queue.unlease(self._database, jobs, seconds=error.retry_in)
        if not uncounted and jobs[0].attempt - jobs[0].snoozes >= self._max_attempts:
            await self._bury(jobs[0], reason_of(error), error=error)
            return True
        self._wake_in(error.retry_in)
        return False

    async def _wait_for_lock(self, jobs: Sequence[Job], *, first: bool) -> bool:
        """Those that stand apart from the one that met a lock go on; in a lane all wait, and no attempt is counted."""
        if failures.is_divisible(jobs):
            done = await self._split(jobs)
            if first:
                await queue.unlease(self._database, jobs)
            return done
        seconds = failures.lock_pause(jobs)
        self._log.info("jobs_wait_for_lock", jobs=len(jobs), retry_in=round(seconds, 1))
        await self._return(jobs, seconds)
        return False

    async def _wait_for_database(self, jobs: Sequence[Job], error: Exception) -> bool:
        """All wait, and no attempt is counted: what failed fails for everybody."""
        seconds = failures.outage_pause(jobs, maximum=self._retry_max_seconds)
        self._log.warning(
            "jobs_wait_for_database", jobs=len(jobs), retry_in=round(seconds, 1), error=describe(error)
        )
        await self._database.reconnect_after_failover(error)
        await self._return(jobs, seconds)
        return False

    async def _return(self, jobs: Sequence[Job], seconds: float) -> None:
        await queue.release(self._database, jobs, seconds=seconds, uncounted=True)
        await queue.unlease(self._database, jobs, seconds=seconds)
        self._wake_in(seconds)

    def _wake_in(self, seconds: float) -> None:
        # Nothing else tells of a job that waited for its time; the poll may be an hour away.
        asyncio.get_running_loop().call_later(seconds, self._wake)

    # --- Jobs that failed.

    async def _failed(self, job: Job, error: Exception) -> bool:
        attempts = job.attempt - job.snoozes
        if failures.is_permanent(error) or attempts >= self._max_attempts:
            await self._bury(job, reason_of(error), error=error)
            return True
        seconds = failures.backoff(attempts, maximum=self._retry_max_seconds)
        self._log.warning(
            "job_postponed",
            job=job.id,
            ref=str(job.ref),
            attempt=attempts,
            retry_in=round(seconds, 1),
            error=describe(error),
        )
        await queue.postpone(self._database, job, seconds=seconds, error=reason_of(error))
        if job.lane is not None:
            await queue.unlease(self._database, [job], seconds=seconds)
        self._wake_in(seconds)
        return False

    async def _bury(
        self, job: Job, reason: str, *, error: Exception | None = None, before_last: str | None = None
    ) -> None:
        await queue.bury(self._database, job, error=reason, before_last=before_last)
        self._log.error(
            "job_buried",
            job=job.id,
            ref=str(job.ref),
            attempts=job.attempt - job.snoozes,
            error=describe(error) if error else "its last attempt never came back",
            hint="memoryd dead",
        )

    # --- Claims that are given back.

    async def _hand_back_in_an_outage(self, jobs: Sequence[Job], *, uncounted: bool, error: str) -> None:
        """Until it succeeds: claims that ran out instead would count as the death of their worker."""
        failed = 0
        while True:
            try:
                await queue.release(self._database, jobs, uncounted=uncounted, error=error)
                await queue.unlease(self._database, jobs)
                return
            except DATABASE_FAULTS as fault:
                failed += 1
                seconds = failures.backoff(failed, maximum=failures.CLAIM_MAX_SECONDS)
                self._log.warning(
                    "claims_not_returned", jobs=len(jobs), retry_in=round(seconds, 1), error=describe(fault)
                )
                if is_gone(fault):
                    await self._database.recover(fault)
                await self._database.reconnect_after_failover(fault)
                await asyncio.sleep(seconds)

    async def _hand_back(self, jobs: Sequence[Job]) -> None:
        try:
            await queue.release(self._database, jobs)
            await queue.unlease(self._database, jobs)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the claims run out by themselves
            self._log.warning("claims_not_returned", jobs=len(jobs), error=describe(fault))
