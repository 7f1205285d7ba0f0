"""LangMem: the items of a LangGraph store, as JSON or JSON lines of Item.dict()."""

from __future__ import annotations

from typing import Any

from plugins.move_in.importers.items import Items, Memory, UnknownFormError, mapping, spoken

TEXTS = ("content", "text", "memory", "data", "fact")


def items(_section: str, record: Any) -> Items:
    """A memory. If its namespace has several parts, the last one names the owner: ("memories", "mia")."""
    value = mapping(record.get("value"))
    if "key" not in record or not isinstance(record.get("value"), (dict, str)):
        raise UnknownFormError
    namespace = record.get("namespace", record.get("prefix"))
    parts = (
        namespace.split(".")
        if isinstance(namespace, str)
        else ["" if p is None else str(p) for p in namespace or []]
    )
    yield Memory(
        id=".".join([*parts, str(record["key"])]),
        text=spoken(record["value"], *TEXTS),
        kind="fact",
        owner=parts[-1] if len(parts) > 1 else None,
        created_at=record.get("created_at"),
        expires_at=record.get("expires_at"),
        metadata={"namespace": parts, "key": record["key"], "value": value},
    )
