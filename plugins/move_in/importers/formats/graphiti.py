"""Graphiti: model_dump() of its edges, nodes and episodes, in one object or an array each."""

from __future__ import annotations

import re
from typing import Any

from plugins.move_in.importers.items import Items, Memory, Message, UnknownFormError, first, time_of

SPEAKER = re.compile(r"\s*+([^\s:()][^\n:()]{0,99}?)\s*+(?:\((\w+)\))?:\s+")
"""How an episode of messages names its speaker: `Mia (user): text`."""


def items(section: str, record: Any) -> Items:
    """An edge gives its fact with its times, a node its summary, an episode its message or its text."""
    if "fact" in record:
        yield edge(record)
    elif "source_description" in record or section == "episodes":
        yield _episode(record)
    elif "summary" in record:
        name, summary = record.get("name"), record.get("summary")
        text = f"{name}: {summary}" if isinstance(summary, str) and summary.strip() else ""
        yield _memory(record, text, None, {"labels": record.get("labels")})
    else:
        raise UnknownFormError


def edge(record: dict[str, Any]) -> Memory:
    """A fact. It ended when it stopped being true, or when a newer one replaced it."""
    ends = [
        t for t in (time_of(record.get("invalid_at")), time_of(record.get("expired_at"))) if t is not None
    ]
    names = {
        k: record.get(k)
        for k in ("name", "source_node_uuid", "target_node_uuid", "source_node_name", "target_node_name")
    }
    return _memory(
        record,
        record["fact"],
        "fact",
        {**names, "attributes": record.get("attributes"), "expired_at": record.get("expired_at")},
        valid_from=record.get("valid_at"),
        valid_to=min(ends, default=None),
    )


def _memory(
    record: dict[str, Any], text: object, kind: str | None, metadata: dict[str, Any], **times: object
) -> Memory:
    return Memory(
        id=str(first(record, "uuid", "uuid_") or ""),
        text=text,
        kind=kind,
        owner=first(record, "user_id", "user_uuid", "group_id", "graph_uuid"),
        created_at=record.get("created_at"),
        valid_from=times.get("valid_from"),
        valid_to=times.get("valid_to"),
        metadata=metadata,
    )


def _episode(record: dict[str, Any]) -> Memory | Message:
    described = {"source_description": record.get("source_description"), "name": record.get("name")}
    text = record.get("content")
    # As text an enumeration of Python is EpisodeType.message.
    if str(record.get("source")).rpartition(".")[2] != "message" or not isinstance(text, str):
        return _memory(record, text, None, described)
    said_by = SPEAKER.match(text)
    name = said_by[1] if said_by else None
    role = (said_by[2] or name or "") if said_by else ""
    is_agent = role.lower() in {"assistant", "ai", "bot", "agent", "system"}
    group = first(record, "group_id") or ""
    return Message(
        id=str(record.get("uuid") or ""),
        conversation=str(group),
        role="assistant" if is_agent else "user",
        text=text[said_by.end() :] if said_by else text,
        speaker=name if name and name.lower() not in {"user", "assistant"} else None,
        owner=group,
        created_at=first(record, "valid_at", "created_at"),
        metadata=described,
    )
