"""Users: the list, by their names; of each what there is, whether memory is on, and who looked at or changed what."""

from __future__ import annotations

from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from plugins.web.errors import NotThereError
from plugins.web.forms import text_in, time_in
from plugins.web.lists import AT_ONCE, SCANNED, Conditions, Timeline, position_in
from plugins.web.names import FIRST, IS_USER, NO_SUCH_USER, names_of, users_like
from plugins.web.render import page
from plugins.web.viewer import by_indexes, reading, rows_found
from plugins.web.web import viewer_of, web_of

COUNTED = 1000
"""Rows of each table that are counted."""
HAS = " union all ".join(
    f"select '{name}' as name, '{path}' as path, count(*) as rows "  # noqa: S608 - names of ours
    f"from (select from public.{table} r where r.user_id = $1 limit {COUNTED}) r"
    for name, path, table in (
        ("Memories", "/memories", "agent_memory"),
        ("Conversations", "/conversations", "conversation_sessions"),
        ("Tasks", "/tasks", "agent_commands"),
        ("Documents", "/documents", "documents"),
        ("Insights", "/dreams/insights", "dream_insights"),
    )
)
ON_RECORD = "select memoryd.audit_admin_read('agent_execution_logs', $1)"
TRAIL = Timeline(
    "public.agent_execution_logs l",
    "created_at",
    """
select l.id, l.created_at, l.action_type, l.step_name, l.agent_id, l.input_data ->> 'table' as table_name,
       coalesce(l.input_data ->> 'name', l.input_data ->> 'caller') as who
from public.agent_execution_logs l
join unnest($1::uuid[]) with ordinality as wanted(id, nth) on wanted.id = l.id
order by wanted.nth
""",
)


async def listing(request: Request) -> Response:
    """The users that have these words in their names, or all, the last seen first. An end user is shown their own page."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    if viewer.user is not None:
        return RedirectResponse(f"/users/{viewer.user}", status_code=303)
    part, before = text_in(asked, "q", longest=200) or "", FIRST
    if "before" in asked:
        before = position_in(asked["before"])
    async with reading(web.database, viewer) as connection:
        rows, rest = await users_like(
            connection, viewer, part, most=AT_ONCE + 1, among=SCANNED, before=before
        )
    last = rest if len(rows) <= AT_ONCE else rows[AT_ONCE - 1]
    next_page = f"{last['at'].isoformat()},{last['id']}" if last else None
    looked = SCANNED if last and last is rest else None
    return page(request, "users.html", rows=rows[:AT_ONCE], next_page=next_page, looked=looked)


async def detail(request: Request) -> Response:
    """The page of a user. To an end user their own alone."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    wanted: UUID = request.path_params["id"]
    if viewer.user not in (None, wanted):
        raise NotThereError
    filters = Conditions()
    filters.where("l.user_id = {}", wanted)
    filters.where("l.action_type in ('admin_read', 'memory_read', 'memory_write')")
    filters.where_given("l.created_at >= {}", time_in(asked, "since"))
    filters.where_given("l.created_at < {}", time_in(asked, "until", end=True))
    async with reading(web.database, viewer) as connection:
        # Before this page itself is on the trail.
        listed = await TRAIL.page(connection, viewer, asked, filters)
        async with by_indexes(connection):
            has = await rows_found(connection, viewer, HAS, wanted)
            [known] = await rows_found(connection, viewer, IS_USER, wanted)
        if viewer.user is None:
            if not (known["there"] or known["off"] or listed["rows"]):
                raise NotThereError(NO_SUCH_USER)
            await connection.execute(ON_RECORD, wanted)
        listed["names"] = await names_of(connection, viewer, [wanted])
    return page(request, "user.html", wanted=wanted, has=has, most=COUNTED, off=known["off"], **listed)


routes: list[Route] = [Route("/users", listing), Route("/users/{id:uuid}", detail)]
