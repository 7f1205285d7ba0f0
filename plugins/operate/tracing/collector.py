"""Sends spans to the collector: OTLP over HTTP, configured by OpenTelemetry's environment variables.

Promise: a collector that hangs, refuses or is missing delays and ends nothing: a limited number of spans waits in memory, the
others are dropped; the log says so once, and again when spans arrive.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from structlog.typing import FilteringBoundLogger


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
