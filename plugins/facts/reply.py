"""What a language model may reply to a stretch of conversation: operations on what is remembered of a user.

Promise: a reply without the four lists is `InvalidReplyError`. Each operation in them is checked against its shape by itself:
one that does not fit is left out and counted, the others hold. Whether ids mean something is for the caller to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SkipValidation,
    WithJsonSchema,
    model_validator,
)

from providers.ports import InvalidReplyError

MAX_OPERATIONS = 40
"""Of a kind, of one stretch."""
MAX_CHARACTERS_OF_FACT = 300
MAX_CHARACTERS_OF_NAME = 60
MAX_CHARACTERS_OF_MESSAGE = 2_000
YEARS = (1, 2200)
_FIRST = datetime(1, 1, 2, tzinfo=UTC)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _one_line(most: int) -> AfterValidator:
    """A text becomes one line, and is refused where that is empty, or has more characters."""

    def check(text: str) -> str:
        if not 0 < len(line := " ".join(text.split())) <= most:
            raise ValueError("empty or too long")
        return line

    return AfterValidator(check)


def _day(text: object) -> object:
    """None for a text that is no day: the fact holds without it."""
    if not isinstance(text, str):
        return text
    try:
        day = date.fromisoformat(text[:10])
    except ValueError:
        return None
    return day if YEARS[0] <= day.year <= YEARS[1] else None


_TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "YYYY-MM-DD, or null"}
_Evidence = Annotated[list[str], Field(description="ids of new messages by the user")]
_Fact = Annotated[
    str, _one_line(MAX_CHARACTERS_OF_FACT), Field(description="one sentence, at most 300 characters")
]
_Day = Annotated[date | None, BeforeValidator(_day), WithJsonSchema(_TEXT_OR_NULL)]
_About = AfterValidator(lambda name: " ".join(name.split())[:MAX_CHARACTERS_OF_NAME] or "user")
Item = TypeVar("Item", bound=BaseModel)


class Add(BaseModel):
    """Something new."""

    text: _Fact
    about: Annotated[str, _About, Field(description="user, or a name")]
    valid_from: _Day = None
    valid_to: _Day = None
    evidence: _Evidence

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.valid_from is not None and self.valid_to is not None and self.valid_to < self.valid_from:
            raise ValueError("it ends before it begins")
        return self


class Supersede(BaseModel):
    """Something in place of a memory."""

    id: Annotated[str, Field(description="of a memory, such as k1")]
    text: _Fact
    evidence: _Evidence


class End(BaseModel):
    """A memory that is not true any more."""

    id: Annotated[str, Field(description="of a memory, such as k1")]
    evidence: _Evidence


class Named(BaseModel):
    """Something or somebody that a message calls by name."""

    name: Annotated[str, _one_line(MAX_CHARACTERS_OF_NAME), Field(description="as in the message")]
    kind: Literal["user", "person", "animal", "organisation", "project", "place", "thing"]
    """user: the user's own name."""


class FactsReply(BaseModel):
    """What is asked for. The items are checked later, each by itself."""

    add: list[SkipValidation[Add]] = Field(default_factory=list)
    supersede: list[SkipValidation[Supersede]] = Field(default_factory=list)
    end: list[SkipValidation[End]] = Field(default_factory=list)
    names: list[SkipValidation[Named]] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Operations:
    """What a language model says that a stretch changes. Their shapes are right; whether their ids are is not known."""

    add: tuple[Add, ...] = ()
    supersede: tuple[Supersede, ...] = ()
    end: tuple[End, ...] = ()
    names: tuple[Named, ...] = ()
    invalid: tuple[str, ...] = ()
    """The kinds of those that were left out, since their shape was wrong."""


def shown(
    memories: Sequence[Any], before: Sequence[Any], messages: Sequence[Any]
) -> dict[str, list[dict[str, str]]]:
    """What the model is shown: memories as k1, k2, ..., what was said just before, the new messages as m1, m2, ...

    Rows of memories have content, created_at and until; those of messages content, created_at and by.
    """
    return {
        "memories": [
            {"id": f"k{nth}", "said": _written(row["created_at"]), "text": row["content"][:1_000]}
            | ({} if row["until"] is None else {"until": _written(_last_moment(row["until"]))})
            for nth, row in enumerate(memories, 1)
        ],
        "before": [{"by": row["by"], "text": row["content"][:MAX_CHARACTERS_OF_MESSAGE]} for row in before],
        "messages": [
            {
                "id": f"m{nth}",
                "by": row["by"][:200],
                "day": f"{_written(row['created_at'])}, {WEEKDAYS[row['created_at'].weekday()]}",
                "text": row["content"][:MAX_CHARACTERS_OF_MESSAGE],
            }
            for nth, row in enumerate(messages, 1)
        ],
    }


def _written(time: datetime) -> str:
    return time.date().isoformat()


def _last_moment(until: datetime) -> datetime:
    """What ends at midnight has held until the day before."""
    return max(until, _FIRST) - timedelta(seconds=1)


def read_operations(reply: FactsReply) -> Operations:
    """The operations of a reply. Raises `InvalidReplyError`."""
    if not reply.model_fields_set:
        raise InvalidReplyError("the reply has no operations")
    invalid: list[str] = []
    return Operations(
        add=_each(reply.add, Add, invalid, "add"),
        supersede=_each(reply.supersede, Supersede, invalid, "supersede"),
        end=_each(reply.end, End, invalid, "end"),
        names=_each(reply.names, Named, invalid, "names"),
        invalid=tuple(invalid),
    )


def _each(items: Sequence[Any], shape: type[Item], invalid: list[str], kind: str) -> tuple[Item, ...]:
    made = []
    for item in items[:MAX_OPERATIONS]:
        try:
            made.append(shape.model_validate(item, strict=True))
        except ValueError:  # one of pydantic is one
            invalid.append(kind)
    invalid.extend([kind] * len(items[MAX_OPERATIONS:]))
    return tuple(made)
