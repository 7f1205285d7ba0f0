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


def items(section: str, record: Any, told: dict[str, Any]) -> Items:
    """Blocks and passages become memories, messages one conversation for each agent. `told`: the names of blocks' agents."""
    if record.get("is_deleted"):
        yield Omission(section, DELETED)
    elif section == "agents":
        # Ids in a file are numbers: block-0 is another block in the next file. So the id is made from the content.
        name = str(record.get("name") or "agent")
        since = record.get("created_at")
        told.update({str(block): (name, since) for block in listed(record.get("block_ids"))})
        for each in listed(record.get("messages")):
            yield from guarded("message", _message(each, name, since, file=True))
        for each in listed(record.get("passages")):
            yield from guarded("passages", _passage(mapping(each), name, since))
    elif section in {"blocks", "core_memory"}:  # the latter in files before version 0.8 of Letta
        yield from _block(record, *told.get(str(record.get("id")), ()))
    elif section in {"passages", "archival_passages"}:
        yield from _passage(record)
    elif section == "messages":
        yield from _message(record, str(record.get("agent_id") or "agent"), None, file=False)
    else:
        raise UnknownFormError


def _passage(record: dict[str, Any], agent: str | None = None, since: object = None) -> Items:
    yield Memory(
        id=_id(record, record.get("text")), text=record.get("text"), agent=agent, created_at=record.get("created_at"),
        since=since, metadata={"tags": record.get("tags"), **mapping(first(record, "metadata", "metadata_"))},
    )  # fmt: skip


def _block(record: dict[str, Any], agent: str | None = None, since: object = None) -> Items:
    """The persona is the agent's; of the human each line is a fact; another block is a note."""
    label, value = record.get("label"), record.get("value")
    text = value.strip() if isinstance(value, str) else ""
    lines = [line.strip(" \t\r-*\u2022") for line in text.split("\n")] if label == "human" else [text]
    for line in filter(None, dict.fromkeys(lines)) if text else [""]:
        whole = _id(record, label, line)
        yield Memory(
            id=f"{whole} {digest(line)}" if label == "human" and len(whole) < 64 else whole,
            text=line if label == "human" or not line else f"{label}: {line}",
            kind="fact" if label == "human" else None,
            agent=agent,
            of_agent=label == "persona",
            created_at=record.get("created_at"),
            since=since,
            metadata={"label": label, "description": record.get("description")},
        )


def _id(record: dict[str, Any], *said: object) -> str:
    given = str(record.get("id") or "")
    # block-0 of a file; in a database it is block- and a UUID.
    return given if len(given) > 36 else digest(*said)


def _message(record: Any, agent: str, since: object, *, file: bool) -> Items:
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
        id=digest(agent, at, role, text, calls) if file or not record.get("id") else str(record["id"]),
        conversation=agent,
        agent=agent if file else None,
        role=role,
        text="\n".join(spoken) or text,
        speaker=record.get("name") if role == "user" else None,
        created_at=at,
        since=since,
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
