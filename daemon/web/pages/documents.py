"""Documents: the list, and each one with its chunks, which are what recall searches."""

from __future__ import annotations

from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from daemon.web.errors import ChangedMeanwhileError, NotThereError, shown_again
from daemon.web.forms import choice_in, number_in, text_in, uuid_in
from daemon.web.lists import Conditions, Newest, Numbered
from daemon.web.render import page
from daemon.web.viewer import on_behalf, reading, row_of, seen
from daemon.web.web import viewer_of, web_of

STATUSES = ("active", "processing", "conflict", "deleted")
LONGEST = 5000
"""Characters of a chunk that a page shows."""
COUNTED = 10_000
"""Chunks of a document that the list counts."""

LIST = Newest(
    "public.documents d",
    "updated_at",
    """
select d.id, left(d.title, 300) as title, d.status, left(d.source, 60) as source, left(d.document_type, 60) as document_type,
       d.user_id, d.access_level, d.visibility_tags, d.updated_at
from public.documents d
join unnest($1::uuid[]) with ordinality as wanted(id, nth) on wanted.id = d.id
order by wanted.nth
""",
)
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
CHUNKS = Numbered(
    "public.memory_chunks k",
    "k.document_id",
    "k.chunk_index",
    f"""
k.id, k.chunk_index, left(k.chunk_text, {LONGEST}) as chunk_text, length(k.chunk_text) as characters,
       k.headings, left(k.context, 1000) as context, left(k.situation, 1000) as situation, k.access_level, k.visibility_tags
""",
)
STATES = "select s.id, s.state, s.reason, s.since from public.index_state($1::uuid[]) s where s.source = 'document'"
FORGET = "select public.forget(array[$1::uuid], 'document'::text)"


async def listing(request: Request) -> Response:
    """The documents that were changed last, filtered."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    filters = Conditions()
    filters.asked("d.user_id = {}", uuid_in(asked, "user"))
    filters.look_for("d.status = {}", choice_in(asked, "status", STATUSES))
    filters.look_for("d.source = {}", text_in(asked, "source"))
    if asked.get("shared") == "yes":
        filters.look_for("d.access_level is not null")
    async with reading(web.database, viewer) as connection:
        listed = await LIST.page(connection, viewer, asked, filters)
    ids = [row["id"] for row in listed["rows"]]
    async with on_behalf(web.database, viewer, "memory_chunks", "select", user=None) as connection:
        counts = {row["id"]: row["chunks"] for row in await connection.fetch(COUNTS, ids)}
    return page(
        request,
        "documents/list.html",
        **listed,
        counts=counts,
        counted=COUNTED,
        asked=asked,
        statuses=STATUSES,
    )


async def one(request: Request, *, status: int = 200) -> Response:
    """A document: a page of its chunks."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    first = int(number_in(request.query_params, "from", 0, least=0, most=2_000_000_000))
    async with reading(web.database, viewer) as connection:
        document = await row_of(connection, ONE, wanted)
        chunks = await CHUNKS.page(connection, wanted, first)
        ids = [row["id"] for row in chunks["rows"]]
        states = {row["id"]: row for row in await connection.fetch(STATES, ids)}
    return page(
        request,
        "documents/one.html",
        status=status,
        document=document,
        **chunks,
        states=states,
        longest=LONGEST,
    )


@shown_again(one)
async def change(request: Request) -> Response:
    """Forgets a document with its chunks, unless it has changed since the form was made."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    document = await seen(web.database, viewer, ONE, wanted)
    async with on_behalf(web.database, viewer, "documents", "delete", user=document["user_id"]) as connection:
        if (await row_of(connection, ONE, wanted))["version"] != request.state.form.get("version"):
            raise ChangedMeanwhileError
        if not await connection.fetchval(FORGET, wanted):
            raise NotThereError
    web.log.info("web_document_forgotten", document_id=str(wanted))
    return RedirectResponse("/documents", status_code=303)


routes: list[Route] = [
    Route("/documents", listing),
    Route("/documents/{id:uuid}", one),
    Route("/documents/{id:uuid}", change, methods=["POST"]),
]
