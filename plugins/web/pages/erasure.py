"""The erasure of all that is kept about a user: a page that says what goes and stays, and afterwards that all is gone.

Promise: an erasure is one transaction in the background: it is whole, or nothing has gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from daemon.cli.upkeep import ERASE, ERASE_SECONDS, NAMING, NAMING_MOST
from daemon.db.errors import is_gone
from handlers.shared.ports import AnyConnection
from plugins.web.background import Background
from plugins.web.errors import BusyError
from plugins.web.forms import BadValueError
from plugins.web.names import IS_USER, names_of
from plugins.web.pages.knowledge import TITLES
from plugins.web.pages.rights import known_user, rows_held, user_asked, work_lock
from plugins.web.pages.users import COUNTED, HAS, LATEST, ON_RECORD, many
from plugins.web.render import page
from plugins.web.viewer import Viewer, by_indexes, on_behalf, reading, rows_found
from plugins.web.web import Web, viewer_of, web_of

WAITED = 3.0
"""Seconds: most erasures end before."""
UNKNOWN = "It is not known whether it was deleted: look below."
"""Of an erasure whose end was not heard."""
LOST = "Nothing was deleted: the connection to the database was lost."
Naming = tuple[bool, bool]
"""Whether an entry has the whole name, and is archived."""


@dataclass(slots=True)
class Erasure:
    """The latest erasure of this process. Its work's result: how many rows of each table went, and files that stay."""

    user: UUID
    work: Background[dict[str, Any]]
    named: Mapping[UUID, Naming]
    """Entries of the team's knowledge that had a name of theirs: they stay."""


async def erasure(request: Request) -> Response:
    """What an erasure deletes and what stays, with its button; how far one is; and, once it is done, that all is gone."""
    web, viewer, wanted = web_of(request), viewer_of(request), user_asked(request)
    one = _latest(web)
    if one is not None and one.user != wanted:
        one = None
    values: dict[str, Any] = dict.fromkeys(("has", "held", "named"), ())
    values |= {"names": {}, "latest": {}, "is_there": False, "trouble": None}
    if one is None or not one.work.runs:
        async with reading(web.database, viewer) as connection, by_indexes(connection):
            [known] = await rows_found(connection, viewer, IS_USER, wanted)
            if known["there"]:
                values["has"] = await rows_found(connection, viewer, HAS, wanted)
                latest = await rows_found(connection, viewer, LATEST, wanted)
                values["latest"] = {row["of"]: row for row in latest}
                if viewer.user is None:
                    await connection.execute(ON_RECORD, wanted)
                values["names"] = await names_of(connection, viewer, [wanted])
            named = await _named(connection, viewer, wanted) if known["there"] else one.named if one else {}
            titles = await connection.fetch(TITLES, list(named)) if named else []
            values["named"] = [(row, *named[row["id"]]) for row in titles]
        # As a copy would have it: of who has nothing that is counted, it is little.
        held = values["held"] = [] if known["there"] else await rows_held(web, wanted)
        left = any(row["rows"] for row in held or () if row["name"] != "memory_settings")
        values["is_there"] = known["there"] or left
        if one is None or one.work.result is None:  # Where nobody may count, there may be something.
            values["is_there"] |= held is None
        if one is not None:
            values["trouble"] = (
                LOST if one.work.trouble == UNKNOWN and (known["there"] or left) else one.work.trouble
            )
    return page(
        request,
        "erasure.html",
        wanted=wanted,
        most=COUNTED,
        most_named=NAMING_MOST,
        one=one,
        many=many,
        **values,
    )


async def erase(request: Request) -> Response:
    """Begins an erasure in the background, unless one of this user runs; waits a moment for its end."""
    web, form, wanted = web_of(request), request.state.form, user_asked(request)
    if form.get("sure") != "yes":
        raise BadValueError("Tick that you have read what goes and what stays.", field="sure")
    async with work_lock(web, "erasing"):  # Two tabs begin one.
        one: Erasure | None = _latest(web)
        if one is None or not one.work.runs:
            await known_user(request, any_row=True)
            async with reading(web.database, viewer_of(request)) as connection:
                named = await _named(connection, viewer_of(request), wanted)
            web.kept["erasure"] = one = Erasure(wanted, Background("erasure", web.log), named)
            one.work.start(lambda: _erase(web, request, wanted), _explained)
    if one.user != wanted:
        raise BusyError(
            "Another user's memory is being deleted. Wait until that has ended, and send this again."
        )
    await one.work.wait(WAITED)
    return RedirectResponse(f"/users/{wanted}/erasure", status_code=303)


async def _named(connection: AnyConnection, viewer: Viewer, user: UUID) -> Mapping[UUID, Naming]:
    """Entries of the team's knowledge that have a name of the user. End users see none."""
    if viewer.user is not None:
        return {}
    found = await rows_found(connection, viewer, NAMING, user)
    return {row["id"]: (row["whole"], row["archived"]) for row in found}


async def _erase(web: Web, request: Request, user: UUID) -> dict[str, Any]:
    async with on_behalf(
        web.database, viewer_of(request), "everything", "delete", user=user, seconds=ERASE_SECONDS
    ) as connection:
        gone: dict[str, Any] = json.loads(await connection.fetchval(ERASE, user, timeout=ERASE_SECONDS))
    web.log.info("web_user_erased", user_id=str(user), by=str(viewer_of(request).name))
    return gone


def _explained(error: Exception) -> str | None:
    if is_gone(error) and not isinstance(error, asyncpg.QueryCanceledError):
        return UNKNOWN
    if not isinstance(error, asyncpg.PostgresError):
        return None
    why, hint = str(error.args[0]).partition(". ")[0], str(getattr(error, "hint", None) or "").rstrip(".")
    return f"Nothing was deleted: {why}{'; ' if hint else ''}{hint[:1].lower()}{hint[1:]}."


def _latest(web: Web) -> Erasure | None:
    found = web.kept.get("erasure")
    assert found is None or isinstance(found, Erasure)
    return found


routes: list[Route] = [
    Route("/users/{id:uuid}/erasure", erasure),
    Route("/users/{id:uuid}/erasure", erase, methods=["POST"]),
]
