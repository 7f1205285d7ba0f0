"""Users: the list, by their names; of each what there is, whether memory is on, and who looked at or changed what."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from plugins.web.errors import NotThereError
from plugins.web.forms import text_in, time_in
from plugins.web.lists import AT_ONCE, SCANNED, Conditions, Timeline, position_in
from plugins.web.names import FIRST, IS_USER, NO_SUCH_USER, agent_of, names_of, users_like
from plugins.web.render import number, page
from plugins.web.viewer import by_indexes, reading, rows_found
from plugins.web.web import viewer_of, web_of

COUNTED = 1000
"""Rows of each table that are counted."""
PAST = "r.superseded_by is not null or coalesce(r.valid_to <= now(), false) or coalesce(r.expires_at <= now(), false)"
# `past`: of these, what has ended, was replaced or has expired, which the list of memories leaves out.
HAS = " union all ".join(
    f"select '{name}' as name, '{path}' as path, count(*) as rows, count(*) filter (where r.past) as past "  # noqa: S608 - ours
    f"from (select {past} as past from public.{table} r where r.user_id = $1 limit {COUNTED}) r"
    for name, path, table, past in (
        ("Memories", "/memories", "agent_memory", PAST),
        ("Conversations", "/conversations", "conversation_sessions", "false"),
        ("Tasks", "/tasks", "agent_commands", "false"),
        ("Documents", "/documents", "documents", "false"),
        ("Insights", "/dreams/insights", "dream_insights", "false"),
    )
)
WORDS = {
    "agent_memory": "memories", "memory_associations": "links of memories", "agent_commands": "tasks",
    "conversation_sessions": "conversations", "conversation_messages": "messages", "documents": "documents",
    "memory_chunks": "passages of documents", "dream_insights": "insights", "memory_queries": "searches",
    "memory_requests": "requests", "shared_knowledge": "the team's knowledge", "memory_anchors": "anchors",
    "memory_settings": "settings of memory", "agent_execution_logs": "rows of the audit trail",
    "context": "what an agent would be given", "export": "a copy of everything",
    "export_failed": "a copy of everything, which failed",
    "explain_recall": "what would be found", "recall": "what was found",
}  # fmt: skip
"""What people call the rows of a table, and what was read."""
SITTING = timedelta(minutes=30)
"""Looks and changes of one kind that lie nearer to each other are one line."""
ON_RECORD = "select memoryd.audit_admin_read('agent_execution_logs', $1)"
TRAIL = Timeline(
    "public.agent_execution_logs l",
    "created_at",
    """
       l.id, l.created_at, l.action_type, l.step_name, l.agent_id, l.input_data ->> 'table' as table_name,
       coalesce(l.input_data ->> 'name', l.input_data ->> 'caller') as who
""",
)


LATEST = f"""
select distinct on (l.input_data ->> 'table') l.input_data ->> 'table' as of, l.created_at,
       coalesce(l.input_data ->> 'name', l.input_data ->> 'caller') as who
from (select * from public.agent_execution_logs l where l.user_id = $1 order by l.created_at desc limit {COUNTED}) l
where l.action_type || ' ' || (l.input_data ->> 'table')
    in ('memory_write memory_settings', 'admin_read export', 'admin_read export_failed')
order by l.input_data ->> 'table', l.created_at desc
"""  # noqa: S608 - a number of ours
"""When memory was last switched on the pages, and a copy asked for there, and by whom. Read with the trail of the user."""


def many(rows: int, name: str) -> str:
    """A number of rows of a table with their word."""
    words = "entries of the team's knowledge" if name == "shared_knowledge" else WORDS.get(name, name).lower()
    first, space, rest = words.partition(" ")
    one = {"memories": "memory", "entries": "entry", "searches": "search"}.get(first, first.removesuffix("s"))
    return f"{number(rows)} {one if rows == 1 else first}{space}{rest}"


def in_sittings(rows: list[Any]) -> list[dict[str, Any]]:
    """Rows of the audit trail, the newest first, those of one sitting and one kind as one: from `first` to `last`, `times`."""
    found: list[dict[str, Any]] = []
    latest: dict[object, dict[str, Any]] = {}
    for row in rows:
        of = row["table_name"] or row["step_name"] or ""
        kind = (row["action_type"], of, row["who"], row["agent_id"])
        one = latest.get(kind)
        if one is None or one["first"] - row["created_at"] > SITTING:
            said = WORDS.get(of, of.replace("_", " "))
            one = latest[kind] = {**row, "of": said, "last": row["created_at"], "times": 0}
            found.append(one)
        one["first"], one["times"] = row["created_at"], one["times"] + 1
    return found


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
        agent = await agent_of(connection, viewer, wanted)
        latest = {row["of"]: row for row in await rows_found(connection, viewer, LATEST, wanted)}
    listed["rows"] = in_sittings(listed["rows"])
    return page(
        request,
        "user.html",
        wanted=wanted,
        has=has,
        most=COUNTED,
        off=known["off"],
        agent=agent,
        latest=latest,
        many=many,
        **listed,
    )


routes: list[Route] = [Route("/users", listing), Route("/users/{id:uuid}", detail)]
