"""Dreams, each with its figures and insights; insights, each with its memories and its later judgements.

Dreams belong to the service. An end user sees only the insights of their own memories.
"""

from __future__ import annotations

from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from handlers.dream.dreamer import WINDOW_HOURS
from plugins.web.errors import ChangedMeanwhileError, NotThereError
from plugins.web.forms import BadValueError, id_in, number_in, text_in, uuid_in
from plugins.web.lists import AT_ONCE, Conditions, Timeline
from plugins.web.names import names_of
from plugins.web.render import page, tell
from plugins.web.viewer import ids_found, on_behalf, reading, row_of, seen
from plugins.web.web import viewer_of, web_of

CATEGORIES = ("correction", "pattern", "recommendation", "summary")
OF_A_DREAM = 200
"""Insights that the page of a dream shows."""
DREAMS = Timeline(
    "public.dream_sessions d",
    "started_at",
    """
       d.id, d.started_by, d.status, d.started_at, d.finished_at, d.memories_scanned, d.clusters_found, d.insights_generated,
       d.insights_judged, d.insights_redrawn, d.links_faded, d.associations_pruned,
       extract(epoch from d.finished_at - d.started_at)::float8 as seconds
""",
)
ONE = """
select d.*, extract(epoch from d.finished_at - d.started_at)::float8 as seconds,
       d.started_at - make_interval(hours => $2) as read_from
from public.dream_sessions d
where d.id = $1
"""
# A dream writes its insights while it runs: the index is by that time.
ITS_INSIGHTS = f"""
select i.id
from public.dream_insights i
where i.dream_id = $1 and i.generated_at >= $2 and i.generated_at <= coalesce($3, now())
order by i.confidence desc, i.id
limit {OF_A_DREAM + 1}
"""  # noqa: S608 - a constant of ours
OWN_INSIGHTS = f"""
select i.id
from public.dream_insights i
where i.dream_id = $1
order by i.confidence desc, i.id
limit {OF_A_DREAM + 1}
"""  # noqa: S608 - a constant of ours
INSIGHTS = Timeline(
    "public.dream_insights i",
    "generated_at",
    """
       i.id, i.category, i.confidence, left(i.insight, 600) as insight, i.agent_id, i.user_id, i.generated_at, i.dream_id,
       cardinality(i.source_memories) as memories, i.resolved_at, i.stale, i.last_modified_human, i.accessed_count
""",
)
INSIGHT = """
select i.*, md5(i.insight) as version, i.evidence_until is distinct from i.judged_until as was_judged
from public.dream_insights i
where i.id = $1
"""
SOURCES = """
select wanted.id, m.kind, left(m.content, 600) as content, m.agent_id, m.created_at
from unnest($1::uuid[]) with ordinality as wanted(id, nth)
left join public.agent_memory m on m.id = wanted.id
order by wanted.nth
"""
ASK = "insert into public.memory_requests (kind) values ('dream') returning id"
ASKED = "select r.status, r.error, r.created_at from public.memory_requests r where r.id = $1 and r.kind = 'dream'"
FORGET = "delete from public.dream_insights i where i.id = $1 and md5(i.insight) = $2 returning i.id"


async def listing(request: Request) -> Response:
    """The dreams, the newest first; for an end user their insights."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    if viewer.user is not None:
        return await insights(request)
    wanted = uuid_in(asked, "request")
    async with reading(web.database, viewer) as connection:
        listed = await DREAMS.page(connection, viewer, asked, Conditions())
        request_of_dream = None if wanted is None else await connection.fetchrow(ASKED, wanted)
    waits = request_of_dream is not None and request_of_dream["status"] == "pending"
    return page(
        request,
        "dreams/list.html",
        **listed,
        asked_for=request_of_dream,
        live=waits or any(row["status"] == "running" for row in listed["rows"]),
    )


async def insights(request: Request) -> Response:
    """The insights that match the filters, the newest first."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    filters = Conditions()
    filters.where_given("i.agent_id = {}", text_in(asked, "agent", longest=200))
    filters.where_given("i.user_id = {}", id_in(asked, "user"))
    filters.scan_for("i.category = {}", text_in(asked, "category"))
    if (least := number_in(asked, "confidence", 0.0, least=0, most=1)) > 0:
        filters.scan_for("i.confidence >= {}", least)
    async with reading(web.database, viewer) as connection:
        listed = await INSIGHTS.page(connection, viewer, asked, filters)
    return page(request, "dreams/insights.html", **listed, categories=CATEGORIES)


async def detail(request: Request) -> Response:
    """A dream with its insights. An end user sees only their own insights."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    async with reading(web.database, viewer) as connection:
        if viewer.user is None:
            dream = await row_of(connection, ONE, wanted, WINDOW_HOURS)
            times = (dream["started_at"], dream["finished_at"])
            ids = await ids_found(connection, viewer, ITS_INSIGHTS, wanted, *times)
        else:
            dream = None
            ids = await ids_found(connection, viewer, OWN_INSIGHTS, wanted)
            if not ids:
                raise NotThereError
        rows = await connection.fetch(INSIGHTS.rows_sql, ids[:OF_A_DREAM])
        names = await names_of(connection, viewer, (row["user_id"] for row in rows))
    return page(request, "dreams/one.html", dream=dream, rows=rows, names=names, more=len(ids) > OF_A_DREAM)


async def insight(request: Request) -> Response:
    web, viewer = web_of(request), viewer_of(request)
    async with reading(web.database, viewer) as connection:
        row = await row_of(connection, INSIGHT, request.path_params["id"])
        sources = await connection.fetch(SOURCES, row["source_memories"][:AT_ONCE])
        names = await names_of(connection, viewer, [row["user_id"]])
    return page(
        request,
        "dreams/insight.html",
        insight=row,
        sources=sources,
        names=names,
        left_out=max(0, len(row["source_memories"]) - AT_ONCE),
    )


async def request_dream(request: Request) -> Response:
    web, viewer = web_of(request), viewer_of(request)
    if viewer.user is not None:
        raise BadValueError("Dreams belong to the service: an end user cannot request one.")
    async with on_behalf(web.database, viewer, "memory_requests", "insert", user=None) as connection:
        made = await connection.fetchval(ASK)
    web.log.info("web_dream_asked", request_id=str(made))
    return RedirectResponse(f"/dreams?request={made}", status_code=303)


async def forget(request: Request) -> Response:
    """Forgets an insight, unless its text was changed since the form was made."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    if viewer.user is not None:
        raise BadValueError("An insight is deleted with the memories that it was drawn from: forget those.")
    row = await seen(web.database, viewer, INSIGHT, wanted)
    version = request.state.form.get("version", "")
    async with on_behalf(web.database, viewer, "dream_insights", "delete", user=row["user_id"]) as connection:
        if await connection.fetchval(FORGET, wanted, version) is None:
            raise ChangedMeanwhileError
    tell(request, "forgotten", "the insight", row["insight"])
    web.log.info("web_insight_forgotten", insight_id=str(wanted))
    return RedirectResponse(
        "/dreams/insights" if row["dream_id"] is None else f"/dreams/{row['dream_id']}", status_code=303
    )


routes: list[Route] = [
    Route("/dreams", listing),
    Route("/dreams", request_dream, methods=["POST"]),
    Route("/dreams/insights", insights),
    Route("/dreams/insights/{id:uuid}", insight),
    Route("/dreams/insights/{id:uuid}", forget, methods=["POST"]),
    Route("/dreams/{id:uuid}", detail),
]
