"""Finds the jobs whose rows name a trace, and the attributes of their spans.

Promise: no stored text is read. The trace of a row comes from its writer, so it is cut to the length of a traceparent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from handlers.shared.ports import Job, Reader

LONGEST_TRACEPARENT = 100
"""Characters that are read: a traceparent of today's version has 55."""


@dataclass(frozen=True, slots=True)
class TracedRow:
    """A row that names its trace. `operation`: its name in the conventions for memory, if it has one."""

    traceparent: str
    operation: str | None
    agent_id: str | None
    session_id: UUID | None
    record: UUID | None
    """The memory of the job, if there is one."""
    count: int | None
    """How many rows were found, made or changed."""


# All have the same columns. $1: ids of rows.
CONTEXT = """
select c.id, c.metadata ->> 'traceparent' as traceparent, 'search_memory' as operation, c.agent_id, c.session_id,
       null::uuid as record, coalesce(cardinality(q.row_ids), 0) as count
from public.agent_commands c
left join memoryd.quotes q on q.command_id = c.id
where c.id = any($1)
"""
CAPTURE = """
select c.id, c.metadata ->> 'traceparent' as traceparent, 'create_memory' as operation, c.agent_id, c.session_id,
       m.id as record, count(m.id) over (partition by c.id)::integer as count
from public.agent_commands c
left join public.agent_memory m on m.command_id = c.id
where c.id = any($1)
"""
# A memory from a command or a message belongs to their trace.
MEMORY = """
select m.id, coalesce(m.metadata ->> 'traceparent', o.traceparent) as traceparent,
       case when m.metadata ->> 'traceparent' is not null
            then case when m.text_changed_at is null then 'create_memory' else 'update_memory' end end as operation,
       m.agent_id, m.session_id, m.id as record, 1 as count
from public.agent_memory m
left join lateral (
    (select c.metadata ->> 'traceparent' as traceparent from public.agent_commands c where c.id = m.command_id)
    union all
    (select g.metadata ->> 'traceparent'
     from memoryd.fact_sources s
     join public.conversation_messages g on g.id = s.message_id
     where s.memory_id = m.id
     order by s.said_at desc
     limit 1)
    limit 1
) o on true
where m.id = any($1)
"""
MESSAGE = """
select g.id, g.metadata ->> 'traceparent' as traceparent, 'create_memory' as operation,
       coalesce(g.agent_id, s.agent_id) as agent_id, g.session_id, g.id as record, 1 as count
from public.conversation_messages g
join public.conversation_sessions s on s.id = g.session_id
where g.id = any($1)
"""
FACTS = """
select g.id, g.metadata ->> 'traceparent' as traceparent, 'upsert_memory' as operation,
       coalesce(g.agent_id, s.agent_id) as agent_id, g.session_id, null::uuid as record,
       (select count(*)::integer from memoryd.fact_sources o where o.message_id = g.id) as count
from public.conversation_messages g
join public.conversation_sessions s on s.id = g.session_id
where g.id = any($1)
"""
CHUNK = """
select k.id, coalesce(k.metadata ->> 'traceparent', d.metadata ->> 'traceparent') as traceparent, null as operation,
       null as agent_id, null::uuid as session_id, k.id as record, 1 as count
from public.memory_chunks k
join public.documents d on d.id = k.document_id
where k.id = any($1)
"""
DOCUMENT = """
select d.id, d.metadata ->> 'traceparent' as traceparent, 'upsert_memory' as operation, null as agent_id,
       null::uuid as session_id, d.id as record,
       (select count(*)::integer from public.memory_chunks k where k.document_id = d.id) as count
from public.documents d
where d.id = any($1)
"""
# An erasure leaves nothing that could be shown.
REQUEST = """
select r.id, r.traceparent,
       case r.kind when 'recall' then 'search_memory' when 'context' then 'search_memory'
                   when 'erase' then 'delete_memory' end as operation,
       r.agent_id, null::uuid as session_id, null::uuid as record,
       case when r.kind = 'recall' and jsonb_typeof(r.result) = 'array' then jsonb_array_length(r.result) end as count
from public.memory_requests r
where r.id = any($1)
"""

BY_TOPIC = {
    "context": CONTEXT,
    "capture": CAPTURE,
    "associate": MEMORY,
    "facts": FACTS,
    "document": DOCUMENT,
    "situate": DOCUMENT,
    "request": REQUEST,
    "user_data": REQUEST,
    "dream": REQUEST,
}
BY_SOURCE = {"memory": MEMORY, "conversation": MESSAGE, "document": CHUNK}
"""Of jobs of the topic index, which are about rows of several tables. Knowledge and insights have no metadata."""
OTHER_WORK = frozenset(("associate", "situate"))
"""Topics whose work the conventions have no name for: the row that it is about was made before."""


def query_of(job: Job) -> str | None:
    """The query for this job's row; None if its kind of row names no trace."""
    if job.ref is None:
        return None
    if job.topic == "index":
        return BY_SOURCE.get(str((job.payload or {}).get("source", "memory")))
    return BY_TOPIC.get(job.topic)


async def traced_rows(reader: Reader, jobs: Sequence[Job]) -> dict[UUID, TracedRow]:
    """The rows of these jobs that name a trace, by id. One statement for each table."""
    asked: defaultdict[str, list[UUID]] = defaultdict(list)
    for job in jobs:
        if job.ref is not None and (query := query_of(job)) is not None:
            asked[query].append(job.ref)
    topic = jobs[0].topic
    return {
        row["id"]: TracedRow(
            **{name: value for name, value in row.items() if name != "id"}
            | ({"operation": None} if topic in OTHER_WORK else {})
        )
        for query, ids in asked.items()
        for row in await reader.fetch(statement(query), ids)
    }


def statement(query: str) -> str:
    """The statement that reads by one of these queries."""
    return f"""
select id, left(traceparent, {LONGEST_TRACEPARENT}) as traceparent,
       operation, agent_id, session_id, record, count
from ({query}) t
where traceparent is not null
"""  # noqa: S608 - a constant of ours
