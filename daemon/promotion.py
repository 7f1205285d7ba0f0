"""A daemon whose database is a standby, or has become one: it does nothing, and waits until that is promoted.

Promise: it says so once, takes part in nothing meanwhile, and goes on as any daemon does when the standby has become a
primary, without a restart. SIGTERM and SIGINT end the wait, and the process ends well. The HTTP port answers that it is
alive and not ready, and why.
"""

from __future__ import annotations

import asyncio

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import patiently
from daemon.db.standby import StandbyError, is_standby
from daemon.first_to_end import until_first_ends
from daemon.measures import Measures
from daemon.part import KeptPart, Part, Running
from daemon.plugins import service
from daemon.served import ALONE, SoleDatabase
from daemon.settings import Settings
from daemon.signals import signals_heeded

WHY = "the database is a standby: waiting until it is promoted"


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

    async def stopped() -> None:
        await told_to_stop.wait()

    with signals_heeded(told_to_stop, grace_seconds=0.0, logger=logger):
        logger.warning("standby", poll_seconds=settings.poll_seconds)
        works = [stopped(), _promoted(url, pause=settings.poll_seconds)]
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
        away = {ALONE: SoleDatabase(Measures(), state="away", reason=WHY)}
        port: Running | None = build_http(
            settings, away, providers={}, is_stopping=lambda: False, logger=logger
        )
        return port

    return Part("HTTP port", build)
