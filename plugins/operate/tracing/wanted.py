"""Reads OpenTelemetry's environment variables for traces, without its packages."""

from __future__ import annotations

from collections.abc import Mapping

from daemon.settings.env_file import ENDPOINTS

PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN = "http/protobuf"


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Whether to send spans: a collector is named, and neither the SDK nor the exporter is switched off."""
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    return (
        any(environment.get(name, "").strip() for name in ENDPOINTS)
        and environment.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
        and "otlp" in (one.strip() for one in exporters.split(","))
    )


def fault(environment: Mapping[str, str]) -> str | None:
    """Why the collector cannot be used; None if it can."""
    for name in PROTOCOLS:
        if given := environment.get(name, "").strip():
            if given != SPOKEN:
                return (
                    f"{name} is {given[:200]}; memoryd speaks {SPOKEN}, which collectors take at port 4318."
                )
            return None
    return None
