"""ChatGPT: conversations.json of its data export. A conversation is a tree; the branch that its user saw last is taken."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from plugins.move_in.importers.items import (
    NO_TEXT,
    Conversation,
    Items,
    Message,
    Omission,
    UnknownFormError,
    first,
    guarded,
    listed,
    mapping,
    time_of,
)

ROLES = {"user", "assistant", "tool"}
MARKED = re.compile("\ue200(?:entity\ue202([^\ue200\ue201]*)|[^\ue200\ue201]*)\ue201|[\ue200-\ue20f]")
"""Citations and names, between characters that nobody sees; a name has its text in the second place of an array."""
CITED = re.compile(r" ?【\d+(?::\d+)?†[^【】]{0,200}】|\b(?:file)?cite(?:turn\d+[a-z]+\d+)+\b")
NEVER = datetime.min.replace(tzinfo=UTC)


def items(_section: str, record: Any) -> Items:
    """A conversation with the messages of its current branch."""
    nodes = mapping(record.get("mapping"))
    if not nodes:
        raise UnknownFormError
    conversation = str(first(record, "conversation_id", "id") or record.get("current_node"))
    yield Conversation(id=conversation, title=record.get("title"), created_at=record.get("create_time"))
    branch = _branch(nodes, record.get("current_node"))
    for node in branch:
        message = mapping(nodes[node]).get("message")
        if isinstance(message, dict):
            yield from guarded("message", _message(message, conversation, node))
    others = sum(1 for k, v in nodes.items() if k not in branch and mapping(v).get("message"))
    if others:
        yield Omission("message", "it is in another branch of its conversation", others)


def _branch(nodes: dict[str, Any], current: Any) -> dict[str, None]:
    """The ids from the root to the current node; of a file without one, to the end of what was written last."""
    if not isinstance(current, str) or current not in nodes:
        below: dict[str, list[str]] = {}
        for name, node in nodes.items():
            below.setdefault(str(mapping(node).get("parent")), []).append(name)
        answers = list(nodes)
        while answers:
            current = max(reversed(answers), key=lambda name: _written(nodes[name]))
            answers = below.pop(current, [])
    path: dict[str, None] = {}
    while isinstance(current, str) and current in nodes and current not in path:
        path[current] = None
        current = mapping(nodes[current]).get("parent")
    return dict.fromkeys(reversed(path))


def _written(node: Any) -> datetime:
    message = mapping(mapping(node).get("message"))
    return time_of(first(message, "update_time", "create_time")) or NEVER


def _named(marked: re.Match[str]) -> str:
    name = listed(marked[1])[1:2]
    return name[0] if name and isinstance(name[0], str) else ""


def _message(message: dict[str, Any], conversation: str, node: str) -> Items:
    role = mapping(message.get("author")).get("role")
    content = mapping(message.get("content"))
    extra = mapping(message.get("metadata"))
    parts = listed(content.get("parts")) or [content.get("text")]
    text = "\n".join(p for p in parts if isinstance(p, str) and p.strip())
    if role == "system" or extra.get("is_visually_hidden_from_conversation"):
        if text:
            yield Omission("message", "its user does not see it")
        return
    media = [p for p in parts if isinstance(p, dict)]
    for part in media:
        # Spoken words are also written, beside the sound.
        if part.get("content_type") == "audio_transcription" and isinstance(part.get("text"), str):
            text = f"{text}\n{part['text']}".strip()
        else:
            yield Omission("image or sound", "memoryd keeps texts")
    if role not in ROLES or content.get("content_type") in {
        "user_editable_context",
        "thoughts",
        "reasoning_recap",
    }:
        yield Omission("message", "it is not a turn of the conversation")
    elif not (text := CITED.sub("", MARKED.sub(_named, text)).strip()):
        if not media:
            yield Omission("message", NO_TEXT)
    else:
        yield Message(
            id=str(message.get("id") or node), conversation=conversation, role=role, text=text,
            created_at=message.get("create_time"),
            metadata={"model": extra.get("model_slug"), "tool": mapping(message.get("author")).get("name"),
                      "recipient": None if message.get("recipient") == "all" else message.get("recipient")},
        )  # fmt: skip
