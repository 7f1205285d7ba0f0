"""What a language model may reply to a stretch of conversation: operations on what is remembered of a user.

Promise: a reply without the four lists is `InvalidReplyError`. Each operation in them is checked against its shape by itself:
one that does not fit is left out and counted, the others hold. Whether ids mean something is for the caller to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, SkipValidation

from plugins.facts.stretch import KINDS_OF_NAMES, Addition, Ending, NamedThing, Operations, Stretch, Update
from providers.ports import InvalidReplyError

MAX_OPERATIONS = 40
"""Of a kind, of one stretch."""
MAX_CHARACTERS_OF_FACT = 300
MAX_CHARACTERS_OF_NAME = 60
MAX_CHARACTERS_OF_MESSAGE = 2_000
YEARS = (1, 2200)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_Evidence = Annotated[list[str], Field(description="ids of new messages by the user")]
_Fact = Annotated[str, Field(description="one sentence, at most 300 characters")]
Read = TypeVar("Read")


class Add(BaseModel):
    """Something new."""

    text: _Fact
    about: Annotated[str, Field(description="user, or a name")]
    valid_from: Annotated[str | None, Field(description="YYYY-MM-DD, or null")] = None
    valid_to: Annotated[str | None, Field(description="YYYY-MM-DD, or null")] = None
    evidence: _Evidence


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

    name: Annotated[str, Field(description="as in the message")]
    kind: Annotated[str, Field(json_schema_extra={"enum": list(KINDS_OF_NAMES)})]


class FactsReply(BaseModel):
    """What is asked for. The items are checked later, each by itself."""

    add: list[SkipValidation[Add]] = Field(default_factory=list)
    supersede: list[SkipValidation[Supersede]] = Field(default_factory=list)
    end: list[SkipValidation[End]] = Field(default_factory=list)
    names: list[SkipValidation[Named]] = Field(default_factory=list)


def shown(stretch: Stretch) -> dict[str, object]:
    """What the model is shown of a stretch."""
    return {
        "memories": [
            {"id": one.id, "said": one.said.isoformat(), "text": one.text[:1_000]}
            | ({} if one.until is None else {"until": one.until.isoformat()})
            for one in stretch.memories
        ],
        "before": [{"by": one.by, "text": one.text[:MAX_CHARACTERS_OF_MESSAGE]} for one in stretch.before],
        "messages": [
            {
                "id": one.id,
                "by": one.by[:200],
                "day": f"{one.day.isoformat()}, {WEEKDAYS[one.day.weekday()]}",
                "text": one.text[:MAX_CHARACTERS_OF_MESSAGE],
            }
            for one in stretch.messages
        ],
    }


def read_operations(reply: FactsReply) -> Operations:
    """The operations of a reply. Raises `InvalidReplyError`."""
    if not reply.model_fields_set:
        raise InvalidReplyError("the reply has no operations")
    invalid: list[str] = []
    return Operations(
        add=_each(reply.add, _add, invalid, "add"),
        supersede=_each(reply.supersede, _supersede, invalid, "supersede"),
        end=_each(reply.end, _end, invalid, "end"),
        names=_each(reply.names, _name, invalid, "names"),
        invalid=tuple(invalid),
    )


def _each(
    items: Sequence[Any], read: Callable[[Any], Read], invalid: list[str], kind: str
) -> tuple[Read, ...]:
    made = []
    for item in items[:MAX_OPERATIONS]:
        try:
            made.append(read(item))
        except ValueError:  # one of pydantic is one
            invalid.append(kind)
    invalid.extend([kind] * len(items[MAX_OPERATIONS:]))
    return tuple(made)


def _add(item: Any) -> Addition:
    one = Add.model_validate(item, strict=True)
    begins, ends = _day(one.valid_from), _day(one.valid_to)
    if begins is not None and ends is not None and ends < begins:
        raise ValueError("it ends before it begins")
    about = " ".join(one.about.split())[:MAX_CHARACTERS_OF_NAME] or "user"
    return Addition(_fact(one.text), about, begins, ends, tuple(one.evidence))


def _supersede(item: Any) -> Update:
    one = Supersede.model_validate(item, strict=True)
    return Update(one.id, _fact(one.text), tuple(one.evidence))


def _end(item: Any) -> Ending:
    one = End.model_validate(item, strict=True)
    return Ending(one.id, tuple(one.evidence))


def _name(item: Any) -> NamedThing:
    one = Named.model_validate(item, strict=True)
    name = " ".join(one.name.split())
    if not 0 < len(name) <= MAX_CHARACTERS_OF_NAME or one.kind not in KINDS_OF_NAMES:
        raise ValueError("no name")
    return NamedThing(name, one.kind)


def _fact(text: str) -> str:
    line = " ".join(text.split())
    if not 0 < len(line) <= MAX_CHARACTERS_OF_FACT:
        raise ValueError("empty or too long")
    return line


def _day(text: str | None) -> date | None:
    """None for what is no day: the fact holds without it."""
    try:
        day = date.fromisoformat((text or "")[:10])
    except ValueError:
        return None
    return day if YEARS[0] <= day.year <= YEARS[1] else None
