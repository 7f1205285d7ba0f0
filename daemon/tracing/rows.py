"""Of jobs those whose rows name a trace, and what a span tells of them.

Promise: nothing that anybody has written is read unless contents were asked for. What a row calls its trace is up to whoever
wrote it, so it is cut to a length that a traceparent has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from handlers.shared.ports import Job, Reader

LONGEST_TEXT = 32_768
"""Characters of each text that is shown."""


LONGEST_TRACEPARENT = 100
"""Characters that are looked at: one of today's version has 55."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A row that names its trace. `operation`: of the conventions for memory, where the work is one of them."""

    traceparent: str
    operation: str | None
    agent_id: str | None
    session_id: UUID | None
    record: UUID | None
    """The memory that it is about, where it is one."""
    count: int | None
    """How many rows were found, made or changed."""
    query: str | None
    records: str | None
    """In JSON: [{"id": ..., "content": ..., "score": ...}]."""


def _content(row: str, text: str) -> str:
    return f"case when $2 then jsonb_build_array(jsonb_build_object('id', {row}, 'content', left({text}, {LONGEST_TEXT}))) end"


# All have the same columns. $1: ids of rows; $2: whether texts are shown.
CONTEXT = f"""
select c.id, c.metadata ->> 'traceparent' as traceparent, 'search_memory' as operation, c.agent_id, c.session_id,
       null::uuid as record, coalesce(cardinality(q.row_ids), 0) as count,
       case when $2 then left(c.message, {LONGEST_TEXT}) end as query,
       case when $2 then jsonb_build_array(jsonb_build_object('content', c.context)) end as records
from public.agent_commands c
left join memoryd.quotes q on q.command_id = c.id
where c.id = any($1)
"""  # noqa: S608 - a constant of ours
CAPTURE = f"""
select c.id, c.metadata ->> 'traceparent' as traceparent, 'create_memory' as operation, c.agent_id, c.session_id,
       m.id as record, count(m.id) over (partition by c.id)::integer as count, null as query,
       {_content("m.id", "m.content")} as records
from public.agent_commands c
left join public.agent_memory m on m.command_id = c.id
where c.id = any($1)
"""  # noqa: S608
# One that comes from a command or a message belongs to their trace, and was made there.
MEMORY = f"""
select m.id, coalesce(m.metadata ->> 'traceparent', o.traceparent) as traceparent,
       case when m.metadata ->> 'traceparent' is not null
            then case when m.text_changed_at is null then 'create_memory' else 'update_memory' end end as operation,
       m.agent_id, m.session_id, m.id as record, 1 as count, null as query, {_content("m.id", "m.content")} as records
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
"""  # noqa: S608
MESSAGE = f"""
select g.id, g.metadata ->> 'traceparent' as traceparent, 'create_memory' as operation,
       coalesce(g.agent_id, s.agent_id) as agent_id, g.session_id, g.id as record, 1 as count, null as query,
       {_content("g.id", "g.content")} as records
from public.conversation_messages g
join public.conversation_sessions s on s.id = g.session_id
where g.id = any($1)
"""  # noqa: S608
FACTS = f"""
select g.id, g.metadata ->> 'traceparent' as traceparent, 'upsert_memory' as operation,
       coalesce(g.agent_id, s.agent_id) as agent_id, g.session_id, null::uuid as record, f.count, null as query, f.records
from public.conversation_messages g
join public.conversation_sessions s on s.id = g.session_id
cross join lateral (
    select count(*)::integer as count,
           jsonb_agg(jsonb_build_object('id', m.id, 'content', left(m.content, {LONGEST_TEXT}))) filter (where $2) as records
    from memoryd.fact_sources o
    join public.agent_memory m on m.id = o.memory_id
    where o.message_id = g.id
) f
where g.id = any($1)
"""  # noqa: S608
CHUNK = f"""
select k.id, coalesce(k.metadata ->> 'traceparent', d.metadata ->> 'traceparent') as traceparent, null as operation,
       null as agent_id, null::uuid as session_id, k.id as record, 1 as count, null as query,
       {_content("k.id", "k.chunk_text")} as records
from public.memory_chunks k
join public.documents d on d.id = k.document_id
where k.id = any($1)
"""  # noqa: S608
DOCUMENT = """
select d.id, d.metadata ->> 'traceparent' as traceparent, 'upsert_memory' as operation, null as agent_id,
       null::uuid as session_id, d.id as record,
       (select count(*)::integer from public.memory_chunks k where k.document_id = d.id) as count, null as query,
       null::jsonb as records
from public.documents d
where d.id = any($1)
"""
# Of an erasure nothing is left that could be shown.
REQUEST = f"""
select r.id, r.traceparent,
       case r.kind when 'recall' then 'search_memory' when 'context' then 'search_memory'
                   when 'erase' then 'delete_memory' end as operation,
       r.agent_id, null::uuid as session_id, null::uuid as record,
       case when r.kind = 'recall' and jsonb_typeof(r.result) = 'array' then jsonb_array_length(r.result) end as count,
       case when $2 then left(r.query, {LONGEST_TEXT}) end as query,
       case when $2 and r.kind = 'recall' and jsonb_typeof(r.result) = 'array'
            then jsonb_path_query_array(r.result, '$[*]')
            when $2 and r.kind = 'context' then jsonb_build_array(jsonb_build_object('content', r.result)) end as records
from public.memory_requests r
where r.id = any($1)
"""  # noqa: S608

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
    """What reads this job's row; None where its kind of row names no trace."""
    if job.ref is None:
        return None
    if job.topic == "index":
        return BY_SOURCE.get(str((job.payload or {}).get("source", "memory")))
    return BY_TOPIC.get(job.topic)


async def traced_rows(reader: Reader, jobs: Sequence[Job], *, content: bool) -> dict[UUID, Traced]:
    """The rows of these jobs that name a trace, by id. One statement for each table."""
    asked: defaultdict[str, list[UUID]] = defaultdict(list)
    for job in jobs:
        if job.ref is not None and (query := query_of(job)) is not None:
            asked[query].append(job.ref)
    topic = jobs[0].topic
    return {
        row["id"]: _traced(row, named=topic not in OTHER_WORK)
        for query, ids in asked.items()
        for row in await reader.fetch(statement(query), ids, content)
    }


def statement(query: str) -> str:
    """The statement that reads by one of these queries."""
    # Not every table has a text to show, and a parameter that nothing names is refused.
    return f"""
select id, left(traceparent, {LONGEST_TRACEPARENT}) as traceparent,
       operation, agent_id, session_id, record, count, query, records
from ({query}) t
where traceparent is not null and $2::boolean is not null
"""  # noqa: S608 - a constant of ours


def _traced(row: Any, *, named: bool) -> Traced:
    return Traced(
        traceparent=row["traceparent"],
        operation=row["operation"] if named else None,
        agent_id=row["agent_id"],
        session_id=row["session_id"],
        record=row["record"],
        count=row["count"],
        query=row["query"],
        records=row["records"],
    )
