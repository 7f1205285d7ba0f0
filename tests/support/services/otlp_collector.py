"""A collector of OpenTelemetry on a local port: what the daemon sends it by OTLP over HTTP, and faults on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.services.played_server import Asked, PlayedServer, Reply


@dataclass(frozen=True, slots=True)
class Span:
    """A span that came."""

    name: str
    trace: str
    parent: str
    began: int
    ended: int
    """In nanoseconds since 1970."""
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector(PlayedServer):
    """Takes spans. `received` is all that came, as bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.received = b""
        self.spans: list[Span] = []

    def answer(self, asked: Asked) -> Reply:
        assert asked.path == "/v1/traces", asked.path
        assert asked.headers["content-type"] == "application/x-protobuf"
        self.received += asked.body
        self.spans += _read(asked.body)
        return Reply(ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf")

    def of(self, trace: str) -> list[Span]:
        """The spans of a trace, by when they began and ended."""
        return sorted((s for s in self.spans if s.trace == trace), key=lambda s: (s.began, s.ended))


def _read(body: bytes) -> Iterator[Span]:
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    name=span.name,
                    trace=span.trace_id.hex(),
                    parent=span.parent_span_id.hex(),
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    failed=span.status.code == span.status.STATUS_CODE_ERROR,
                    attributes=_attributes(span.attributes),
                    resource=resource,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
