"""What a language model said a conversation changes, held against the messages and memories that it was shown.

Promise: pure. What does not hold is left out and counted by kind; each memory is changed once, and no text is there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID, uuid5

from plugins.facts.reply import Add, Operations

_SPACE = UUID("6d6f7279-6400-5000-8000-666163747321")


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was shown. `counts`: whether it may be evidence."""

    id: UUID
    said_at: datetime
    counts: bool


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A memory that was shown, when it was last said, and whether it still stands as it was shown."""

    id: UUID
    text: str
    said_at: datetime | None
    stands: bool


@dataclass(frozen=True, slots=True)
class NewFact:
    id: UUID
    text: str
    about: str | None
    begins: datetime
    ends: datetime | None
    said_at: datetime


@dataclass(slots=True)
class Changes:
    new: list[NewFact] = field(default_factory=list)
    sources: list[tuple[UUID, UUID]] = field(default_factory=list)
    """Message and memory."""
    superseded: list[tuple[UUID, UUID]] = field(default_factory=list)
    """The older and the newer memory."""
    ended: list[tuple[UUID, datetime]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Operations that did not hold, by kind."""


class _Invalid(Exception):
    """The operation does not hold."""


def held(
    operations: Operations,
    *,
    messages: Mapping[str, Message],
    memories: Mapping[str, KnownFact],
    user: UUID,
) -> Changes:
    """The changes that hold. `messages` and `memories` are by the short ids that the model was shown."""
    changes = Changes(left_out=Counter(operations.invalid))
    known = {_plain(one.text): one.id for one in memories.values() if one.stands}
    changed: set[UUID] = set()

    def older(short: str, evidence: Sequence[Message], *, text: str = "") -> KnownFact:
        memory = memories.get(short)
        said_at = max(one.said_at for one in evidence)
        if memory is None or not memory.stands or memory.id in changed:
            raise _Invalid
        if (memory.said_at is not None and memory.said_at > said_at) or _plain(memory.text) == _plain(text):
            raise _Invalid
        changed.add(memory.id)
        return memory

    def write(text: str, evidence: Sequence[Message], add: Add | None = None) -> UUID:
        """The memory of this text: the one that is there, or a new one."""
        there = known.get(_plain(text))
        if there is None or there in changed:
            new = _new(text, evidence, user, add)
            there = known[_plain(text)] = new.id
            changes.new.append(new)
        changes.sources += [(message.id, there) for message in evidence]
        return there

    for one in operations.supersede:
        with _counted(changes, "supersede"):
            evidence = _evidence(one.evidence, messages)
            memory = older(one.id, evidence, text=one.text)
            newer = write(one.text, evidence)
            changes.superseded.append((memory.id, newer))
    for end in operations.end:
        with _counted(changes, "end"):
            evidence = _evidence(end.evidence, messages)
            memory = older(end.id, evidence)
            changes.ended.append((memory.id, max(message.said_at for message in evidence)))
    for add in operations.add:
        with _counted(changes, "add"):
            write(add.text, _evidence(add.evidence, messages), add)
    return changes


@contextmanager
def _counted(changes: Changes, kind: str) -> Iterator[None]:
    """An operation that does not hold is left out, and counted."""
    try:
        yield
    except _Invalid:
        changes.left_out[kind] += 1


def _evidence(ids: Iterable[str], messages: Mapping[str, Message]) -> list[Message]:
    """Of the messages that an operation names those of the user. One that was not shown spoils it."""
    if any(one not in messages for one in ids):
        raise _Invalid
    found = [messages[one] for one in dict.fromkeys(ids) if messages[one].counts]
    if not found:
        raise _Invalid
    return found


def _new(text: str, evidence: Sequence[Message], user: UUID, add: Add | None) -> NewFact:
    said_at = max(one.said_at for one in evidence)
    about, first, last = (None, None, None) if add is None else (add.about, add.valid_from, add.valid_to)
    begins = said_at if first is None else _midnight(first)
    # The last day is over when the next one begins.
    ends = None if last is None else _midnight(last) + timedelta(days=1)
    if ends is not None and ends <= begins and first is None:
        begins = ends - timedelta(days=1)
    key = "\n".join([str(user), *sorted(str(one.id) for one in evidence), text])
    return NewFact(uuid5(_SPACE, key), text, about, begins, ends, said_at)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".!")
