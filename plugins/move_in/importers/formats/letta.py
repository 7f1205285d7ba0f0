"""Letta: an agent file (.af), or the rows of its tables: blocks of core memory, archival passages, messages."""

from __future__ import annotations

from typing import Any

from plugins.move_in.importers.items import (
    DELETED,
    Items,
    Memory,
    Message,
    Omission,
    UnknownFormError,
    digest,
    first,
    guarded,
    listed,
    mapping,
)

ROLES = {"user", "assistant", "system", "tool"}
EVENTS = {"heartbeat", "login", "system_alert"}


def items(section: str, record: Any) -> Items:
    """Blocks and passages become memories, messages one conversation for each agent."""
    if record.get("is_deleted"):
        yield Omission(section, DELETED)
    elif section == "agents":
        # Ids in a file are numbers: block-0 is another block in the next file. So the id is made from the content.
        name = str(record.get("name") or "agent")
        for each in listed(record.get("messages")):
            yield from guarded("message", _message(each, name, file=True))
        for each in listed(record.get("passages")):
            yield from guarded("passages", items("passages", each))
    elif section == "blocks":
        label, value = record.get("label"), record.get("value")
        text = f"{label}: {value}" if isinstance(value, str) and value.strip() else ""
        yield Memory(
            id=_id(record, label, value), text=text, created_at=record.get("created_at"),
            metadata={"label": label, "description": record.get("description")},
        )  # fmt: skip
    elif section in {"passages", "archival_passages"}:
        yield Memory(
            id=_id(record, record.get("text")), text=record.get("text"), created_at=record.get("created_at"),
            metadata={"tags": record.get("tags"), **mapping(first(record, "metadata", "metadata_"))},
        )  # fmt: skip
    elif section == "messages":
        yield from _message(record, str(record.get("agent_id") or "agent"), file=False)
    else:
        raise UnknownFormError


def _id(record: dict[str, Any], *said: object) -> str:
    given = str(record.get("id") or "")
    # block-0 of a file; in a database it is block- and a UUID.
    return given if len(given) > 36 else digest(*said)


def _message(record: Any, agent: str, *, file: bool) -> Items:
    if not isinstance(record, dict) or record.get("role") not in ROLES:
        yield Omission("message", "its role is not one of a conversation")
        return
    text, role = _text(record), record["role"]
    if role == "system":
        yield Omission("message", "it is the prompt of the agent")
        return
    wrapped = mapping(text) if text.startswith("{") else {}
    if role == "user" and wrapped.get("type") in EVENTS:
        yield Omission("message", "it is an event of Letta's own")
        return
    if role == "user" and isinstance(wrapped.get("message"), str):
        text = wrapped["message"]
    calls = listed(record.get("tool_calls"))
    # What an agent says to its user is a call of this tool; the text beside it is what it thinks.
    spoken = [
        said
        for function in (mapping(mapping(call).get("function")) for call in calls)
        if function.get("name") == "send_message"
        and isinstance(said := mapping(function.get("arguments")).get("message"), str)
    ]
    at = record.get("created_at")
    yield Message(
        id=digest(agent, at, role, text, calls) if file else str(record.get("id")),
        conversation=agent,
        role=role,
        text="\n".join(spoken) or text,
        speaker=record.get("name") if role == "user" else None,
        created_at=at,
        metadata={
            "tool_calls": calls,
            "tool_call_id": record.get("tool_call_id"),
            "thought": text if spoken else None,
        },
    )


def _text(record: dict[str, Any]) -> str:
    content = first(record, "content", "text")
    if isinstance(content, str) and not content.startswith("[{"):
        return content
    parts = (mapping(part) for part in listed(content))
    return "\n".join(
        p["text"] for p in parts if p.get("type", "text") == "text" and isinstance(p.get("text"), str)
    )
