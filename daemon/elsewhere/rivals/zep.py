"""Zep: its sessions (threads) with messages, the facts of its users, and the edges of its graphs, as their JSON."""

from __future__ import annotations

from typing import Any

from daemon.elsewhere.items import UNKNOWN, Conversation, Items, LeftOut, Memory, Message, first, listed
from daemon.elsewhere.rivals.graphiti import edge

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool", "function": "tool"}


def items(section: str, record: Any) -> Items:
    """A conversation with its messages, a message, or a fact with its times."""
    if not isinstance(record, dict):
        yield LeftOut(section or "record", UNKNOWN)
    elif section == "messages" or "role" in record or "role_type" in record:
        yield _message(record, _id(record, "session_id", "thread_id", "thread_uuid"), record)
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
        for each in listed(record.get("messages")):
            yield _message(each, session, record) if isinstance(each, dict) else LeftOut("message", UNKNOWN)
        for each in listed(record.get("facts")):
            yield from items("facts", {"user_id": first(record, "user_id", "user_uuid"), **each}
                             if isinstance(each, dict) else each)  # fmt: skip
    else:
        yield LeftOut(section or "record", UNKNOWN)


def _id(record: dict[str, Any], *names: str) -> str:
    return str(first(record, *names) or "")


def _message(record: dict[str, Any], session: str, whose: dict[str, Any]) -> Message:
    # Before version 3 of its SDK `role` was the name of who speaks, and role_type what is now role.
    role = ROLES.get(str(first(record, "role_type", "role")).lower())
    named = record.get("role") if "role_type" in record else None
    return Message(
        id=_id(record, "uuid_", "uuid"),
        conversation=session,
        role=role or "user",
        text=record.get("content"),
        owner=first(whose, "user_id", "user_uuid"),
        speaker=first(record, "name") or named,
        created_at=record.get("created_at"),
        metadata=record.get("metadata") or {},
    )
