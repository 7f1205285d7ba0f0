"""Tasks: what agents were told to do, how it came out, what was given to them, and what was remembered of it.

An end user sees their own, without the context: it shows what the agents know.
"""

from __future__ import annotations

from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from plugins.web.forms import choice_in, id_in, text_in, time_in, uuid_in
from plugins.web.found import link_of, parents_of
from plugins.web.lists import Conditions, Timeline
from plugins.web.names import names_of
from plugins.web.render import page
from plugins.web.viewer import by_indexes, ids_found, reading, row_of
from plugins.web.web import viewer_of, web_of

STATUSES = ("pending", "ready", "running", "completed", "failed", "cancelled")
LONGEST = 20_000
"""Characters of a message, an output or an error that the page shows."""
MOST = 1000
"""Tasks in whose contexts a memory stood that are looked at."""
LIST = Timeline(
    "public.agent_commands c",
    "created_at",
    """
       c.id, c.agent_id, c.user_id, left(c.message, 600) as message, c.status, c.exit_code, c.created_at, c.started_at,
       left(coalesce(c.error, (
           select coalesce(nullif(split_part(m.content, '→ ', 2), ''), m.content) from public.agent_memory m
           where m.command_id = c.id and m.kind = 'error' limit 1)), 300) as error
""",
)
# In the list of what is selected: so it ends with the limit. In a from clause all would be computed.
SHOWN = f"select (memoryd.commands_shown(array[$1::uuid])).command_id as id limit {MOST}"
ONE = f"""
select c.id, c.agent_id, c.user_id, c.session_id, left(c.message, {LONGEST}) as message, length(c.message) as characters,
       c.status, c.exit_code, left(c.error, {LONGEST}) as error,
       left(c.output, {LONGEST}) as output, length(c.output) as output_characters,
       c.created_at, c.ready_at, c.started_at, c.finished_at, extract(epoch from c.finished_at - c.started_at) as seconds
from public.agent_commands c where c.id = $1
"""  # noqa: S608 - a number of ours
CONTEXT = "select c.context from public.agent_commands c where c.id = $1"
QUOTED = "select unnest(q.row_ids) from memoryd.quotes q where q.command_id = $1"
ROWS = """
select s.source, s.id, left(s.content, 300) as content, left(s.metadata ->> 'title', 100) as title
from memoryd.searchable s where s.id = any($1::uuid[])
order by array_position($1::uuid[], s.id)
"""
OUTCOME = (
    "select m.id, m.kind, left(m.content, 300) as content from public.agent_memory m where m.command_id = $1"
)
CONVERSATION = "select s.id from public.conversation_sessions s where s.id = $1"


async def listing(request: Request) -> Response:
    """The tasks that match the filters, the newest first."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    filters = Conditions()
    filters.where_given("c.user_id = {}", viewer.user or id_in(asked, "user"))
    filters.scan_for("c.agent_id = {}", text_in(asked, "agent", longest=200))
    filters.scan_for("c.status = {}", choice_in(asked, "status", STATUSES))
    filters.where_given("c.created_at >= {}", time_in(asked, "since"))
    filters.where_given("c.created_at < {}", time_in(asked, "until", end=True))
    async with reading(web.database, viewer) as connection:
        if (memory := uuid_in(asked, "memory")) is not None:
            filters.where("c.id = any({})", await ids_found(connection, viewer, SHOWN, memory))
        listed = await LIST.page(connection, viewer, asked, filters)
    return page(request, "tasks/list.html", **listed, statuses=STATUSES, most=MOST)


async def detail(request: Request) -> Response:
    """A task, with the rows that its context showed."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    quoted = [] if viewer.user is not None else [row[0] for row in await web.database.fetch(QUOTED, wanted)]
    async with reading(web.database, viewer) as connection, by_indexes(connection):
        task = await row_of(connection, ONE, wanted)
        shown = await connection.fetch(ROWS, quoted) if quoted else []
        parents = await parents_of(connection, shown)
        values = {
            "context": await connection.fetchval(CONTEXT, wanted) if viewer.user is None else None,
            "outcome": await connection.fetchrow(OUTCOME, wanted),
            "conversation": await connection.fetchval(CONVERSATION, task["session_id"]),
            "names": await names_of(connection, viewer, [task["user_id"]]),
        }
    rows = [(row, link_of(row["source"], row["id"], parents)) for row in shown]
    return page(request, "tasks/one.html", task=task, shown=rows, longest=LONGEST, **values)


routes: list[Route] = [Route("/tasks", listing), Route("/tasks/{id:uuid}", detail)]
