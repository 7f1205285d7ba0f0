"""Claude: conversations.json, projects.json and memories.json of its data export."""

from __future__ import annotations

from typing import Any

from plugins.move_in.importers.items import (
    Conversation,
    Items,
    Memory,
    Message,
    Omission,
    UnknownFormError,
    digest,
    guarded,
    listed,
    mapping,
)

ROLES = {"human": "user", "assistant": "assistant"}
OWN = ("conversations_memory", "memory", "content")


def items(_section: str, record: Any) -> Items:
    """A conversation with its messages, the instructions of a project, or the memories of Claude."""
    if "chat_messages" in record:
        yield from _conversation(record)
    elif "docs" in record or "prompt_template" in record:
        yield from _project(record)
    elif any(k in record for k in (*OWN, "project_memories")):
        said = [record.get(k) for k in OWN] + list(mapping(record.get("project_memories")).values())
        for text in said:
            if isinstance(text, str) and text.strip():
                yield Memory(id=digest("memory", text), text=text, created_at=record.get("updated_at"))
    else:
        raise UnknownFormError


def _conversation(record: dict[str, Any]) -> Items:
    conversation = str(record.get("uuid"))
    yield Conversation(id=conversation, title=record.get("name"), created_at=record.get("created_at"))
    for each in listed(record["chat_messages"]):
        yield from guarded("message", _message(each, conversation))


def _message(each: Any, conversation: str) -> Items:
    role = ROLES[each["sender"]]
    blocks = [b for b in listed(each.get("content")) if isinstance(b, dict)]
    texts = [b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str)]
    tools = [{k: b.get(k) for k in ("type", "name", "input")} for b in blocks if b.get("type") == "tool_use"]
    files = [f for name in ("attachments", "files") for f in listed(each.get(name)) if isinstance(f, dict)]
    if files:
        yield Omission("attached file", "memoryd ingest takes files", len(files))
    yield Message(
        id=str(each.get("uuid")), conversation=conversation, role=role,
        text="\n".join(texts) or each.get("text"), created_at=each.get("created_at"),
        metadata={"tool_calls": tools, "files": [f.get("file_name") for f in files]},
    )  # fmt: skip


def _project(record: dict[str, Any]) -> Items:
    told = [record.get(k) for k in ("name", "description", "prompt_template")]
    text = "\n".join(t for t in told if isinstance(t, str) and t.strip())
    yield Memory(
        id=str(record.get("uuid")), text=text if any(told[1:]) else "", created_at=record.get("created_at"),
        project=record.get("name"),
    )  # fmt: skip
    docs = len(listed(record.get("docs")))
    if docs:
        yield Omission("file of a project", "memoryd ingest takes files", docs)
