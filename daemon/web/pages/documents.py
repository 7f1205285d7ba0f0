"""Documents: the list, and each one with its chunks, which are what recall searches."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from daemon.web.errors import ChangedMeanwhileError, NotThereError
from daemon.web.forms import BadValueError, number_in, text_in, uuid_in
from daemon.web.lists import AT_ONCE, Conditions, next_page
from daemon.web.render import page
from daemon.web.viewer import ids_found, on_behalf, reading
from daemon.web.web import viewer_of, web_of
from handlers.shared.ports import AnyConnection

STATUSES = ("active", "processing", "conflict", "deleted")
LONGEST = 5000
"""Characters of a chunk that a page shows."""
COUNTED = 10_000
"""Chunks of a document that the list counts."""

FIND = f"""
select d.id from public.documents d
where {{conditions}}
order by d.updated_at desc, d.id desc
limit {AT_ONCE + 1}
"""  # noqa: S608 - a number of ours; the conditions are, too, with values apart
LIST = """
select d.id, left(d.title, 300) as title, d.status, left(d.source, 60) as source, left(d.document_type, 60) as document_type,
       d.user_id, d.access_level, d.visibility_tags, d.updated_at
from public.documents d
join unnest($1::uuid[]) with ordinality as wanted(id, nth) on wanted.id = d.id
order by wanted.nth
"""
# A number is no content; whose documents these are is on record by LIST.
COUNTS = f"""
select w.id, c.chunks
from unnest($1::uuid[]) as w(id)
cross join lateral (
    select count(*) as chunks
    from (select from public.memory_chunks k where k.document_id = w.id limit {COUNTED + 1}) k) c
"""  # noqa: S608 - a number of ours
ONE = """
select d.id, left(d.title, 1000) as title, d.status, left(d.source, 200) as source, left(d.document_type, 200) as document_type,
       d.user_id, d.access_level, d.visibility_tags, left(d.drop_path, 1000) as drop_path,
       left(d.replica_path, 1000) as replica_path, left(nullif(jsonb_pretty(d.metadata), '{\n}'), 10000) as metadata,
       length(d.content) as characters, d.content is null as is_brought, d.created_at, d.updated_at, d.chunked_at,
       d.last_modified_agent, d.last_modified_human, d.updated_at::text as version
from public.documents d
where d.id = $1
"""
CHUNKS = f"""
select k.id, k.chunk_index, left(k.chunk_text, {LONGEST}) as chunk_text, length(k.chunk_text) as characters,
       k.headings, left(k.context, 1000) as context, left(k.situation, 1000) as situation, k.access_level, k.visibility_tags
from public.memory_chunks k
where k.document_id = $1 and k.chunk_index >= $2
order by k.chunk_index
limit {AT_ONCE + 1}
"""  # noqa: S608
EARLIER = f"""
select min(e.chunk_index)
from (select k.chunk_index from public.memory_chunks k
      where k.document_id = $1 and k.chunk_index < $2
      order by k.chunk_index desc limit {AT_ONCE}) e
"""  # noqa: S608
STATES = "select s.id, s.state, s.reason, s.since from public.index_state($1::uuid[]) s where s.source = 'document'"
FORGET = "select public.forget(array[$1::uuid], 'document')"


async def listing(request: Request) -> Response:
    """The documents that were changed last, filtered."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    query = Conditions()
    if (user := uuid_in(asked, "user")) is not None:
        query.where("d.user_id = {}", user)
    if (status := text_in(asked, "status")) is not None:
        if status not in STATUSES:
            raise BadValueError(f"status is one of {', '.join(STATUSES)}.")
        query.where("d.status = {}", status)
    if (source := text_in(asked, "source")) is not None:
        query.where("d.source = {}", source)
    if asked.get("shared") == "yes":
        query.where("d.access_level is not null")
    query.before(asked, "d.updated_at", "d.id", "{}::timestamptz")
    async with reading(web.database, viewer) as connection:
        ids = await ids_found(
            connection,
            viewer,
            FIND.format(conditions=query),
            *query.values,
        )
        rows = await connection.fetch(LIST, ids)
    async with on_behalf(web.database, viewer, "memory_chunks", "select", user=None) as connection:
        counts = {row["id"]: row["chunks"] for row in await connection.fetch(COUNTS, ids[:AT_ONCE])}
    return page(
        request,
        "documents/list.html",
        rows=rows[:AT_ONCE],
        counts=counts,
        counted=COUNTED,
        asked=asked,
        statuses=STATUSES,
        next_page=next_page(rows, "updated_at"),
    )


async def one(request: Request) -> Response:
    """A document: a page of its chunks."""
    return await _shown(request, status=200)


async def _shown(request: Request, *, status: int) -> Response:
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    first = int(number_in(request.query_params, "from", 0, least=0, most=2_000_000_000))
    async with reading(web.database, viewer) as connection:
        document = await connection.fetchrow(ONE, wanted)
        if document is None:
            raise NotThereError
        rows = await connection.fetch(CHUNKS, wanted, first)
        chunks: list[Any] = rows[:AT_ONCE]
        earlier = await connection.fetchval(EARLIER, wanted, first)
        states = {row["id"]: row for row in await connection.fetch(STATES, [row["id"] for row in chunks])}
    return page(
        request,
        "documents/one.html",
        status=status,
        changed=status == 409,
        document=document,
        chunks=chunks,
        states=states,
        earlier=earlier,
        later=rows[AT_ONCE]["chunk_index"] if len(rows) > AT_ONCE else None,
        longest=LONGEST,
    )


async def change(request: Request) -> Response:
    """Forgets a document with its chunks, unless it has changed since the form was made."""
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    wanted: UUID = request.path_params["id"]
    if not viewer.edits:
        raise BadValueError(
            "These pages only show. Start memoryd web with --edit to change what is remembered."
        )
    # Read first, so that nobody deletes what they may not see, and the record says whose it is.
    async with reading(web.database, viewer) as connection:
        document = await connection.fetchrow(ONE, wanted)
    if document is None:
        raise NotThereError
    try:
        async with on_behalf(
            web.database, viewer, "documents", "delete", user=document["user_id"]
        ) as connection:
            await _forget(connection, wanted, form.get("version"))
    except ChangedMeanwhileError:
        return await _shown(request, status=409)
    web.log.info("web_document_forgotten", document_id=str(wanted))
    return RedirectResponse("/documents", status_code=303)


async def _forget(connection: AnyConnection, wanted: UUID, version: str | None) -> None:
    row = await connection.fetchrow(ONE, wanted)
    if row is not None and row["version"] != version:
        raise ChangedMeanwhileError
    if row is None or not await connection.fetchval(FORGET, wanted):
        raise NotThereError


routes: list[Route] = [
    Route("/documents", listing),
    Route("/documents/{id:uuid}", one),
    Route("/documents/{id:uuid}", change, methods=["POST"]),
]
