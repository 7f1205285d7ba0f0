"""What all pages share: the database, the sessions, and the server's rights."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from starlette.requests import Request
from structlog.typing import FilteringBoundLogger

from daemon.db.pool import Database
from daemon.settings import Settings
from plugins.web.errors import BusyError
from plugins.web.forms import BadValueError
from plugins.web.sign_in import Guard
from plugins.web.viewer import Viewer

MOST_AUDITS = 2
"""At once, of all sessions: each reads whole tables."""


@dataclass(frozen=True, slots=True)
class Web:
    """One server of pages. `user`: the end user whose rights it has; None: support. `edits`: whether pages change rows."""

    database: Database
    settings: Settings
    guard: Guard
    log: FilteringBoundLogger
    user: UUID | None = None
    edits: bool = False
    kept: dict[str, object] = field(default_factory=dict)
    """Values that pages keep in this process for all readers."""
    _audits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AUDITS))

    def audits(self) -> asyncio.Semaphore:
        """Held while an audit runs. Raises BusyError."""
        if self._audits.locked():
            raise BusyError(f"{MOST_AUDITS} audits run already. Wait until one of them has ended.")
        return self._audits


def web_of(request: Request) -> Web:
    web: Web = request.app.state.web
    return web


def must_edit(web: Web) -> None:
    """Raises BadValueError on a server without --edit."""
    if not web.edits:
        raise BadValueError("These pages only show. To change something, start memoryd web with --edit.")


def viewer_of(request: Request) -> Viewer:
    web = web_of(request)
    return Viewer(request.state.session.name, web.user)
