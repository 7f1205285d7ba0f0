"""The HTTP port, built as the settings say. What writes metrics takes a tenth of a second: it is loaded where they name one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from daemon.served import ServedDatabase
from daemon.settings import Settings
from plugins.operate.settings import Http

if TYPE_CHECKING:
    from plugins.operate.metrics.collected import Provider
    from plugins.operate.metrics.port import HttpPort


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
    from plugins.operate.metrics.pages import Pages
    from plugins.operate.metrics.port import HttpPort

    known = {role: one for role, one in providers.items() if one is not None}
    return HttpPort(address, Pages(servings, providers=known, is_stopping=is_stopping), logger=logger)
