"""Makes spans of finished work, for the rows that name a trace, and sends them to the collector: OTLP over HTTP, configured by
OpenTelemetry's environment variables.

Promise: no work waits for it. A limited number of finished batches is kept in memory; a task of its own reads their rows and
makes their spans. A row that is deleted by then has no span. A collector that hangs, refuses or is missing delays and ends
nothing: a limited number of spans waits in memory, the others are dropped; the log says so once, and again when spans arrive.

Each job has one span, from the insert of the job to the commit of its effects. A later attempt has a span of its own, which
begins with its claim. Names and attributes follow the semantic conventions for memory operations (gen_ai.memory.*);
memoryd's own begin with `memoryd.`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from uuid import UUID

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.measures import AttemptEnd
from handlers.shared.ports import Job
from plugins.operate.tracing.rows import TracedRow, query_of, traced_rows

MOST_WAITING = 1000
"""Batches."""
CLOSE_SECONDS = 2.0
AGAIN_SECONDS = 60.0
"""Between two lines of the log about work that was not traced."""


class Collector:
    """A tracer provider of its own: other packages of the process are not traced."""

    def __init__(self, resource: Mapping[str, str], *, logger: FilteringBoundLogger) -> None:
        """`resource`: attributes of this process, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES set others."""
        # Its own log lines repeat those of _Exporter, and may quote an answer.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
        said = Resource.create().merge(Resource(dict(resource))).merge(OTELResourceDetector().detect())
        self.provider = TracerProvider(resource=said, shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(_Exporter(OTLPSpanExporter(), logger)))
        self.tracer = self.provider.get_tracer("memoryd")

    def close(self, seconds: float) -> None:
        """Sends the waiting spans, and returns after `seconds` at the latest."""
        # The SDK's own limit does not hold while a request hangs.
        closing = threading.Thread(target=self.provider.shutdown, daemon=True)
        closing.start()
        closing.join(seconds)


class _Exporter(SpanExporter):
    """Logs when spans stop arriving, and when they arrive again. Called by one thread at a time."""

    def __init__(self, inner: SpanExporter, logger: FilteringBoundLogger) -> None:
        self._inner = inner
        self._log = logger
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._inner.export(spans)
        except Exception:  # noqa: BLE001 - whatever it is, the spans are lost
            result = SpanExportResult.FAILURE
        if result is not SpanExportResult.SUCCESS:
            if not self._lost:
                self._log.warning("spans_not_taken", hint="OTEL_EXPORTER_OTLP_ENDPOINT names the collector")
            self._lost += len(spans)
        elif self._lost:
            self._log.info("spans_taken_again", lost=self._lost)
            self._lost = 0
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


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
        if not any(query_of(job) for job in ended.jobs):
            return
        if len(self._waiting) >= MOST_WAITING:
            self._leave_out(ended, "more work ends than can be traced")
            return
        self._waiting.append(ended)
        self._news.set()

    async def run(self) -> None:
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
