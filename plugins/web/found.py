"""The page that shows each row of a search result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from handlers.shared.ports import AnyConnection

SOURCES = ("memory", "conversation", "document", "knowledge", "insight")
# One query for each source: for support every row that a query reads is recorded.
PARENTS = """
select m.id, m.session_id as parent from public.conversation_messages m where m.id = any($1::uuid[])
union all
select c.id, c.document_id from public.memory_chunks c where c.id = any($2::uuid[])
union all
select i.id, i.dream_id from public.dream_insights i where i.id = any($3::uuid[])
"""
WITH_PARENT = ("conversation", "document", "insight")


async def parents_of(connection: AnyConnection, rows: Iterable[Any]) -> Mapping[UUID, UUID]:
    """The conversation of each message, the document of each chunk and the dream of each insight, by the row's id.

    `rows` have a source and an id.
    """
    ids: dict[str, list[UUID]] = {source: [] for source in WITH_PARENT}
    for row in rows:
        if row["source"] in ids and row["id"] is not None:
            ids[row["source"]].append(row["id"])
    if not any(ids.values()):
        return {}
    found = await connection.fetch(PARENTS, *ids.values())
    return {row["id"]: row["parent"] for row in found if row["parent"] is not None}


def link_of(source: str, row: UUID, parents: Mapping[UUID, UUID]) -> str | None:
    """The path of the page that shows a row; None where no page does, as for an insight without a dream."""
    parent = parents.get(row)
    match source:
        case "memory":
            return f"/memories/{row}"
        case "knowledge":
            return f"/knowledge/{row}"
        case "conversation" if parent is not None:
            return f"/conversations/{parent}#m-{row}"
        case "document" if parent is not None:
            return f"/documents/{parent}"
        case "insight" if parent is not None:
            return f"/dreams/{parent}"
    return None
