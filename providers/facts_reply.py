"""What a language model may reply to a stretch of conversation: operations on what is remembered of a user.

Promise: a reply without the four lists is `NotUsable`. Of the operations in them each is held against its shape by itself: one
that does not fit is left out and counted, the others hold. Whether ids mean something is for the caller to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from providers.openai_replies import NotUsable, Strict, Text, parsed
from providers.ports import KINDS_OF_NAMES, Added, Ended, NamedThing, Operations, Stretch, Superseded
from providers.vectors import clean

MAX_OPERATIONS = 40
"""Of a kind, of one stretch."""
MAX_CHARACTERS_OF_FACT = 300
MAX_CHARACTERS_OF_NAME = 60
MAX_CHARACTERS_OF_MESSAGE = 2_000
MAX_CHARACTERS_OF_REPLY = 10_000_000
YEARS = (1900, 2200)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_Evidence = Annotated[list[Text], Field(description="ids of new messages by the user")]
_Fact = Annotated[Text, Field(description="one sentence, at most 300 characters")]
Read = TypeVar("Read")


class Add(Strict):
    """Something new."""

    text: _Fact
    about: Annotated[Text, Field(description="user, or a name")]
    valid_from: Annotated[Text | None, Field(description="YYYY-MM-DD, or null")] = None
    valid_to: Annotated[Text | None, Field(description="YYYY-MM-DD, or null")] = None
    evidence: _Evidence


class Supersede(Strict):
    """Something in place of a memory."""

    id: Annotated[Text, Field(description="of a memory, such as k1")]
    text: _Fact
    evidence: _Evidence


class End(Strict):
    """A memory that is not true any more."""

    id: Annotated[Text, Field(description="of a memory, such as k1")]
    evidence: _Evidence


class Named(Strict):
    """Something or somebody that a message calls by name."""

    name: Annotated[Text, Field(description="as in the message")]
    kind: Annotated[Text, Field(json_schema_extra={"enum": list(KINDS_OF_NAMES)})]


class FactsReply(Strict):
    """What a server with structured output is asked for."""

    add: list[Add]
    supersede: list[Supersede]
    end: list[End]
    names: list[Named]


class _Lists(Strict):
    add: list[Any] = Field(default_factory=list)
    supersede: list[Any] = Field(default_factory=list)
    end: list[Any] = Field(default_factory=list)
    names: list[Any] = Field(default_factory=list)


def shown(stretch: Stretch) -> dict[str, object]:
    """What the model is shown of a stretch."""
    return {
        "memories": [
            {"id": one.id, "said": one.said.isoformat(), "text": clean(one.text, 1_000)}
            | ({} if one.until is None else {"until": one.until.isoformat()})
            for one in stretch.memories
        ],
        "before": [
            {"by": one.by, "text": clean(one.text, MAX_CHARACTERS_OF_MESSAGE)} for one in stretch.before
        ],
        "messages": [
            {
                "id": one.id,
                "by": clean(one.by, 200),
                "day": f"{one.day.isoformat()}, {WEEKDAYS[one.day.weekday()]}",
                "text": clean(one.text, MAX_CHARACTERS_OF_MESSAGE),
            }
            for one in stretch.messages
        ],
    }


def read_operations(content: str, *, tokens: int) -> Operations:
    """The operations of a reply. Raises `NotUsable`."""
    if len(content) > MAX_CHARACTERS_OF_REPLY:
        raise NotUsable("the reply is longer than 10,000,000 characters")
    lists = parsed(content, _Lists)
    if not lists.model_fields_set:
        raise NotUsable("the reply has no operations")
    invalid: list[str] = []
    return Operations(
        add=_each(lists.add, _add, invalid, "add"),
        supersede=_each(lists.supersede, _supersede, invalid, "supersede"),
        end=_each(lists.end, _end, invalid, "end"),
        names=_each(lists.names, _name, invalid, "names"),
        invalid=tuple(invalid),
        tokens=tokens,
    )


def _each(
    items: Sequence[Any], read: Callable[[Any], Read], invalid: list[str], kind: str
) -> tuple[Read, ...]:
    made = []
    for item in items[:MAX_OPERATIONS]:
        try:
            made.append(read(item))
        except (ValidationError, ValueError):
            invalid.append(kind)
    invalid.extend([kind] * len(items[MAX_OPERATIONS:]))
    return tuple(made)


def _add(item: Any) -> Added:
    one = Add.model_validate(item)
    begins, ends = _day(one.valid_from), _day(one.valid_to)
    if begins is not None and ends is not None and ends < begins:
        raise ValueError("it ends before it begins")
    about = " ".join(one.about.split())[:MAX_CHARACTERS_OF_NAME] or "user"
    return Added(_fact(one.text), about, begins, ends, tuple(one.evidence))


def _supersede(item: Any) -> Superseded:
    one = Supersede.model_validate(item)
    return Superseded(one.id, _fact(one.text), tuple(one.evidence))


def _end(item: Any) -> Ended:
    one = End.model_validate(item)
    return Ended(one.id, tuple(one.evidence))


def _name(item: Any) -> NamedThing:
    one = Named.model_validate(item)
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
