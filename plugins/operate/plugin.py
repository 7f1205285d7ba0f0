"""The plugin operate: what operators watch and keep: the HTTP port, traces, backups."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from daemon.part import Part
from daemon.plugins import Check, Command, Core, Examination, Plugin, imported
from daemon.schedule import Tick
from daemon.served import ALONE, ServedDatabase
from daemon.settings import Settings, heed_variables_of_file
from daemon.settings.env_file import ENDPOINTS
from plugins.operate.settings import Backups, Http

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from plugins.operate.metrics.collected import Provider
    from plugins.operate.metrics.port import HttpPort
    from plugins.operate.tracing.tracer import Tracer

PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN = "http/protobuf"


class Operate(Plugin):
    name = "operate"
    needs = ("embedded", "secrets", "trail")
    settings = (Backups, Http)
    commands = {
        "backup": Command("plugins.operate.cli.backup:backup", "Operate"),
        "health": Command("plugins.operate.cli.health:health", "Operate"),
        "restore": Command("plugins.operate.cli.restore:restore", "Operate"),
    }
    services = {"http_port": "plugins.operate.plugin:build_http"}

    def parts(self, core: Core) -> Iterable[Part]:
        tracer = _tracer(core)
        if tracer is not None:
            core.measures.on_end = tracer.add
            core.closing.push_async_callback(tracer.close)
        yield Part("traces", lambda: tracer)
        # With several databases the process has one port for all. With --once the daemon ends too soon to need one.
        if core.name == ALONE and not core.once:
            yield Part("HTTP port", lambda: _port(core))

    def ticks(self, core: Core) -> Iterable[Tick]:
        """The backup, where the settings name a folder."""
        own = core.settings.section(Backups)
        if own.backup_dir is not None:
            from plugins.operate.backup.folder import BackupFolder
            from plugins.operate.backup.keys import keys_of

            backups = BackupFolder(
                own.backup_dir.expanduser(),
                url=core.database.url,
                hours=own.backup_hours,
                kept=own.backups_kept,
                keys=keys_of(core.settings),
                logger=core.logger,
            )
            yield Tick("backup", backups.tick_seconds, backups.tick)

    def prepare(self, settings: Settings) -> None:
        """Checks that what answers at the port is installed."""
        if settings.section(Http).http is not None:
            imported("plugins.operate.metrics.pages:Pages")

    async def checks(self, examination: Examination) -> AsyncIterator[Check]:
        from plugins.operate.backup.folder import check_backups

        yield check_backups(examination.settings.section(Backups))


def build_http(
    settings: Settings,
    servings: Mapping[str, ServedDatabase],
    *,
    providers: Mapping[str, Provider | None],
    is_stopping: Callable[[], bool],
    logger: FilteringBoundLogger,
) -> HttpPort | None:
    """What answers probes and scrapes; None where the settings name no port. `providers`: by what they are for."""
    address = settings.section(Http).http
    if address is None:
        return None
    # What writes metrics takes a tenth of a second: it is loaded where the settings name a port.
    from plugins.operate.metrics.pages import Pages
    from plugins.operate.metrics.port import HttpPort

    known = {role: one for role, one in providers.items() if one is not None}
    return HttpPort(address, Pages(servings, providers=known, is_stopping=is_stopping), logger=logger)


def _port(core: Core) -> HttpPort | None:
    return build_http(
        core.settings,
        {ALONE: core.served},
        providers={"embedder": core.embedder, "language_model": core.language_model},
        is_stopping=core.is_stopping,
        logger=core.logger,
    )


def _tracer(core: Core) -> Tracer | None:
    """None where the environment names no collector, or it cannot be spoken to."""
    from providers.ports import missing

    heed_variables_of_file("OTEL_")
    if not _are_spans_wanted(os.environ):
        return None
    if (fault := _collector_fault(os.environ)) is not None:
        core.logger.warning("tracing_left_out", reason=fault)
        return None
    try:
        from plugins.operate.tracing.tracer import Collector, Tracer
    except ImportError:
        core.logger.warning("tracing_left_out", reason=missing("Tracing", "otel"))
        return None
    resource = {
        "service.name": "memoryd",
        "service.version": core.version,
        "service.instance.id": str(core.daemon_id),
    }
    core.logger.info("tracing")
    return Tracer(core.database, Collector(resource, logger=core.logger), logger=core.logger)


def _are_spans_wanted(environment: Mapping[str, str]) -> bool:
    """Whether to send spans: a collector is named, and neither the SDK nor the exporter is switched off."""
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    return (
        any(environment.get(name, "").strip() for name in ENDPOINTS)
        and environment.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
        and "otlp" in (one.strip() for one in exporters.split(","))
    )


def _collector_fault(environment: Mapping[str, str]) -> str | None:
    """Why the collector cannot be used; None if it can."""
    for name in PROTOCOLS:
        if given := environment.get(name, "").strip():
            if given != SPOKEN:
                return (
                    f"{name} is {given[:200]}; memoryd speaks {SPOKEN}, which collectors take at port 4318."
                )
            return None
    return None


PLUGIN = Operate()
