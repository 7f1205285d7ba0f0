"""The databases that a process serves, as the HTTP port shows them; and the wait until a standby is promoted.

Promise: at a standby a daemon says so once, takes part in nothing, and goes on as any daemon does when the standby has become
a primary, without a restart. SIGTERM and SIGINT end the wait, and the process ends well. The HTTP port answers that it is
alive and not ready, and why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import patiently
from daemon.db.server import StandbyError, is_standby
from daemon.ending import signals_heeded, until_first_ends
from daemon.measures import Measures
from daemon.part import KeptPart, Part, Running
from daemon.plugins import service
from daemon.settings import Settings

if TYPE_CHECKING:
    from daemon.lifecycle import Daemon

STATES = ("waiting", "working", "resting", "away")
ALONE = ""
"""The name of the database of a process that serves one."""
WHY = "the database is a standby: waiting until it is promoted"


@dataclass(slots=True, eq=False)
class ServedDatabase:
    """One of the databases."""

    measures: Measures
    """The counts of its daemons."""
    daemon: Daemon | None = None
    """The daemon that works in it now."""
    state: str = "working"
    """One of STATES."""
    reason: str | None = None
    """Why it is not served; None where it is."""


async def is_writable(settings: Settings, url: str, *, once: bool, logger: FilteringBoundLogger) -> bool:
    """True when the database takes writes, at once or after its promotion; False when a signal ended the wait.

    Raises StandbyError instead of waiting with `once`; OSError or asyncpg.PostgresError as a start does.
    """
    if not await patiently(lambda: is_standby(url), seconds=settings.start_seconds, logger=logger):
        return True
    if once:
        raise StandbyError
    loop = asyncio.get_running_loop()
    began, told_to_stop = loop.time(), asyncio.Event()
    with signals_heeded(told_to_stop, grace_seconds=0.0, logger=logger):
        logger.warning("standby", poll_seconds=settings.poll_seconds)
        works: list[Coroutine[Any, Any, object]] = [
            told_to_stop.wait(),
            _promoted(url, pause=settings.poll_seconds),
        ]
        port = KeptPart(_port(settings, logger), tell=lambda _name, _error: None, logger=logger)
        if port.running is not None:
            works.append(port.run())
        await until_first_ends(*works)
    if told_to_stop.is_set():
        return False
    logger.info("promoted", seconds=round(loop.time() - began, 2))
    return True


async def _promoted(url: str, *, pause: float) -> None:
    """Returns when it is no standby any more."""
    while True:
        await asyncio.sleep(pause)
        try:
            if not await is_standby(url):
                return
        except DATABASE_FAULTS as error:
            if not is_gone(error):
                raise  # such as a password that was changed


def _port(settings: Settings, logger: FilteringBoundLogger) -> Part:
    """What answers probes meanwhile; nothing where no plugin does, or the settings name no port."""

    def build() -> Running | None:
        build_http = service("http_port")
        if build_http is None:
            return None
        away = {ALONE: ServedDatabase(Measures(), state="away", reason=WHY)}
        port: Running | None = build_http(
            settings, away, providers={}, is_stopping=lambda: False, logger=logger
        )
        return port

    return Part("HTTP port", build)
