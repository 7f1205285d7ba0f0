"""Past commands with their outcomes, one JSON object a line: agents' history from before memoryd."""

from __future__ import annotations

from typing import Any

from plugins.move_in.importers.items import Command, Items, UnknownFormError, digest, mapping


def items(_section: str, record: Any) -> Items:
    """A command. It has no id, so one is made from all its fields."""
    if "message" not in record:
        raise UnknownFormError
    yield Command(
        id=digest(record),
        text=record["message"],
        owner=record.get("user_id"),
        agent=record.get("agent_id"),
        session=record.get("session_id"),
        output=record.get("output"),
        error=record.get("error"),
        exit_code=record.get("exit_code"),
        created_at=record.get("created_at"),
        finished_at=record.get("finished_at"),
        metadata=mapping(record.get("metadata")),
    )
