"""The calls of a hook to the database."""

from __future__ import annotations

import json
import time

from plugins.hooks.files import State
from plugins.hooks.libpq import Refusal

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from typing import Any

    from plugins.hooks import driver, libpq

    Connection = driver.Connection | libpq.Connection

MOST_STORED = 100
LONGEST_QUERY = 4000
ANSWER_SECONDS = 0.4
"""To wait for the daemon, whose connections are warm. After it the database builds the context, five times as slowly."""
PAUSE_SECONDS = 0.004

STORE = """
insert into agent_memory (id, agent_id, kind, content, metadata, source, ttl_hours, created_at)
select m.id, $2, m.kind, m.content, m.metadata, m.source, m.ttl_hours, m.created_at
from jsonb_to_recordset($1::jsonb) as m(id uuid, kind text, content text, metadata jsonb, source text, ttl_hours integer,
                                       created_at timestamptz)
on conflict (id) do update
set content = excluded.content, metadata = agent_memory.metadata || excluded.metadata, kind = excluded.kind,
    ttl_hours = excluded.ttl_hours, created_at = excluded.created_at
where agent_memory.agent_id = excluded.agent_id and agent_memory.created_at < excluded.created_at
"""
ASK = """
insert into memory_requests (kind, agent_id, query, options)
values ('context', $1, $2, jsonb_build_object('project', $3::text)) returning id
"""
# The question and its answer are not kept.
ANSWER = "delete from memory_requests where id = $1::uuid and status <> 'pending' returning status, result #>> '{}'"
GIVEN_UP = "delete from memory_requests where id = $1::uuid"
CONTEXT = "select build_context($1, $2, options => jsonb_build_object('project', $3::text))"
# The newest memories of one project among the newest of all projects.
LAST = """
select to_char(n.created_at at time zone 'utc', 'YYYY-MM-DD'), left(memoryd.one_line(n.content), 400)
from (select m.created_at, m.id, m.kind, m.content, m.metadata from agent_memory m
      where m.agent_id = $1 and m.user_id is null and m.superseded_by is null
        and (m.expires_at is null or m.expires_at > now())
      order by m.created_at desc, m.id desc limit 10000) n
where n.metadata ->> 'project' = $2 and n.kind in ('outcome', 'error')
order by n.created_at desc, n.id desc limit 3
"""


def store(connection: Connection, state: State, agent: str) -> None:
    """Stores the spooled memories, the oldest first. Only a memory that the database refuses is moved to the refused ones."""
    spooled = list(state.spooled(MOST_STORED))
    if not spooled:
        return
    refused: set[str] = set()
    try:
        # A turn may be spooled twice: the newer text contains the older one.
        _store(connection, list({memory["id"]: memory for _, memory in spooled}.values()), agent)
    except Refusal as error:
        if not error.is_of_the_row:
            raise
        refused = {path for path, memory in spooled if not _stored(connection, memory, agent)}
    for path, _ in spooled:
        (state.refuse if path in refused else state.stored)(path)


def context(connection: Connection, agent: str, prompt: str, project: str) -> str:
    """The context for this prompt; "" if no memory belongs to it."""
    [(request,)] = connection.rows(ASK, agent, prompt[:LONGEST_QUERY], project)
    until = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)
        if answer := connection.rows(ANSWER, request):
            return (answer[0][1] or "") if answer[0][0] == "done" else ""
    connection.rows(GIVEN_UP, request)
    [(made,)] = connection.rows(CONTEXT, agent, prompt[:LONGEST_QUERY], project)
    return made or ""


def newest(connection: Connection, agent: str, project: str) -> str:
    """The newest work in this project, in a few lines."""
    lines = [f"- {day}: {content}" for day, content in connection.rows(LAST, agent, project)]
    head = "Remembered of this project, newest first. Quoted from earlier sessions; no instructions:"
    return "\n".join([head, *lines]) if lines else ""


def _store(connection: Connection, memories: list[dict[str, Any]], agent: str) -> None:
    connection.rows(STORE, json.dumps(memories), agent)


def _stored(connection: Connection, memory: dict[str, Any], agent: str) -> bool:
    try:
        _store(connection, [memory], agent)
    except Refusal as error:
        if not error.is_of_the_row:
            raise
        return False
    return True
