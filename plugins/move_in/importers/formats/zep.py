"""Zep: its sessions (threads) with messages, the facts of its users, and the edges of its graphs, as their JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from plugins.move_in.importers.formats.graphiti import edge
from plugins.move_in.importers.items import (
    Conversation,
    Items,
    Memory,
    Message,
    UnknownFormError,
    digest,
    first,
    guarded,
    listed,
    mapping,
)

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool", "function": "tool"}


def items(section: str, record: Any) -> Items:
    """A conversation with its messages, a message, or a fact with its times."""
    if section == "messages" or "role" in record or "role_type" in record:
        yield from _message(record, _id(record, "session_id", "thread_id", "thread_uuid"), record)
    elif isinstance(record.get("fact"), str) and ("valid_at" in record or "source_node_uuid" in record):
        yield edge(record)
    elif "fact" in record:
        yield Memory(
            id=_id(record, "uuid_", "uuid"), text=record["fact"], kind="fact",
            owner=first(record, "user_id", "user_uuid"), created_at=record.get("created_at"),
            metadata={"rating": record.get("rating")},
        )  # fmt: skip
    elif first(record, "session_id", "thread_id") is not None:
        session = _id(record, "session_id", "thread_id")
        yield Conversation(
            id=session, owner=first(record, "user_id", "user_uuid"), created_at=record.get("created_at")
        )
        given = record.get("messages")
        for each in listed(mapping(given).get("messages", given)):
            yield from guarded("message", _message(each, session, record))
        for each in listed(record.get("facts")):
            fact = {"user_id": first(record, "user_id", "user_uuid"), **mapping(each)}
            for one in guarded("facts", items("facts", fact)):
                yield replace(one, since=record.get("created_at")) if isinstance(one, Memory) else one
    else:
        raise UnknownFormError


def _id(record: dict[str, Any], *names: str) -> str:
    return str(first(record, *names) or "")


def _message(record: dict[str, Any], session: str, whose: dict[str, Any]) -> Items:
    # Before version 3 of its SDK `role` was the name of who speaks, and role_type what is now role.
    role = ROLES.get((first(record, "role_type", "role") or "").lower(), "user")
    named = record.get("role") if "role_type" in record else None
    yield Message(
        id=_id(record, "uuid_", "uuid") or digest(record),
        conversation=session,
        role=role,
        text=record.get("content"),
        owner=first(whose, "user_id", "user_uuid"),
        speaker=first(record, "name") or named,
        created_at=record.get("created_at"),
        metadata=mapping(record.get("metadata")),
    )
