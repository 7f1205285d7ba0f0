"""What a language model is shown of a conversation, and what it may say of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

KINDS_OF_NAMES = ("user", "person", "animal", "organisation", "project", "place", "thing")
"""What a name may be of; user: the user's own name."""


@dataclass(frozen=True, slots=True)
class NamedThing:
    """Something or somebody that a message calls by name."""

    name: str
    """Of one line, not empty, as it stands in the message."""
    kind: str
    """One of `KINDS_OF_NAMES`."""


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """What is remembered of a user, as a language model is shown it."""

    id: str
    """Short, of this stretch alone: k1, k2, ..."""
    text: str
    said: date
    until: date | None
    """The last day on which it holds, if that is known."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message, as a language model is shown it."""

    id: str
    """Short, of this stretch alone: m1, m2, ..."""
    by: str
    """user, assistant, or the name of a speaker."""
    day: date
    text: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """The newest part of a conversation, and what is remembered of its user."""

    memories: tuple[ShownMemory, ...]
    before: tuple[ShownMessage, ...]
    messages: tuple[ShownMessage, ...]


@dataclass(frozen=True, slots=True)
class Addition:
    """A fact of one line; `evidence`: ids of messages, as the model gave them."""

    text: str
    about: str | None
    valid_from: date | None
    valid_to: date | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """A fact in place of the memory of this id, as the model gave it."""

    id: str
    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """The memory of this id, as the model gave it, is not true any more."""

    id: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operations:
    """What a language model says that a stretch changes. Their shapes are right; whether their ids are is not known."""

    add: tuple[Addition, ...] = ()
    supersede: tuple[Update, ...] = ()
    end: tuple[Ending, ...] = ()
    names: tuple[NamedThing, ...] = ()
    invalid: tuple[str, ...] = ()
    """The kinds of those that were left out, since their shape was wrong."""
