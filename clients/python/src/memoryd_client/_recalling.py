"""Recalls and contexts: their statements, and their results.

With a model that the database cannot call, a daemon embeds the question: the first transaction makes a request, and the
second one has the answer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import UUID

from memoryd_client import _values as values
from memoryd_client._identity import Identity
from memoryd_client._options import RecallOptions
from memoryd_client._types import Found, Recall, Source

if TYPE_CHECKING:
    from memoryd_client._connections import Connection
    from memoryd_client._database import Database

T = TypeVar("T")

ASK = """
from (select ask_memory($1, $2, agent_id => $3, user_id => $4, options => $5::jsonb, request => $6) as answer offset 0) a
"""
RECALL = f"""
select a.answer ->> 'request' as request, a.answer ->> 'by' as by, (a.answer ->> 'recall_id')::uuid as recall_id, r.*
{ASK}
left join lateral jsonb_to_recordset(a.answer -> 'result') as r(
    source text, id uuid, content text, score double precision, metadata jsonb, created_at timestamptz) on true
"""
CONTEXT = f"select a.answer ->> 'request' as request, a.answer ->> 'result' as block {ASK}"


def recall_call(
    query: str,
    who: Identity,
    options: Mapping[str, object],
    *,
    count: int = 10,
    sources: Sequence[Source] | None = None,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - its name in SQL
    kind: Literal["recall", "prompt"] = "recall",
) -> tuple[object, ...]:
    """The arguments of RECALL but for the request, checked. Raises Refused."""
    given = json.loads(values.options(options, RecallOptions.__annotations__))
    given["match_count"] = values.number("count", count, 0)
    given["sources"] = values.list_of("sources", sources, lambda s: values.one_of("sources", s, Source))
    given["filter"] = json.loads(values.in_json("filter", filter))
    return (kind, values.plain("query", query), who.agent, who.named_user, json.dumps(given))


async def recalled(connection: Connection, call: Sequence[object], request: UUID | None) -> Recall | UUID:
    """A recall, in a transaction that has begun; or the request with which to call again after its commit."""
    rows = await connection.fetch(RECALL, *call, request)
    if rows[0]["request"] is not None:
        return UUID(rows[0]["request"])
    found = tuple(values.made(Found, row) for row in rows if row["id"] is not None)
    return Recall(rows[0]["recall_id"], found, rows[0]["by"])


async def composed(connection: Connection, call: Sequence[object], request: UUID | None) -> str | UUID:
    """A context, as recalled()."""
    row = await connection.fetchrow(CONTEXT, *call, request)
    assert row is not None
    return row["block"] or "" if row["request"] is None else UUID(row["request"])


async def in_turn(once: Callable[[UUID | None], Awaitable[T | UUID]]) -> T:
    """Calls `once`, and if it returns a request, calls it again with that."""
    answer = await once(None)
    if isinstance(answer, UUID):
        answer = await once(answer)
    assert not isinstance(answer, UUID)
    return answer


async def asked(
    database: Database,
    who: Identity,
    call: Sequence[object],
    how: Callable[[Connection, Sequence[object], UUID | None], Awaitable[T | UUID]],
) -> T:
    """What `how`, recalled or composed, returns. Raises MemorydError."""
    payload = values.strings(call)
    return await in_turn(lambda request: database.read(who, lambda c: how(c, call, request), payload=payload))
