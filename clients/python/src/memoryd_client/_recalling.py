"""What a recall asks, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memoryd_client import _values as values
from memoryd_client._identity import Identity
from memoryd_client._ids import id_of
from memoryd_client._types import Found, Recall, Role, Source

if TYPE_CHECKING:
    from memoryd_client._connections import Connection

RECALL = """
select source, id, content, score, metadata, created_at
from recall($2, agent_id => $3, user_id => $4, match_count => $5, sources => $6, filter => $7::jsonb, options => $1::jsonb)
"""
RECALLED = "select last_recall()"


def recall_call(query: str, who: Identity, **given: Any) -> tuple[object, ...]:
    """The arguments of RECALL, checked. Raises Refused."""
    session = given.get("exclude_session")

    def whole(name: str, least: int, most: int) -> int | None:
        return None if given.get(name) is None else values.number(name, given[name], least, most)

    options = values.options(
        min_score=values.share("min_score", given.get("min_score")),
        relevant_only=values.flag("relevant_only", given.get("relevant_only")),
        since=values.moment("since", given.get("since")),
        until=values.moment("until", given.get("until")),
        as_of=values.moment("as_of", given.get("as_of")),
        asked_at=values.moment("asked_at", given.get("asked_at")),
        roles=values.list_of("roles", given.get("roles"), lambda r: values.one_of("roles", r, Role)),
        speakers=values.list_of("speakers", given.get("speakers"), lambda s: values.plain("A speaker", s)),
        around=whole("around", 0, 10),
        exclude_session=None if session is None else str(id_of(session)),
        exclude_last=whole("exclude_last", 1, 2**31 - 1),
        project=None if given.get("project") is None else values.plain("project", given["project"]),
    )
    return (
        options,
        values.plain("query", query),
        who.agent,
        who.named_user,
        values.number("count", given.get("count", 10), 0),
        values.list_of("sources", given.get("sources"), lambda s: values.one_of("sources", s, Source)),
        values.in_json("filter", given.get("filter")),
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
