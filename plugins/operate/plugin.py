"""The plugin operate: what operators watch and keep: the HTTP port, traces, backups."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from daemon.part import Part
from daemon.plugins import Check, Command, Core, Examination, Plugin, imported
from daemon.schedule import Tick
from daemon.served import ALONE
from daemon.settings import Settings, heed_variables_of_file
from plugins.operate.settings import Backups, Http

if TYPE_CHECKING:
    from plugins.operate.metrics.port import HttpPort
    from plugins.operate.tracing.tracer import Tracer


class Operate(Plugin):
    name = "operate"
    needs = ("embedded", "secrets", "trail")
    settings = (Backups, Http)
    commands = {
        "backup": Command("plugins.operate.cli.backup:backup", "Operate"),
        "health": Command("plugins.operate.cli.health:health", "Operate"),
        "restore": Command("plugins.operate.cli.restore:restore", "Operate"),
    }
    services = {"http_port": "plugins.operate.http:build_http"}

    def parts(self, core: Core) -> Iterable[Part]:
        """The HTTP port, and the tracer."""
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
        """How old the newest backup is."""
        from plugins.operate.backup.check import check_backups

        yield check_backups(examination.settings.section(Backups))


def _port(core: Core) -> HttpPort | None:
    from plugins.operate.http import build_http

    return build_http(
        core.settings,
        {ALONE: core.served},
        providers={"embedder": core.embedder, "language_model": core.language_model},
        is_stopping=core.is_stopping,
        logger=core.logger,
    )


def _tracer(core: Core) -> Tracer | None:
    """None where the environment names no collector, or it cannot be spoken to."""
    from plugins.operate.tracing import wanted
    from providers.ports import missing

    heed_variables_of_file("OTEL_")
    if not wanted.are_wanted(os.environ):
        return None
    if (fault := wanted.fault(os.environ)) is not None:
        core.logger.warning("tracing_left_out", reason=fault)
        return None
    try:
        from plugins.operate.tracing.collector import Collector
        from plugins.operate.tracing.tracer import Tracer
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


PLUGIN = Operate()
