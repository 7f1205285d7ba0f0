"""What records become: memories, conversations and their messages, commands, or a reason to leave a record out.

Promise: what an item says fits into the database: texts without NUL, times from 1900 to 9999, metadata that JSON can hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from providers.characters import whole_characters

NO_TEXT = "it has no text"
EXPIRED = "it had expired"
DELETED = "it was deleted there"
UNKNOWN = "it is of a form that memoryd does not know"
LONGEST_TEXT = 10_000_000
LONGEST_METADATA = 1_000_000
DEEPEST = 50
"""Levels of metadata; the database allows 64, of which some are ours."""
MILLISECONDS = 1e11
"""From here on a number is a time in milliseconds: as seconds it would be the year 5138."""


class System(StrEnum):
    """Where memories come from."""

    MEM0 = "mem0"
    LETTA = "letta"
    GRAPHITI = "graphiti"
    ZEP = "zep"
    LANGMEM = "langmem"
    CLAUDE_MEM = "claude-mem"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    MARKDOWN = "markdown"
    COMMANDS = "commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What all have. `id` is unique in its system; `owner` and `agent` are the names that the system has for them."""

    id: str
    owner: object = None
    agent: object = None
    created_at: object = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Record):
    """A memory."""

    text: object = None
    kind: str | None = None
    valid_from: object = None
    valid_to: object = None
    expires_at: object = None
    project: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation(Record):
    """A conversation, before its messages."""

    title: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Record):
    """A message. Those of a conversation come in their order. Without text it has `metadata` that say what it did."""

    conversation: str
    role: str
    text: object = None
    speaker: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Record):
    """A command that has ended. Without an exit code it has failed if there is an error."""

    text: object = None
    session: object = None
    output: object = None
    error: object = None
    exit_code: object = None
    finished_at: object = None


@dataclass(frozen=True, slots=True)
class Omission:
    """A record, or a part of one, that is not taken, and why."""

    what: str
    reason: str
    count: int = 1


Item = Memory | Conversation | Message | Command | Omission
Items = Iterator[Item]


class UnknownFormError(ValueError):
    """A record of a form that its reader does not know: `guarded` leaves it out."""


def guarded(what: str, items: Items) -> Items:
    """These items; where the record has a form that its reader does not know, one that says so, and no more."""
    try:
        yield from items
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - whatever is odd in a record of a stranger, the next one is read
        yield Omission(what, UNKNOWN)


def text_of(value: object) -> str:
    """A text as the database can store it; empty for what is no text. NUL goes, half a character becomes U+FFFD."""
    if not isinstance(value, str):
        return ""
    return whole_characters(value.replace("\0", ""))


def first(record: Mapping[str, Any], *names: str) -> Any:
    """The first of these fields that says something."""
    return next((record[name] for name in names if record.get(name) not in (None, "", [], {})), None)


def digest(*parts: object) -> str:
    """An id for what has none of its own, by what it says."""
    said = json.dumps(parts, default=str)
    return sha256(said.encode()).hexdigest()


def mapping(value: object) -> dict[str, Any]:
    """An object of JSON, also where it stands as a text; else an empty one."""
    value = _parsed(value)
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """An array of JSON, also where it stands as a text; else an empty one."""
    value = _parsed(value)
    return value if isinstance(value, list) else []


def _parsed(value: object) -> object:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def time_of(value: object) -> datetime | None:
    """A time: ISO 8601, seconds or milliseconds since 1970; of UTC where it names no offset. None: not from 1900 to 9999."""
    try:
        if isinstance(value, datetime):
            time = value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            time = datetime.fromtimestamp(value / 1000 if abs(value) >= MILLISECONDS else value, UTC)
        elif isinstance(value, str):
            time = datetime.fromisoformat(value.strip())
        else:
            return None
        time = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return time if 1900 <= time.year < 9999 else None


def storable(value: object, depth: int = 0) -> Any:
    """A value of metadata as the database can store it. Raises ValueError where it is nested too deep."""
    if depth > DEEPEST:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, Mapping):
        return {
            text_of(str(k)): storable(v, depth + 1) for k, v in value.items() if v not in (None, "", [], {})
        }
    if isinstance(value, (list, tuple)):
        return [storable(v, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float)) or value is None else text_of(str(value))
