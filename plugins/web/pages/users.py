"""A user: what there is of them, whether memory is on, and who looked at or changed what."""

from __future__ import annotations

from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from plugins.web.errors import NotThereError
from plugins.web.forms import time_in
from plugins.web.lists import Conditions, Timeline
from plugins.web.names import names_of
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
SETTINGS = "select s.memory_enabled from public.memory_settings s where s.user_id = $1"
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
        enabled = await connection.fetchval(SETTINGS, wanted)
        listed["names"] = await names_of(connection, viewer, [wanted])
    return page(request, "user.html", wanted=wanted, has=has, most=COUNTED, enabled=enabled, **listed)


routes: list[Route] = [Route("/users/{id:uuid}", detail)]
