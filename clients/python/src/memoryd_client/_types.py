"""What calls return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, overload
from uuid import UUID

Kind = Literal["observation", "outcome", "fact", "error", "goal", "note"]
Source = Literal["memory", "conversation", "document", "knowledge", "insight"]
Role = Literal["user", "assistant", "system", "tool"]
State = Literal["indexed", "words", "waiting", "empty", "failed"]
By = Literal["meaning", "words"]
Tier = Literal["core", "working", "learning"]
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Remembered:
    """A memory that was stored. `expires_at` is None for one that stays.

    `known`: the same agent has remembered the same before, of the same user; that memory was strengthened.
    """

    id: UUID
    expires_at: datetime | None
    known: bool = False


@dataclass(frozen=True)
class Found:
    """A result of a recall. `score` is from 0 to 1; `metadata` is what the row has, and what recall says of it."""

    source: Source
    id: UUID
    content: str
    score: float
    metadata: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True)
class Recall(Sequence[Found]):
    """The results of a recall, the best first. `id` is for feedback; None where the database logged nothing.

    `by`: whether the question was compared by its meaning, or by its words alone, since nothing embedded it within a second.
    """

    id: UUID | None
    results: tuple[Found, ...]
    by: By = "meaning"

    @overload
    def __getitem__(self, index: int) -> Found: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Found, ...]: ...
    def __getitem__(self, index: int | slice) -> Found | tuple[Found, ...]:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Found]:
        return iter(self.results)


@dataclass(frozen=True)
class IndexState:
    """Whether recall finds a row.

    `indexed`: by words and by meaning; `words`: by its words, its embedding waits; `waiting`: by the words it begins with, a
    daemon comes to it; `failed`: it was given up, and `reason` says why.
    """

    source: Source
    id: UUID
    state: State
    reason: str | None
    since: datetime


@dataclass(frozen=True)
class Message:
    """A message of a conversation. `index` counts from 0 within its session."""

    id: UUID
    role: Role
    content: str
    speaker: str | None
    index: int
    created_at: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fact:
    """What a user has said of themselves; `metadata` say in which message."""

    id: UUID
    content: str
    metadata: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True)
class MemoryVersion:
    """What was true of a user at a time. `valid_to` and `superseded_by` say until when, and what replaced it, if anything."""

    id: UUID
    kind: Kind
    content: str
    metadata: Mapping[str, Any]
    valid_from: datetime
    valid_to: datetime | None
    superseded_by: UUID | None


@dataclass(frozen=True)
class Noted:
    """What became of a note. `id` is that of the entry, None where nothing was stored.

    `surprise`: how new it was, 0 to 1; `neighbour`: the entry that says most of it.
    """

    what: Literal["stored", "strengthened", "known", "not stored"]
    id: UUID | None
    surprise: float
    neighbour: UUID | None
    reason: str | None


@dataclass(frozen=True)
class Decision:
    """A decision of the team. `because` is the entry that says what `state` says; `success` is None without an outcome."""

    id: UUID
    title: str
    created_by: str
    confidence: Confidence
    tags: Sequence[str]
    created_at: datetime
    review_by: datetime | None
    state: Literal["criterion met", "contradicted", "overdue", "open", "no criterion", "scored"]
    because: UUID | None
    success: bool | None


@dataclass(frozen=True)
class DecisionRate:
    """How often decisions came out well. `rate` is from 0 to 1, None where none has an outcome."""

    by: Literal["all", "agent", "tag", "confidence"]
    value: str
    decisions: int
    open: int
    scored: int
    succeeded: int
    rate: float | None


@dataclass(frozen=True)
class Command:
    """A command that an executor has claimed."""

    id: UUID
    agent_id: str
    message: str
    context: str
    user_id: UUID | None
    session_id: UUID | None
    metadata: Mapping[str, Any]
    created_at: datetime
    started_at: datetime
    """The moment of this claim, which tells it from the claims before and after it."""
