"""Runs a claimed batch: calls the two halves of the handler, and does what the failure policy decides for jobs that fail.

Promise: if one job of a batch fails, only that job is retried or discarded, and the others are done. While a provider is down
no attempt is counted. No job stays claimed after its batch has ended; where claims cannot be handed back, they expire.

In a lane the halves of a split batch run in order, and when a job must wait, the later jobs of its lane wait too.

    run                        the whole batch: fresh jobs first, then suspects
      _attempt                 one part of it
        _process               prepare, then complete and commit in one transaction
        _wait_for_provider     a provider is down: snooze
        _wait_for_lock         a row is locked by another transaction: split, then snooze
        _wait_for_database     an outage of the database: snooze
        _split                 several jobs, and one of them fails: attempt the halves
        _failed                one job fails: retry or discard
      _hand_back...            the daemon stops, or the connection is lost: the claims are handed back
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone, is_outage
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.measures import Measures
from daemon.queue import failures, queue
from daemon.queue.failures import Fault, ProviderSuspects, reason_of
from daemon.queue.topic import Topic
from handlers.shared.ports import Job
from providers.ports import UnavailableError


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
        measures: Measures,
    ) -> None:
        """`wake` is called when there may be work of this topic, `wake_others` when there may be work of other topics."""
        self._topic = topic
        self._database = database
        self._max_attempts = max_attempts
        self._retry_max_seconds = retry_max_seconds
        self._wake = wake
        self._wake_others = wake_others
        self._log = logger
        self._measures = measures
        self._trying_suspects = asyncio.Lock()
        self._provider_suspects = ProviderSuspects()

    async def run(self, jobs: list[Job]) -> None:
        """Runs a batch to its end: each of its jobs is completed, discarded or handed back."""
        began = time.perf_counter()
        self._measures.begun(self._topic.name, jobs)
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
            # The jobs are still claimed, and would be until the claims expire. Where the connection was lost the attempt is
            # counted: the job itself may be what ends the server, and would otherwise end it again and again.
            if is_gone(error):
                await self._database.recover(error)
            await self._hand_back_in_an_outage(jobs, counted=not outage, error=reason_of(error))
            self._wake()
            return
        self._wake_others(self._topic.follow_ups)
        self._log.debug(
            "batch_done", jobs=len(jobs), whole=done, ms=round((time.perf_counter() - began) * 1000, 1)
        )

    # --- An attempt of a part of the batch.

    async def _attempt_suspects(self, suspects: Sequence[Job]) -> bool:
        """One batch of suspects at a time: the death of one would otherwise count against another that is tried meanwhile."""
        async with self._trying_suspects:
            first = suspects[0]
            if len(suspects) == 1:
                if first.solo_attempts > 0 and first.counted_attempts >= self._max_attempts:
                    discarded = f"discarded after {self._max_attempts} attempts"
                    await self._discard(
                        first,
                        f"{discarded}: its worker died or lost the database each time",
                        before_last=f"{discarded}, the last of which ended with its worker; the error before that: ",
                    )
                    await queue.return_lanes(self._database, [first])
                    return True
                await queue.begin_solo_attempt(self._database, first)
            return await self._attempt(suspects, first=True)

    async def _attempt(self, jobs: Sequence[Job], *, first: bool = False) -> bool:
        """True when every job was completed or discarded, False when some must wait.

        `first`: these are all jobs of their lanes in this batch, so the lanes are returned at the end.
        """
        try:
            await self._process(jobs, return_lanes=first)
            return True
        except UnavailableError as error:
            return await self._wait_for_provider(jobs, error)
        except Exception as error:
            # If the database answers at once, the connection was not lost: then the error is treated as the jobs' own.
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
                await queue.return_lanes(self._database, jobs)
            return done

    async def _process(self, jobs: Sequence[Job], *, return_lanes: bool) -> None:
        began = time.perf_counter()
        commit = await self._topic.handler.prepare(jobs)
        prepared = time.perf_counter()
        pauses: Iterable[float] = ()
        async with self._database.transaction() as connection:
            ours = await queue.complete(
                connection, jobs, return_lanes=return_lanes, durable=not self._topic.derives
            )
            if ours:
                pauses = await commit(connection, ours) or ()
        for seconds in pauses:
            self._wake_in(seconds)
        self._measures.done(
            self._topic.name, ours, seconds=time.perf_counter() - began, prepare_seconds=prepared - began
        )
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
            await queue.snooze(self._database, second)
            return False
        return await self._attempt(second) and done

    # --- Jobs that must wait for something else: most attempts are not counted.

    async def _wait_for_provider(self, jobs: Sequence[Job], error: UnavailableError) -> bool:
        self._log.info(
            "jobs_wait_for_provider",
            jobs=len(jobs),
            provider=error.provider,
            retry_in=round(error.retry_in, 1),
        )
        at_fault = error.asked and self._provider_suspects.provider_failed(jobs)
        await queue.hand_back(self._database, jobs, counted=at_fault, seconds=error.retry_in)
        await queue.return_lanes(self._database, jobs, seconds=error.retry_in)
        if at_fault and jobs[0].attempt - jobs[0].snoozes >= self._max_attempts:
            await self._discard(jobs[0], reason_of(error), error=error)
            return True
        self._measures.ended(self._topic.name, "handed_back", len(jobs))
        self._wake_in(error.retry_in)
        return False

    async def _wait_for_lock(self, jobs: Sequence[Job], *, first: bool) -> bool:
        """The batch is split until only the jobs that need the locked row wait; in a lane all wait. No attempt is counted."""
        if failures.is_divisible(jobs):
            done = await self._split(jobs)
            if first:
                await queue.return_lanes(self._database, jobs)
            return done
        seconds = failures.lock_pause(jobs)
        self._log.info("jobs_wait_for_lock", jobs=len(jobs), retry_in=round(seconds, 1))
        await self._snooze(jobs, seconds)
        return False

    async def _wait_for_database(self, jobs: Sequence[Job], error: Exception) -> bool:
        """All wait, and no attempt is counted: an outage does not depend on the job."""
        seconds = failures.outage_pause(jobs, maximum=self._retry_max_seconds)
        self._log.warning(
            "jobs_wait_for_database", jobs=len(jobs), retry_in=round(seconds, 1), error=describe(error)
        )
        await self._database.reconnect_after_failover(error)
        await self._snooze(jobs, seconds)
        return False

    async def _snooze(self, jobs: Sequence[Job], seconds: float) -> None:
        await queue.snooze(self._database, jobs, seconds=seconds)
        await queue.return_lanes(self._database, jobs, seconds=seconds)
        self._measures.ended(self._topic.name, "handed_back", len(jobs))
        self._wake_in(seconds)

    def _wake_in(self, seconds: float) -> None:
        # There is no wake-up when a pause of a job ends, and the next poll may be an hour away.
        asyncio.get_running_loop().call_later(seconds, self._wake)

    # --- Jobs that failed.

    async def _failed(self, job: Job, error: Exception) -> bool:
        attempts = job.attempt - job.snoozes
        if failures.is_permanent(error) or attempts >= self._max_attempts:
            await self._discard(job, reason_of(error), error=error)
            return True
        seconds = failures.backoff(attempts, maximum=self._retry_max_seconds)
        self._log.warning(
            "job_retried",
            job=job.id,
            ref=str(job.ref),
            attempt=attempts,
            retry_in=round(seconds, 1),
            error=describe(error),
        )
        await queue.retry(self._database, job, seconds=seconds, error=reason_of(error))
        self._measures.failed(self._topic.name, job, "retried", describe(error))
        if job.lane is not None:
            await queue.return_lanes(self._database, [job], seconds=seconds)
        self._wake_in(seconds)
        return False

    async def _discard(
        self, job: Job, reason: str, *, error: Exception | None = None, before_last: str | None = None
    ) -> None:
        said = describe(error) if error else "its worker died in the last attempt"
        await queue.discard(self._database, job, error=reason, before_last=before_last)
        self._measures.failed(self._topic.name, job, "discarded", said)
        self._log.error(
            "job_discarded",
            job=job.id,
            ref=str(job.ref),
            attempts=job.attempt - job.snoozes,
            error=said,
            hint="memoryd dead",
        )

    # --- Claims that are handed back when the batch cannot go on.

    async def _hand_back_in_an_outage(self, jobs: Sequence[Job], *, counted: bool, error: str) -> None:
        """Tries until it succeeds: a claim that expires would count as the death of its worker."""
        failed = 0
        while True:
            try:
                await queue.hand_back(self._database, jobs, counted=counted, error=error)
                await queue.return_lanes(self._database, jobs)
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
            await queue.snooze(self._database, jobs)
            await queue.return_lanes(self._database, jobs)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the claims expire by themselves
            self._log.warning("claims_not_returned", jobs=len(jobs), error=describe(fault))
