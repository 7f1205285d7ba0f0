"""Conversations: the list, and a page for each with its messages and the facts that were found in them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from handlers.shared.ports import AnyConnection
from plugins.web.errors import ChangedMeanwhileError, NotThereError
from plugins.web.forms import id_in, number_in, text_in, time_in, uuid_in
from plugins.web.lists import AT_ONCE, SCANNED, Conditions, NumberedRows, Timeline
from plugins.web.lists import COUNTED as AMONG
from plugins.web.names import names_of
from plugins.web.render import page, tell
from plugins.web.viewer import Viewer, holds, ids_found, on_behalf, reading, row_of, rows_found, seen
from plugins.web.web import viewer_of, web_of

LONGEST = 20_000
"""Characters of a message, or of its metadata, that a page shows."""
COUNTED = 1000
"""Messages of a conversation that the list counts."""

COLUMNS = """
       s.id, s.user_id, s.agent_id, s.chat_id, left(s.title, 300) as title, left(s.channel, 60) as channel,
       left(g.group_name, 100) as group_name, left(g.platform, 60) as platform
"""
SESSIONS = "public.conversation_sessions s left join public.chat_groups g on g.id = s.chat_id"
# The conversations, by their sessions, each with when something was said last: of a long one its last message alone is read.
OF_USER = Timeline(
    """
(select s.id, s.user_id, coalesce(l.created_at, s.created_at) as created_at
 from public.conversation_sessions s
 left join lateral (select m.created_at from public.conversation_messages m where m.session_id = s.id
                    order by m.created_at desc limit 1) l on true) r""",
    "created_at",
    COLUMNS,
    shown_from=SESSIONS,
)
NEWEST = "(select * from public.conversation_sessions s order by s.created_at desc limit {})"
MESSAGES_SAID = (
    "(select m.session_id as id, m.user_id, m.created_at, m.content from public.conversation_messages m) r"
)
OF_SESSION = "r.id = any(array(select s.id from public.conversation_sessions s where {}))"
NEAR, QUIET = 500, 100
"""Messages that are read first: mostly of as many conversations as a page shows. The newest sessions, which may be silent."""


@dataclass(frozen=True, slots=True)
class Talks(Timeline):
    """Conversations by the message that was said last in each, or by the last that has some words.

    A chat may be stored long after it was held, so no session tells when. Messages are read, the newest first, until they are
    of enough conversations; none of these is asked for its other messages, unless a page before may have shown it.
    """

    has: str = "true"
    """The condition of a message."""
    later: str = "true"
    """The condition of a conversation that no page before has shown."""
    silent: bool = True
    """Whether those are meant, too, in which nothing was said: of the newest sessions."""

    def page_sql(self, filters: Conditions) -> str:
        """As of every list. Where the scan ends before, the last two rows fit nothing."""
        messages = (
            f"select r.id, r.created_at, {self.has} as fits, row_number() over () + {{0}} as nth from (select r.* from "  # noqa: S608
            f"{MESSAGES_SAID} where {filters} order by r.created_at desc, r.id desc offset {{0}} limit {{1}}) r"
        )
        talks = (
            f"select r.id, r.created_at, r.nth from (select r.id, max(r.created_at) as created_at, min(r.nth) as nth "  # noqa: S608
            f"from {{}} r where r.fits and r.nth <= {SCANNED} group by r.id order by 2 desc, 1 desc offset 0) r "
            f"where {filters.scanned or 'true'} and {self.later} limit {AT_ONCE + 1}"
        )
        few = f"(select count(*) from near) <= {AT_ONCE}"  # noqa: S608 - a number
        quiet = (
            f"select r.id, r.created_at, 0 from {NEWEST.format(QUIET)} r "  # noqa: S608
            f"where {filters} and {filters.scanned or 'true'} and {self.silent} "
            f"and r.created_at >= coalesce((select min(t.created_at) from talks t having count(*) > {AT_ONCE}), "
            f"(select l.created_at from looked l where l.nth = {SCANNED}), '-infinity') "
            "and not exists (select from public.conversation_messages n where n.session_id = r.id)"
        )
        return f"""
with said as materialized ({messages.format(0, NEAR)}), near as materialized ({talks.format("said")}),
looked as materialized (
    select * from said union all
    select * from ({messages.format(NEAR, SCANNED + 1 - NEAR)}) r where {few}),
talks as materialized (
    select * from near where not {few} union all select * from ({talks.format("looked")}) r where {few})
(select w.id, true as fits, w.nth, w.created_at as time from (select * from talks union all {quiet}) w
 order by w.created_at desc, w.id desc limit {AT_ONCE + 1})
union all
(select l.id, false, l.nth, l.created_at from looked l where l.nth >= {SCANNED} order by l.nth)"""  # noqa: S608 - SQL of ours

    def count_sql(self, filters: Conditions) -> str:
        """Among the newest sessions; where words are looked for, among the newest messages."""
        fits = f"{self.has} and {filters.scanned or 'true'}"
        if self.silent:
            # A time that nobody asks for is not looked up.
            last = "select m.created_at from public.conversation_messages m where m.session_id = s.id order by 1 desc limit 1"
            return (
                f"select count(*) filter (where {filters} and {fits}) as fit, count(*) as counted "  # noqa: S608 - SQL of ours
                f"from (select s.id, coalesce(({last}), s.created_at) as created_at from {NEWEST.format(AMONG)} s) r"
            )
        return (
            f"select count(distinct r.id) filter (where {fits}) as fit, count(*) as counted from (select r.* "  # noqa: S608
            f"from {MESSAGES_SAID} where {filters} order by r.created_at desc, r.id desc limit {AMONG}) r"
        )


# A count and a time are no content; LIST already recorded whose conversations these are.
COUNTS = f"""
select w.id, c.messages, f.created_at as first_said, l.created_at as last_said
from unnest($1::uuid[]) as w(id)
cross join lateral (
    select count(*) as messages
    from (select from public.conversation_messages m where m.session_id = w.id limit {COUNTED + 1}) m) c
left join lateral (
    select m.created_at from public.conversation_messages m where m.session_id = w.id
    order by m.created_at desc limit 1) l on true
left join lateral (
    select m.created_at from public.conversation_messages m where m.session_id = w.id
    order by m.created_at limit 1) f on true
"""  # noqa: S608 - a number of ours
# What a conversation without a title begins with.
FIRST_WORDS = """
select w.id, f.said from unnest($1::uuid[]) as w(id)
cross join lateral (
    select left(m.content, 200) as said from public.conversation_messages m where m.session_id = w.id
    order by m.message_index limit 1) f
"""
SESSION = """
select s.id, s.user_id, s.agent_id, s.chat_id, left(s.title, 1000) as title, left(s.channel, 200) as channel, s.created_at,
       left(g.group_name, 200) as group_name, left(g.platform, 200) as platform
from public.conversation_sessions s
left join public.chat_groups g on g.id = s.chat_id
where s.id = $1
"""
VERSION = "md5(m.role || coalesce(m.speaker, '') || m.content || m.metadata::text)"
MESSAGES = NumberedRows(
    "public.conversation_messages m",
    "m.session_id",
    "m.message_index",
    f"""
m.id, m.user_id, m.agent_id, m.message_index, m.role, m.speaker, left(m.content, {LONGEST}) as content,
       length(m.content) as characters, m.role = 'tool' or m.content !~ '\\S' as is_tool_turn,
       case when m.metadata <> '{{}}' and (m.role = 'tool' or m.content !~ '\\S')
            then left(jsonb_pretty(m.metadata), {LONGEST}) end as metadata, m.access_level, m.visibility_tags, m.created_at,
{VERSION} as version
""",
)
INDEX_OF = "select m.message_index from public.conversation_messages m where m.session_id = $1 and m.id = $2"
LAST = """
select m.message_index from public.conversation_messages m where m.session_id = $1
order by m.message_index desc limit 1
"""
FOUND_IN = """
select m.id from public.agent_memory m
where m.user_id = any($1::uuid[]) and m.metadata -> 'message_ids' ?| $2::text[]
order by m.created_at, m.id
limit 500
"""
FACTS = """
select m.id, m.kind, left(m.content, 300) as content, m.metadata ->> 'message_ids' as message_ids,
       m.superseded_by is not null or coalesce(m.valid_to <= now(), false) as has_ended
from public.agent_memory m
where m.id = any($1::uuid[])
order by m.created_at, m.id
"""
MESSAGE = f"""
select m.user_id, left(m.content, 300) as content, {VERSION} as version
from public.conversation_messages m where m.session_id = $1 and m.id = $2
"""  # noqa: S608
FORGET = "select public.forget(array[$1::uuid], $2::text)"


def said_last(filters: Conditions, user: UUID | None, words: str | None, *, further: bool) -> Timeline:
    """The conversations, by the message that was said last in each; or by the last that has all of these words.

    `further`: it is not the first page.
    """
    filters.where_given("r.user_id = {}", user)
    if words is None and user is not None:
        return OF_USER
    filters.scan_for(OF_SESSION.format("s.user_id = {}"), user)  # and no group chat, where others speak, too
    has, of_words = "true", "true"
    if words is not None:
        given = filters.value(words)
        has, of_words = holds(given, "r.content"), holds(given, "n.content")
    later = (
        f"not exists (select from (select n.content from public.conversation_messages n "  # noqa: S608 - SQL of ours
        f"where n.session_id = r.id and n.created_at > r.created_at order by n.created_at limit {AMONG}) n where {of_words})"
    )
    said = has, later if further else "true", words is None
    return Talks("r", "created_at", COLUMNS, "", SESSIONS, *said)


async def listing(request: Request) -> Response:
    """The conversations that match the filters, those in which something was said last first."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    filters = Conditions()
    # An end user sees messages in conversations of others, too.
    user = id_in(asked, "user") or viewer.user
    table = said_last(filters, user, text_in(asked, "words", longest=200), further="before" in asked)
    filters.scan_for(OF_SESSION.format("s.agent_id = {}"), text_in(asked, "agent", longest=200))
    filters.scan_for(OF_SESSION.format("s.channel = {}"), text_in(asked, "channel"))
    filters.where_given("r.created_at >= {}", time_in(asked, "since"))
    filters.scan_for(
        "(select min(m.created_at) from public.conversation_messages m where m.session_id = r.id) < {}",
        time_in(asked, "until", end=True),
    )
    if asked.get("groups") == "yes":
        filters.where(OF_SESSION.format("s.chat_id is not null"))
    async with reading(web.database, viewer) as connection:
        listed = await table.page(connection, viewer, asked, filters)
        untitled = [row["id"] for row in listed["rows"] if not (row["title"] or row["group_name"])]
        begun = {row["id"]: row["said"] for row in await connection.fetch(FIRST_WORDS, untitled)}
        found = await rows_found(connection, viewer, COUNTS, [row["id"] for row in listed["rows"]])
    counts = {row["id"]: row for row in found}
    return page(request, "conversations/list.html", **listed, begun=begun, counts=counts, counted=COUNTED)


async def detail(request: Request) -> Response:
    """A conversation: a page of its messages."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    async with reading(web.database, viewer) as connection:
        session = await row_of(connection, SESSION, wanted)
        first = await _first(connection, wanted, request.query_params)
        messages = await MESSAGES.page(connection, wanted, first)
        last = await connection.fetchval(LAST, wanted)
        facts = await _facts(connection, viewer, session, messages["rows"])
        users = (row["user_id"] for row in (session, *messages["rows"]))
        names = await names_of(connection, viewer, users)
    return page(
        request,
        "conversations/one.html",
        session_row=session,
        **messages,
        called={row["id"]: _called(row) for row in messages["rows"] if row["is_tool_turn"]},
        facts=facts,
        names=names,
        last=last,
        longest=LONGEST,
    )


async def _first(connection: AnyConnection, session: UUID, asked: Mapping[str, str]) -> int:
    """The index of the page's first message; ?message=ID asks for the page with that message."""
    if (message := uuid_in(asked, "message")) is not None:
        index = await connection.fetchval(INDEX_OF, session, message)
        if index is None:
            raise NotThereError
        before: int | None = await connection.fetchval(MESSAGES.earlier, session, index, 5)
        return int(index) if before is None else before
    return int(number_in(asked, "from", 0, least=0, most=1_000_000_000))


async def _facts(
    connection: AnyConnection, viewer: Viewer, session: Any, messages: list[Any]
) -> Mapping[UUID, list[Any]]:
    users = list({row["user_id"] or session["user_id"] for row in messages} - {None})
    if not users:
        return {}
    shown = [str(row["id"]) for row in messages]
    found: defaultdict[UUID, list[Any]] = defaultdict(list)
    for fact in await connection.fetch(FACTS, await ids_found(connection, viewer, FOUND_IN, users, shown)):
        named = json.loads(fact["message_ids"])
        for said in {each for each in named if isinstance(each, str)} & set(shown):
            found[UUID(said)].append(fact)
    return found


def _called(message: Any) -> str | None:
    """The names of the tools that a turn calls, as chat APIs write them."""
    try:
        metadata = json.loads(message["metadata"] or "{}")
    except ValueError:
        return None
    calls = metadata.get("tool_calls") if isinstance(metadata, dict) else None
    calls = calls if isinstance(calls, list) else [metadata]
    names = []
    for call in calls:
        of = call.get("function", call) if isinstance(call, dict) else None
        if isinstance(of, dict) and isinstance(of.get("name"), str):
            names.append(of["name"][:60])
    return ", ".join(names[:5]) or None


async def change(request: Request) -> Response:
    """Forgets a message, or the conversation, unless it has changed since the form was made."""
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    wanted: UUID = request.path_params["id"]
    message = uuid_in(form, "message")
    session = await seen(web.database, viewer, SESSION, wanted)
    table, user, said = "conversation_sessions", session["user_id"], session["title"] or session["group_name"]
    if message is not None:
        row = await seen(web.database, viewer, MESSAGE, wanted, message)
        table, user, said = "conversation_messages", row["user_id"] or user, row["content"]
    async with on_behalf(web.database, viewer, table, "delete", user=user) as connection:
        if message is None:
            now = str(await connection.fetchval(LAST, wanted))
        else:
            now = (await row_of(connection, MESSAGE, wanted, message))["version"]
        if now != form.get("version"):
            raise ChangedMeanwhileError
        what = "session" if message is None else "message"
        if not await connection.fetchval(FORGET, message or wanted, what):
            raise NotThereError
    what = "conversation" if message is None else "message"
    tell(request, "forgotten", f"the {what}, with what was found in it alone", said or "")
    web.log.info(
        "web_conversation_forgotten",
        session_id=str(wanted),
        message_id=None if message is None else str(message),
    )
    back = "/conversations" if message is None else f"/conversations/{wanted}"
    return RedirectResponse(back, status_code=303)


routes: list[Route] = [
    Route("/conversations", listing),
    Route("/conversations/{id:uuid}", detail),
    Route("/conversations/{id:uuid}", change, methods=["POST"]),
]
