"""Hindsight: the memories and mental models of a bank, as its client lists them."""

from __future__ import annotations

from typing import Any

from plugins.move_in.importers.items import Items, Memory, UnknownFormError, first

KINDS = {"world": "fact", "experience": "observation", "observation": "observation"}
KEPT = (
    "context",
    "entities",
    "tags",
    "document_id",
    "occurred_start",
    "occurred_end",
    "proof_count",
    "metadata",
)


def items(section: str, record: Any) -> Items:
    """A memory of the bank, or a mental model, which becomes a note."""
    if section not in {"", "items"}:
        raise UnknownFormError
    if "content" in record:
        yield Memory(
            id=f"{record.get('bank_id')} {record['id']}", text=record["content"], kind="note",
            created_at=first(record, "last_refreshed_at", "created_at"),
            metadata={"name": record.get("name"), "asked": record.get("source_query")},
        )  # fmt: skip
        return
    is_over = record.get("state") == "invalidated"
    yield Memory(
        id=str(record["id"]), text=record["text"], kind=KINDS.get(record.get("fact_type", ""), "note"),
        created_at=first(record, "mentioned_at", "date"),
        valid_to=first(record, "invalidated_at", "updated_at", "mentioned_at", "date") if is_over else None,
        metadata={k: record.get(k) for k in KEPT},
    )  # fmt: skip
