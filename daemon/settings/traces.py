"""What the environment says of traces: the variables are OpenTelemetry's own, and read where nothing of it is installed."""

from __future__ import annotations

from collections.abc import Mapping

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS = frozenset({"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"})
"""They may hold a key of the collector's."""
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN = "http/protobuf"


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Whether spans are to be sent: a collector is named, and neither the SDK nor the exporter is switched off."""
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    return (
        any(environment.get(name, "").strip() for name in ENDPOINTS)
        and environment.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
        and "otlp" in (one.strip() for one in exporters.split(","))
    )


def fault(environment: Mapping[str, str]) -> str | None:
    """Why the collector cannot be spoken to; None where it can."""
    for name in PROTOCOLS:
        if given := environment.get(name, "").strip():
            if given != SPOKEN:
                return (
                    f"{name} is {given[:200]}; memoryd speaks {SPOKEN}, which collectors take at port 4318."
                )
            return None
    return None
