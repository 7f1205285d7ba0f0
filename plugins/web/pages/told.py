"""Who told a memory, in words, as far as that is on record: a message, a task, support, a conversation, or its source alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from handlers.shared.ports import AnyConnection
from plugins.web.pages.conversations import FIRST_WORDS
from plugins.web.render import short
from plugins.web.viewer import Viewer, rows_found

MEMORIES = """
select m.id, m.agent_id, m.user_id, left(m.source, 200) as source, m.command_id, m.session_id,
       m.metadata -> 'message_ids' as said_in
from public.agent_memory m where m.id = any($1::uuid[])
"""
MESSAGES = """
select t.id, t.session_id, t.user_id,
       coalesce(t.speaker, 'the ' || case t.role when 'assistant' then 'agent' else t.role end) as who
from public.conversation_messages t where t.id = any($1::uuid[])
order by t.created_at, t.message_index
"""
SESSIONS = """
select s.id, s.user_id, left(s.title, 200) as title from public.conversation_sessions s where s.id = any($1::uuid[])
"""
TASKS = "select c.id, c.user_id from public.agent_commands c where c.id = any($1::uuid[])"
MOST = 20
"""Messages of a memory that are looked at."""
# Support writes a memory and what is on record of that in one transaction, so at one time.
BY_SUPPORT = """
select m.id, l.who
from public.agent_memory m
cross join lateral (
    select coalesce(l.input_data ->> 'name', 'support') as who from public.agent_execution_logs l
    where l.user_id = m.user_id and l.created_at = m.created_at and l.action_type = 'memory_write'
      and l.input_data ->> 'caller' = 'admin' and l.input_data ->> 'table' = 'agent_memory'
    limit 1) l
where m.id = any($1::uuid[])
"""


@dataclass(frozen=True, slots=True)
class Told:
    """`who` told it, None: that is not on record. `where`: in what, `text`: what that is called, `link`: its page."""

    who: str | None
    where: str = ""
    text: str = ""
    link: str | None = None


def _quoted(text: str | None) -> str:
    return f"“{short(text, 60).unescape()}”" if text else ""


async def told_of(
    connection: AnyConnection, viewer: Viewer | None, memories: Iterable[UUID]
) -> Mapping[UUID, Told]:
    """Of each of these memories that the viewer may see: who told it. None: the transaction acts for the viewer already.

    Metadata may name what is somebody else's: of that nothing is told.
    """
    if not (ids := list(memories)):
        return {}
    found = await (
        connection.fetch(BY_SUPPORT, ids)
        if viewer is None
        else rows_found(connection, viewer, BY_SUPPORT, ids)
    )
    support = {row["id"]: row["who"] for row in found}
    rows = await connection.fetch(MEMORIES, ids)
    said = {row["id"]: ids_in(json.loads(row["said_in"] or "null"))[:MOST] for row in rows}
    messages = await connection.fetch(MESSAGES, [each for named in said.values() for each in named])
    talks = await _talks(connection, (*rows, *messages))
    commands = [row["command_id"] for row in rows if row["command_id"] is not None]
    tasks = {row["id"]: row["user_id"] for row in await connection.fetch(TASKS, commands)}
    told = {}
    for row in rows:
        own = (m for m in messages if m["id"] in said[row["id"]] and m["user_id"] == row["user_id"])
        told[row["id"]] = (
            _in_talk(next(own, None), talks)
            or (_by_support(row, support[row["id"]]) if row["id"] in support else None)
            or _after_task(row, tasks)
            or _nobody(row, talks)
        )
    return told


def ids_in(value: object) -> list[UUID]:
    """The ids in a list of metadata, which may be anything."""
    found = []
    for each in value if isinstance(value, list) else ():
        with suppress(ValueError):
            found += [UUID(each)] if isinstance(each, str) else []
    return found


Talks: TypeAlias = Mapping[UUID, tuple[UUID | None, str]]
"""Of conversations: whose each is, and what it is called in a sentence."""


async def _talks(connection: AnyConnection, rows: Iterable[Any]) -> Talks:
    wanted = list({row["session_id"] for row in rows} - {None})
    found = await connection.fetch(SESSIONS, wanted)
    # Of a group chat others may have said the first words.
    untitled = [row["id"] for row in found if not row["title"] and row["user_id"] is not None]
    begun = {row["id"]: row["said"] for row in await connection.fetch(FIRST_WORDS, untitled)}
    titles = {row["id"]: row["title"] or begun.get(row["id"]) for row in found}
    return {row["id"]: (row["user_id"], _quoted(titles[row["id"]]) or "a conversation") for row in found}


def _in_talk(message: Any, talks: Talks) -> Told | None:
    if message is None or message["session_id"] not in talks:
        return None
    path = f"/conversations/{message['session_id']}?message={message['id']}#m-{message['id']}"
    return Told(message["who"], "in", talks[message["session_id"]][1], path)


def _by_support(row: Any, who: str) -> Told:
    return Told("support" if who == "support" else f"support ({who})", "from", _quoted(row["source"]))


def _after_task(row: Any, tasks: Mapping[UUID, UUID | None]) -> Told | None:
    task = row["command_id"]
    if task not in tasks or tasks[task] != row["user_id"]:
        return None
    return Told(f"the agent {row['agent_id']}", "after", "its task", f"/tasks/{task}")


def _nobody(row: Any, talks: Talks) -> Told:
    user, called = talks.get(row["session_id"], (None, ""))
    if not called or user != row["user_id"]:
        return Told(None, "from", _quoted(row["source"]))
    return Told(None, "in", called, f"/conversations/{row['session_id']}")
