"""mem0: what get_all() answers, an export of its platform, the SQLite of its history, rows of pgvector, or points of Qdrant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plugins.move_in.importers.items import (
    DELETED,
    Items,
    Memory,
    Omission,
    UnknownFormError,
    first,
    guarded,
    mapping,
    spoken,
)

# The newest line of each memory; older lines are reported beside it.
SQLITE = {
    "history": """
select h.memory_id as id, h.new_memory as memory, h.event, h.actor_id, h.role,
       first_value(h.created_at) over (partition by h.memory_id order by h.rowid) as created_at,
       coalesce(h.updated_at, h.created_at) as updated_at, h.is_deleted,
       lead(h.rowid) over (partition by h.memory_id order by h.rowid) is not null as is_old
from history h
order by h.rowid
"""
}
TEXTS = ("memory", "data", "text", "content", "fact")
FIELDS = {"id", "memory", "data", "user_id", "agent_id", "created_at", "updated_at", "expiration_date", "score", "hash",
          "text_lemmatized", "metadata", "vector"}  # fmt: skip


def items(section: str, record: Any) -> Items:
    """A memory; or those of a page of points, as Qdrant answers a scroll."""
    if section not in {"", "results", "memories", "history"}:
        raise UnknownFormError
    if section == "history":
        yield from _history(record)
        return
    if isinstance(points := mapping(record.get("result", record)).get("points"), list):
        for each in points:
            yield from guarded("memory", items(section, each))
        return
    # In a table of pgvector the payload has all; in an answer, metadata have the application's fields.
    said = {**record, **mapping(record.get("payload"))}
    said.pop("payload", None)
    yield Memory(
        id=str(said.get("id", "")),
        text=spoken(first(said, *TEXTS), *TEXTS),
        kind="fact",
        owner=said.get("user_id"),
        agent=said.get("agent_id"),
        created_at=said.get("created_at"),
        expires_at=said.get("expiration_date"),
        metadata={**{k: v for k, v in said.items() if k not in FIELDS}, **mapping(said.get("metadata"))},
    )


def _history(record: dict[str, Any]) -> Iterator[Memory | Omission]:
    if record["is_old"]:
        yield Omission("line of the history", "a later one says what the memory is now")
    elif record["is_deleted"] or record["event"] == "DELETE":
        yield Omission("memory", DELETED)
    else:
        yield Memory(
            id=str(record["id"]), text=spoken(record["memory"], *TEXTS), kind="fact", created_at=record["created_at"],
            metadata={"actor_id": record["actor_id"], "role": record["role"]},
        )  # fmt: skip
