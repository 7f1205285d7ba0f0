"""The items that records become: memories, conversations and their messages, commands, or a reason to leave a record out.

Promise: the fields of an item fit into the database: texts without NUL, times from year 1 to 9999, metadata that JSON can hold.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from plugins.files.local import whole_characters

NO_TEXT = "it has no text"
EXPIRED = "it had expired"
DELETED = "it was deleted there"
UNKNOWN = "it has a form that memoryd does not know"
EMPTY: tuple[object, ...] = (None, "", [], {})
LONGEST_TEXT = 10_000_000
LONGEST_METADATA = 1_000_000
DEEPEST = 50
"""Levels of metadata; the database allows 64, and memoryd uses some."""
MILLISECONDS = 1e11
"""A number from here on is a time in milliseconds, or in thousandths of these: as seconds it would be the year 5138."""
NUMBER = re.compile(r"\d{9,19}(?:\.\d+)?")
ZONE = re.compile(r" ?(?:UTC|GMT|(?<=\d) (?=[+-]\d\d))")
"""What stands in a time of other programs beside ISO 8601: `2025-03-01 10:00:00 +0000 UTC`."""

MAIL = re.compile(r"(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:")
"""How a time begins as e-mails and HTTP have it: `Sat, 01 Mar 2025 10:00:00 +0000`."""


class System(StrEnum):
    MEM0 = "mem0"
    LETTA = "letta"
    GRAPHITI = "graphiti"
    ZEP = "zep"
    LANGMEM = "langmem"
    CLAUDE_MEM = "claude-mem"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    MARKDOWN = "markdown"
    MEMPALACE = "mempalace"
    HINDSIGHT = "hindsight"
    HONCHO = "honcho"
    COMMANDS = "commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The fields of all items. `id` is unique in its system; `owner` and `agent` have the system's own names."""

    id: str
    owner: object = None
    agent: object = None
    created_at: object = None
    since: object = None
    """The time of what it belongs to, such as its agent, for a record without one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Record):
    text: object = None
    kind: str | None = None
    valid_from: object = None
    valid_to: object = None
    expires_at: object = None
    project: object = None
    of_agent: bool = False
    """Whether it is the agent's own, whoever the export is given to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation(Record):
    """A conversation, before its messages."""

    title: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Record):
    """A message. The messages of a conversation come in order. A message without text has `metadata` with what it did."""

    conversation: str
    role: str
    text: object = None
    speaker: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Record):
    """A command that has ended. If it has no exit code, it failed if it has an error."""

    text: object = None
    session: object = None
    output: object = None
    error: object = None
    exit_code: object = None
    finished_at: object = None


@dataclass(frozen=True, slots=True)
class Omission:
    """A record, or a part of it, that is left out, and why."""

    what: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class FileEnd:
    """The end of a file, and the time that the file gives itself."""

    created_at: object = None


Item = Memory | Conversation | Message | Command | Omission | FileEnd
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
    """A text that the database can store; empty if the value is not text. NUL is removed, half a character becomes U+FFFD."""
    if not isinstance(value, str):
        return ""
    return whole_characters(value.replace("\0", ""))


def first(record: Mapping[str, Any], *names: str) -> Any:
    """The first of these fields that is not empty."""
    return next((record[name] for name in names if record.get(name) not in EMPTY), None)


def digest(*parts: object) -> str:
    """An id made from the content, for a record without an id."""
    said = json.dumps(parts, default=str)
    return sha256(said.encode()).hexdigest()


def mapping(value: object) -> dict[str, Any]:
    """An object of JSON, also if it is written as a text; else an empty one."""
    value = _parsed(value)
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """An array of JSON, also if it is written as a text; else an empty one."""
    value = _parsed(value)
    return value if isinstance(value, list) else []


def spoken(value: object, *names: str) -> str:
    """What a value says, also if it is JSON within a text: of an object the first of these fields, or all of them, by name."""
    found = _parsed(value)
    if isinstance(found, dict):
        lines = ((name, _within(each, *names)) for name, each in found.items())
        return spoken(first(found, *names), *names) or "\n".join(
            f"{name}: {said}" for name, said in lines if said
        )
    if isinstance(found, list):
        return "\n".join(filter(None, (spoken(each, *names) or _within(each) for each in found)))
    return found if isinstance(found, str) else value if isinstance(value, str) else ""


def _within(value: object, *names: str) -> str:
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    said = spoken(value, *names)
    return said if isinstance(value, str) else said.replace("\n", ", ")


def _parsed(value: object) -> object:
    """A value that is written as JSON, or as JSON within a string of JSON, and so on; of another text that text."""
    while isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            break
    return value


def time_of(value: object) -> datetime | None:
    """A time: ISO 8601, as in e-mails, seconds, milliseconds or less since 1970; UTC if it names no offset.

    None: unreadable, after 9998.
    """
    try:
        if isinstance(value, str):
            value = float(value) if NUMBER.fullmatch(value.strip()) else _written(value.strip())
        if isinstance(value, datetime):
            time = value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            while MILLISECONDS <= abs(value) < MILLISECONDS**2:
                value /= 1000
            time = datetime.fromtimestamp(value, UTC)
        else:
            return None
        time = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return time if time.year < 9999 else None


def _written(text: str) -> datetime:
    """Raises ValueError."""
    if MAIL.match(text):
        return parsedate_to_datetime(text)
    return datetime.fromisoformat(ZONE.sub("", text))


def storable(value: object, depth: int = 0) -> Any:
    """A value of metadata that the database can store. Raises ValueError if it is nested too deep."""
    if depth > DEEPEST:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, Mapping):
        return {text_of(str(k)): storable(v, depth + 1) for k, v in value.items() if v not in EMPTY}
    if isinstance(value, (list, tuple)):
        return [storable(v, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float)) or value is None else text_of(str(value))
