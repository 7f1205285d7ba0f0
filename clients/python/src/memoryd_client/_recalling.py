"""The statement of a recall, and its result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memoryd_client import _values as values
from memoryd_client._identity import Identity
from memoryd_client._ids import id_of
from memoryd_client._options import RecallOptions
from memoryd_client._types import Found, Recall, Source

if TYPE_CHECKING:
    from memoryd_client._connections import Connection

RECALL = """
select source, id, content, score, metadata, created_at
from recall($2, agent_id => $3, user_id => $4, match_count => $5, sources => $6, filter => $7::jsonb, options => $1::jsonb)
"""
RECALLED = "select last_recall()"


def recall_call(
    query: str,
    who: Identity,
    options: Mapping[str, object],
    *,
    count: int = 10,
    sources: Sequence[Source] | None = None,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - its name in SQL
) -> tuple[object, ...]:
    """The arguments of RECALL, checked. Raises Refused."""
    return (
        values.options(options, RecallOptions.__annotations__),
        values.plain("query", query),
        who.agent,
        who.named_user,
        values.number("count", count, 0),
        values.list_of("sources", sources, lambda s: values.one_of("sources", s, Source)),
        values.in_json("filter", filter),
    )


async def recalled(connection: Connection, call: Sequence[object]) -> Recall:
    """A recall, in a transaction that has begun."""
    rows = await connection.fetch(RECALL, *call)
    return Recall(
        await connection.fetchval(RECALLED),
        tuple(
            Found(
                r["source"],
                id_of(r["id"]),
                r["content"],
                r["score"],
                json.loads(r["metadata"]),
                r["created_at"],
            )
            for r in rows
        ),
    )
