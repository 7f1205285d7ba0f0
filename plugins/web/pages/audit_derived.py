"""All rows that were derived from one thing, over any number of steps, and the page that forgets them together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from plugins.audit.derived import TABLES, Kind, Lineage, derived
from plugins.audit.forget import OF_A_USER, ForgetError, forget, to_forget
from plugins.audit.rule import SECONDS
from plugins.web.errors import NotThereError, title_of
from plugins.web.forms import BadValueError, id_in, text_in, uuid_in
from plugins.web.names import nobody_in
from plugins.web.pages.tasks import ROWS
from plugins.web.render import page, tell
from plugins.web.viewer import Viewer, on_behalf, reading
from plugins.web.web import Web, viewer_of, web_of

SHOWN = 300
"""Rows of a list; the nearest come first."""
PAGES = {
    "memory": "/memories/",
    "conversation": "/conversations/",
    "document": "/documents/",
    "insight": "/dreams/insights/",
    "anchor": "/trail/",
    "knowledge": "/knowledge/",
}
"""The path of the page of a row, before its id, by kind."""
# The users of these rows, for the record.
USERS = "select distinct t.user_id from public.{table} t where t.id = any($1) and t.user_id is not null"
WITH_USERS = ("command", "message", "conversation", "memory", "insight", "document")


async def listing(request: Request) -> Response:
    """The derived rows by steps, and how many rows a forget would delete."""
    kind, what = _asked(request.query_params)
    lineage = await _lineage(request, kind, what)
    if kind == Kind.USER and not lineage.rows:
        found = await nobody_in(request, {"user": request.query_params["id"]})
        if nobody := [replace(one, field="id") for one in found]:
            return page(request, "error.html", status=404, title=title_of(404), sentence="", nobody=nobody)
    return await _shown(request, lineage)


async def forget_all(request: Request) -> Response:
    """Forgets the thing with its derived rows, unless more were derived since the page was made."""
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    kind, what = _asked(form)
    if kind == Kind.USER:
        raise BadValueError(OF_A_USER)
    influenced = form.get("influenced") == "yes"
    lineage = await _lineage(request, kind, what)
    if form.get("version") != _version(lineage):
        request.state.changed = True
        return await _shown(request, lineage)
    users = await _users(web, viewer, to_forget(lineage, influenced=influenced))
    try:
        async with on_behalf(
            web.database,
            viewer,
            TABLES.get(kind, "agent_memory"),
            "delete",
            user=users[0] if users else None,
            others=users[1:],
            seconds=SECONDS,
        ) as connection:
            gone = await forget(connection, kind, what, influenced=influenced)
    except ForgetError as error:
        raise BadValueError(str(error)) from None
    web.log.info("web_derived_forgotten", kind=str(kind), rows=sum(gone.values()))
    tell(
        request,
        "forgotten",
        ", ".join(f"{each} {count}" for each, count in gone.items()) or "nothing: it is gone",
    )
    return RedirectResponse("/audit", status_code=303)


def _asked(values: Mapping[str, str]) -> tuple[Kind, UUID | str]:
    try:
        kind = Kind(values.get("kind", ""))
    except ValueError:
        raise BadValueError(f"kind is one of {', '.join(Kind)}.") from None
    what: UUID | str | None = text_in(values, "id", longest=200)
    if kind != Kind.AGENT:
        what = (id_in if kind == Kind.USER else uuid_in)(values, "id")
    if what is None:
        raise BadValueError(f"Say which {kind.value}: its id.")
    return kind, what


async def _lineage(request: Request, kind: Kind, what: UUID | str) -> Lineage:
    web, viewer = web_of(request), viewer_of(request)
    async with web.audits(), as_service(web, viewer) as connection:
        lineage = await derived(connection, kind, what)
    if not lineage.there and not lineage.rows:
        raise NotThereError
    lineage.rows.sort(key=lambda row: (not row.certain, row.steps))
    return lineage


def as_service(web: Web, viewer: Viewer) -> Any:
    """A connection of the service, for an audit. It reads ids only, so no read is recorded."""
    return on_behalf(web.database, viewer, "agent_memory", "select", user=None, seconds=SECONDS)


async def _shown(request: Request, lineage: Lineage) -> Response:
    """The page, with the texts that there are of its rows, read with the viewer's rights."""
    ids = [UUID(str(row.id)) for row in lineage.rows[:SHOWN] if row.kind != "anchor"]
    if isinstance(lineage.id, UUID):
        ids.append(lineage.id)
    async with reading(web_of(request).database, viewer_of(request)) as connection:
        texts = {str(row["id"]): row["content"] for row in await connection.fetch(ROWS, ids)}
    return page(
        request,
        "audit/derived.html",
        lineage=lineage,
        rows=lineage.rows[:SHOWN],
        left_out=max(0, len(lineage.rows) - SHOWN),
        going=_counts(to_forget(lineage, influenced=False)),
        more=_counts(to_forget(lineage, influenced=True)),
        version=_version(lineage),
        pages=PAGES,
        texts=texts,
    )


def _counts(ids: Mapping[str, Sequence[UUID]]) -> dict[str, int]:
    return {kind: len(found) for kind, found in ids.items()}


def _version(lineage: Lineage) -> str:
    """A hash of the rows: it changes when more rows are derived."""
    ids = sorted(f"{row.kind} {row.id} {row.certain}" for row in lineage.rows)
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:32]


async def _users(web: Web, viewer: Viewer, ids: Mapping[str, Sequence[UUID]]) -> list[UUID]:
    if viewer.user is not None:
        return []
    found: set[UUID] = set()
    async with as_service(web, viewer) as connection:
        for kind in WITH_USERS:
            if kind in ids:
                rows = await connection.fetch(USERS.format(table=TABLES[kind]), ids[kind])
                found |= {row["user_id"] for row in rows}
    return sorted(found)


routes: list[Route] = [
    Route("/audit/derived", listing),
    Route("/audit/derived", forget_all, methods=["POST"]),
]
