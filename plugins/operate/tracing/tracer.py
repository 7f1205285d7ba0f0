"""Makes spans of finished work, for the rows that name a trace.

Promise: no work waits for it. A limited number of finished batches is kept in memory; a task of its own reads their rows and
makes their spans. A row that is deleted by then has no span.

Each job has one span, from the insert of the job to the commit of its effects. A later attempt has a span of its own, which
begins with its claim. Names and attributes follow the semantic conventions for memory operations (gen_ai.memory.*);
memoryd's own begin with `memoryd.`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from uuid import UUID

from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.measures import AttemptEnd
from handlers.shared.ports import Job
from plugins.operate.tracing.collector import Collector
from plugins.operate.tracing.rows import TracedRow, query_of, traced_rows

MOST_WAITING = 1000
"""Batches."""
CLOSE_SECONDS = 2.0
AGAIN_SECONDS = 60.0
"""Between two lines of the log about work that was not traced."""


class Tracer:
    """Collects ended attempts, and makes spans of them until it is cancelled."""

    def __init__(self, database: Database, collector: Collector, *, logger: FilteringBoundLogger) -> None:
        self._database = database
        self._collector = collector
        self._log = logger
        self._propagator = TraceContextTextMapPropagator()
        self._waiting: deque[AttemptEnd] = deque()
        self._news = asyncio.Event()
        self._draining = asyncio.Lock()
        self._left_out = 0
        self._told_at = -AGAIN_SECONDS

    def add(self, ended: AttemptEnd) -> None:
        """Keeps an ended attempt for later."""
        if not any(query_of(job) for job in ended.jobs):
            return
        if len(self._waiting) >= MOST_WAITING:
            self._leave_out(ended, "more work ends than can be traced")
            return
        self._waiting.append(ended)
        self._news.set()

    async def run(self) -> None:
        """Makes spans of the kept attempts."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self._drain()

    async def close(self) -> None:
        """Makes and sends the remaining spans, for at most a few seconds."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._drain()
        except TimeoutError:
            pass
        await asyncio.to_thread(self._collector.close, CLOSE_SECONDS)

    async def _drain(self) -> None:
        # `close` must wait until `run` has finished its batch.
        async with self._draining:
            while self._waiting:
                await self._trace(self._waiting.popleft())

    async def _trace(self, ended: AttemptEnd) -> None:
        try:
            rows = await traced_rows(self._database, ended.jobs)
        except DATABASE_FAULTS as error:
            self._leave_out(ended, describe(error))
            return
        # The system clock may have been set meanwhile: durations are by the monotonic clock.
        zero = time.time_ns() - time.monotonic_ns()
        for job in ended.jobs:
            if job.ref is not None and (row := rows.get(job.ref)) is not None:
                self._span(ended, job, job.ref, row, zero)

    def _span(self, ended: AttemptEnd, job: Job, ref: UUID, row: TracedRow, zero: int) -> None:
        parent = self._propagator.extract({"traceparent": row.traceparent})
        if not parent:
            return  # not a traceparent
        span = self._collector.tracer.start_span(
            row.operation or ended.topic,
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes={k: v for k, v in self._attributes(ended, job, ref, row).items() if v is not None},
            start_time=zero + round((job.made_at if job.attempt == 1 else job.claimed_at) * 1e9),
        )
        if ended.error is not None:
            span.set_attribute("error.type", ended.error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(zero + round(ended.at * 1e9))

    def _attributes(
        self, ended: AttemptEnd, job: Job, ref: UUID, row: TracedRow
    ) -> dict[str, AttributeValue | None]:
        return {
            "gen_ai.operation.name": row.operation,
            "gen_ai.memory.store.id": row.agent_id,
            "gen_ai.memory.record.id": None if row.record is None else str(row.record),
            "gen_ai.memory.record.count": row.count,
            "gen_ai.conversation.id": None if row.session_id is None else str(row.session_id),
            "memoryd.topic": ended.topic,
            "memoryd.row.id": str(ref),
            "memoryd.outcome": ended.outcome,
            "memoryd.attempt": job.attempt - job.snoozes,
            "memoryd.batch.size": len(ended.jobs),
            "memoryd.queue.seconds": job.claimed_at - job.made_at if job.attempt == 1 else None,
            "memoryd.prepare.seconds": ended.prepare_seconds,
        }

    def _leave_out(self, ended: AttemptEnd, reason: str) -> None:
        self._left_out += len(ended.jobs)
        now = time.monotonic()
        if now - self._told_at >= AGAIN_SECONDS:
            self._log.warning("work_not_traced", jobs=self._left_out, reason=reason)
            self._left_out, self._told_at = 0, now
