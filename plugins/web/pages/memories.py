"""Memories: the list with its filters, each one with its history and where it came from, and the three ways to change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from handlers.shared.ports import AnyConnection
from plugins.web.errors import ChangedMeanwhileError
from plugins.web.forms import BadValueError, action_in, choice_in, id_in, text_in, time_in
from plugins.web.lists import Conditions, Timeline
from plugins.web.names import names_of
from plugins.web.pages.tasks import MOST, SHOWN
from plugins.web.pages.told import MOST as MESSAGES
from plugins.web.pages.told import ids_in, told_of
from plugins.web.render import page, tell
from plugins.web.viewer import Verb, ids_found, on_behalf, reading, row_of, rows_found, seen
from plugins.web.web import viewer_of, web_of

KINDS = ("observation", "outcome", "fact", "error", "goal", "note")
# As its index has it: created_at knows no zone.
UTC = " at time zone 'utc'"
LIST = Timeline(
    "public.agent_memory m",
    "created_at",
    """
       m.id, m.agent_id, m.user_id, m.kind, m.memory_type, m.source, left(m.content, 600) as content,
       length(m.content) as characters, m.created_at, m.expires_at, m.valid_to, m.superseded_by,
       m.metadata ->> 'from' as come_from, m.expires_at <= now() as is_expired,
       m.superseded_by is not null or m.valid_to <= now() as has_ended
""",
    zone=UTC,
)
ONE = """
select m.id, m.agent_id, m.user_id, m.session_id, m.kind, m.memory_type, m.key, m.content, m.keywords, m.metadata, m.source,
       m.command_id, m.ttl_hours, m.expires_at, m.created_at, m.updated_at, m.text_changed_at, m.valid_from, m.valid_to,
       m.superseded_by, m.last_modified_human, m.expires_at <= now() as is_expired,
       m.superseded_by is not null or m.valid_to <= now() as has_ended,
       m.updated_at::text as version
from public.agent_memory m
where m.id = $1
"""
HISTORY = """
with recursive later as (
    select m.id, m.superseded_by, 1 as steps from public.agent_memory m where m.id = $1
    union all
    select m.id, m.superseded_by, l.steps + 1
    from later l join public.agent_memory m on m.id = l.superseded_by
    where l.steps < 50
), earlier as (
    select m.id, -1 as steps from public.agent_memory m where m.superseded_by = $1
    union all
    select m.id, e.steps - 1
    from earlier e join public.agent_memory m on m.superseded_by = e.id
    where e.steps > -50
)
select m.id, left(m.content, 600) as content, m.created_at, m.valid_to, m.id = $1 as is_this
from (select id, min(steps) as steps from (select id, steps from later union all select id, steps from earlier) a group by id) s
join public.agent_memory m on m.id = s.id
order by s.steps
"""
LINKS = """
select l.association_type, l.strength, o.id, o.kind, left(o.content, 300) as content, o.created_at
from (
    select a.related_memory_id as other, a.association_type, a.strength
    from public.memory_associations a where a.memory_id = $1
    union all
    select a.memory_id, a.association_type, a.strength
    from public.memory_associations a where a.related_memory_id = $1) l
join public.agent_memory o on o.id = l.other
order by l.strength desc, o.id
limit 20
"""
INSIGHTS_FOUND = """
select i.id from public.dream_insights i
where i.source_memories @> array[$1::uuid]
order by i.confidence desc, i.id
limit 20
"""
INSIGHTS = """
select i.id, i.category, i.confidence, left(i.insight, 300) as insight, i.dream_id
from public.dream_insights i
where i.id = any($1::uuid[])
order by i.confidence desc, i.id
"""
CAME_FROM = """
select 'conversation' as what, s.id, null::uuid as message, coalesce(s.agent_id, '') as whose,
       left(coalesce(s.title, 'in this conversation'), 300) as content, s.created_at
from public.conversation_sessions s where s.id = $3
union all
select 'task', c.id, null, c.agent_id, left(c.message, 300), c.created_at
from public.agent_commands c where c.id = $1
union all
select 'message', m.session_id, m.id, coalesce(m.speaker, m.role), left(m.content, 300), m.created_at
from public.conversation_messages m where m.id = any($2::uuid[])
"""
USES = "select u.uses, u.used_at from memoryd.memory_uses u where u.memory_id = $1"
# Ended tasks of the memory's own user alone, or of nobody's: what becomes of other users' tasks is not told.
TASKS = f"""
with s as materialized ({SHOWN})
select count(*) as ended, count(*) filter (where c.status = 'completed') as succeeded,
       (select count(*) from s) = {MOST} as cut
from s
join public.agent_commands c on c.id = s.id and c.status in ('completed', 'failed')
where c.user_id is not distinct from $2::uuid
"""  # noqa: S608 - SQL of ours
STATE = "select s.state, s.reason from public.index_state(array[$1::uuid]) s"
LONGEST, LONGEST_SOURCE = 10_000_000, 1000
"""Characters of a memory, and of what is said of where it comes from."""
SOURCE = "update public.agent_memory m set source = $2 where m.id = $1"
CHANGE = """
update public.agent_memory m
set content = $2, kind = coalesce($3, m.kind), expires_at = $4
where m.id = $1 and m.updated_at::text = $5
returning m.id
"""
VERSION = """
select m.expires_at, m.updated_at::text as version from public.agent_memory m where m.id = $1 for update
"""


async def listing(request: Request) -> Response:
    """The memories that match the filters, the newest first."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    filters = Conditions()
    filters.where_given("m.agent_id = {}", text_in(asked, "agent", longest=200))
    filters.where_given("m.user_id = {}", id_in(asked, "user"))
    filters.scan_for("m.kind = {}", text_in(asked, "kind"))
    filters.scan_for("m.source = {}", text_in(asked, "source"))
    filters.scan_for("m.metadata -> 'tags' ? {}", text_in(asked, "tag", longest=200))
    filters.where_given(f"m.created_at{UTC} >= {{}}::timestamptz{UTC}", time_in(asked, "since"))
    filters.where_given(f"m.created_at{UTC} < {{}}::timestamptz{UTC}", time_in(asked, "until", end=True))
    if (as_of := time_in(asked, "as_of", end=True)) is not None:
        filters.where(f"m.created_at{UTC} <= {{0}}::timestamptz{UTC}", as_of)
        filters.scan_for(
            "coalesce(m.valid_from, m.created_at) <= {0} and coalesce(m.valid_to > {0}, true)", as_of
        )
    elif asked.get("ended") != "yes":
        filters.scan_for(
            "m.superseded_by is null and coalesce(m.valid_to > now(), true) and coalesce(m.expires_at > now(), true)"
        )
    async with reading(web.database, viewer) as connection:
        listed = await LIST.page(connection, viewer, asked, filters)
        told = await told_of(connection, viewer, (row["id"] for row in listed["rows"]))
    return page(request, "memories/list.html", **listed, kinds=KINDS, told_by=told)


async def detail(request: Request) -> Response:
    """A memory; after a conflict also with the reader's text that was not stored."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    async with reading(web.database, viewer) as connection:
        memory = await row_of(connection, ONE, wanted)
        metadata = json.loads(memory["metadata"])
        values = {
            "history": await connection.fetch(HISTORY, wanted),
            "links": await connection.fetch(LINKS, wanted),
            "insights": await connection.fetch(
                INSIGHTS, await ids_found(connection, viewer, INSIGHTS_FOUND, wanted)
            ),
            "came_from": await connection.fetch(
                CAME_FROM,
                memory["command_id"],
                ids_in(metadata.get("message_ids"))[:MESSAGES],
                memory["session_id"],
            ),
            "told_by": (await told_of(connection, viewer, [wanted])).get(wanted),
            "state": await connection.fetchrow(STATE, wanted),
            "names": await names_of(connection, viewer, [memory["user_id"]]),
            "tasks": (await rows_found(connection, viewer, TASKS, wanted, memory["user_id"]))[0],
        }
    # The number of retrievals is no content: it stands in a table of the daemon.
    uses = None if viewer.user is not None else await web.database.fetchrow(USES, wanted)
    return page(
        request,
        "memories/one.html",
        memory=memory,
        metadata=json.dumps(metadata, indent=2, ensure_ascii=False) if metadata else None,
        uses=uses,
        kinds=KINDS,
        expires=minute(memory["expires_at"]),
        **values,
    )


def minute(time: datetime | None) -> str:
    """A time for a field of a form, without seconds."""
    return "" if time is None else time.strftime("%Y-%m-%dT%H:%M")


async def change(request: Request) -> Response:
    """Corrects, replaces or forgets a memory, unless it was changed since the form was made."""
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    wanted: UUID = request.path_params["id"]
    memory = await seen(web.database, viewer, ONE, wanted)
    verb: Verb = "delete" if action_in(form, "replace", "correct", "forget") == "forget" else "update"
    async with on_behalf(web.database, viewer, "agent_memory", verb, user=memory["user_id"]) as connection:
        to = await _changed(connection, wanted, form)
    tell(request, "saved")
    if to is None:
        tell(request, "forgotten", "the memory", memory["content"])
    web.log.info("web_memory_changed", memory_id=str(wanted), action=form.get("do"))
    listed = f"/memories?user={memory['user_id']}" if memory["user_id"] else "/memories"
    return RedirectResponse(listed if to is None else f"/memories/{to}", status_code=303)


async def _changed(connection: AnyConnection, wanted: UUID, form: Mapping[str, str]) -> UUID | None:
    """The memory to show next; None if it was deleted."""
    now = await row_of(connection, VERSION, wanted)
    if now["version"] != form.get("version"):
        raise ChangedMeanwhileError
    if form.get("do") == "forget":
        await connection.execute("select public.forget(array[$1::uuid], 'memory'::text)", wanted)
        return None
    content = text_in({"content": form.get("content", "")}, "content", longest=LONGEST)
    if content is None:
        raise BadValueError(
            "A memory without a text says nothing. To delete it, choose Forget.", field="content"
        )
    if form.get("do") == "replace":
        new: UUID | None = await connection.fetchval(
            "select public.supersede_memory($1::uuid, $2::text)", wanted, content
        )
        if new is None:
            raise BadValueError(
                "Nothing was stored: memory is switched off for this user. Correct it in place, or forget it.",
                field="content",
            )
        await connection.execute(SOURCE, new, text_in(form, "source", longest=LONGEST_SOURCE))
        return new
    kind = choice_in(form, "kind", KINDS)
    expires_at = now["expires_at"]
    if form.get("expires_at", "") != minute(expires_at):
        expires_at = time_in(form, "expires_at")
        if expires_at is not None and expires_at <= datetime.now(expires_at.tzinfo):
            raise BadValueError("This time is past. To delete the memory, choose Forget.", field="expires_at")
    await connection.execute(CHANGE, wanted, content, kind, expires_at, now["version"])
    return wanted


routes: list[Route] = [
    Route("/memories", listing),
    Route("/memories/{id:uuid}", detail),
    Route("/memories/{id:uuid}", change, methods=["POST"]),
]
