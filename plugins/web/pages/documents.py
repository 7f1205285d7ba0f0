"""Documents: the list, and a page for each with its chunks, which recall searches."""

from __future__ import annotations

from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from plugins.web.errors import ChangedMeanwhileError, NotThereError
from plugins.web.forms import choice_in, id_in, number_in, text_in
from plugins.web.lists import Conditions, NumberedRows, Timeline
from plugins.web.names import names_of
from plugins.web.render import page, tell
from plugins.web.viewer import begins, holds, on_behalf, reading, row_of, rows_found, seen
from plugins.web.web import viewer_of, web_of

STATUSES = ("active", "processing", "conflict", "deleted")
LONGEST = 5000
"""Characters of a chunk that a page shows."""
COUNTED = 1000
"""Chunks of a document that the list counts."""

LIST = Timeline(
    "public.documents d",
    "updated_at",
    """
       d.id, left(d.title, 300) as title, d.status, left(d.source, 60) as source, left(d.document_type, 60) as document_type,
       d.user_id, d.access_level, d.visibility_tags, d.updated_at
""",
)
# A count is no content; LIST already recorded whose documents these are.
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
CHUNKS = NumberedRows(
    "public.memory_chunks k",
    "k.document_id",
    "k.chunk_index",
    f"""
k.id, k.chunk_index, left(k.chunk_text, {LONGEST}) as chunk_text, length(k.chunk_text) as characters,
       k.headings, left(k.context, 1000) as context, left(k.situation, 1000) as situation, k.access_level, k.visibility_tags
""",
)
STATES = "select s.id, s.state, s.reason, s.since from public.index_state($1::uuid[]) s where s.source = 'document'"
# Every word somewhere: in the title, in the source, or in any chunk. The beginning of its id is one of a document's words, too.
HAS_WORDS = holds(
    "{}",
    "concat_ws(' ', d.title, d.source)",
    or_else=f"""{begins("d.id")} or exists (select from public.memory_chunks k
                              where k.document_id = d.id and strpos(lower(k.chunk_text), w) > 0)""",
)
FORGET = "select public.forget(array[$1::uuid], 'document'::text)"


async def listing(request: Request) -> Response:
    """The documents that match the filters, the last changed first."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    filters = Conditions()
    filters.where_given("d.user_id = {}", id_in(asked, "user"))
    filters.scan_for("d.status = {}", choice_in(asked, "status", STATUSES))
    filters.scan_for(HAS_WORDS, text_in(asked, "words", longest=200))
    if asked.get("shared") == "yes":
        filters.scan_for("d.access_level is not null")
    async with reading(web.database, viewer) as connection:
        listed = await LIST.page(connection, viewer, asked, filters)
        found = await rows_found(connection, viewer, COUNTS, [row["id"] for row in listed["rows"]])
    counts = {row["id"]: row["chunks"] for row in found}
    return page(request, "documents/list.html", **listed, counts=counts, counted=COUNTED, statuses=STATUSES)


async def detail(request: Request) -> Response:
    """A document: a page of its chunks."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    first = int(number_in(request.query_params, "from", 0, least=0, most=2_000_000_000))
    async with reading(web.database, viewer) as connection:
        document = await row_of(connection, ONE, wanted)
        chunks = await CHUNKS.page(connection, wanted, first)
        ids = [row["id"] for row in chunks["rows"]]
        states = {row["id"]: row for row in await connection.fetch(STATES, ids)}
        names = await names_of(connection, viewer, [document["user_id"]])
    return page(
        request,
        "documents/one.html",
        document=document,
        **chunks,
        states=states,
        names=names,
        longest=LONGEST,
    )


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
    tell(request, "forgotten", "the document with its chunks", document["title"])
    web.log.info("web_document_forgotten", document_id=str(wanted))
    return RedirectResponse("/documents", status_code=303)


routes: list[Route] = [
    Route("/documents", listing),
    Route("/documents/{id:uuid}", detail),
    Route("/documents/{id:uuid}", change, methods=["POST"]),
]
