"""What a language model may reply: checked by pydantic, so that nothing but these few fields can have an effect.

Promise: a reply becomes a value of the right shape, or `NotUsable` is raised with a reason that quotes nothing. Fields that
were not asked for are ignored: a reply cannot set a confidence, a category or an id, whatever a memory told the model to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from providers.ports import KINDS_OF_NAMES, STATED_ATTRIBUTES, NamedThing, StatedFact
from providers.vectors import clean

MAX_CHARACTERS_OF_INSIGHT = 1_000
MAX_CHARACTERS_OF_SITUATION = 300
MAX_CAUSES = 30
MAX_FACTS = 10
MAX_NAMES = 10
MAX_CHARACTERS_OF_NAME = 60
MAX_CHARACTERS_OF_VALUE = 120
MAX_CHARACTERS_OF_FACT = 300
STRENGTH = 0.5
"""Of a causal link for which the model names none."""

Model = TypeVar("Model", bound=BaseModel)


class NotUsable(Exception):
    """The reply is not of the shape that was asked for; says why, and quotes nothing."""


def _storable(value: object) -> object:
    # JSON can spell NUL and lone surrogates: Postgres stores neither, and pydantic refuses the latter.
    return clean(value, len(value)) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_storable)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class Cause(_Strict):
    """One memory brought about another."""

    cause: Annotated[int, Field(ge=0)]
    effect: Annotated[int, Field(ge=0)]
    strength: Annotated[float, Field(ge=0, le=1, description="from 0 to 1: how sure you are")] = STRENGTH


class InsightReply(_Strict):
    """An insight."""

    insight: Annotated[Text, Field(description="one or two sentences, at most 1000 characters")]
    recommendation: Annotated[Text | None, Field(description="one sentence, or null")] = None
    causal: Annotated[list[Cause], Field(max_length=MAX_CAUSES)] | None = None


class Situation(_Strict):
    """Where one chunk stands."""

    index: Annotated[int, Field(ge=0)]
    sentence: Annotated[Text, Field(description="at most 300 characters")]


class SituationsReply(_Strict):
    """Where chunks stand."""

    sentences: list[Situation]


class Stated(_Strict):
    """One thing that a message says of its writer."""

    attribute: Annotated[Text, Field(json_schema_extra={"enum": list(STATED_ATTRIBUTES)})]
    value: Annotated[Text, Field(description="words of the message, at most 120 characters")]
    sentence: Annotated[Text, Field(description="at most 300 characters")]
    last_day: Annotated[Text | None, Field(description="YYYY-MM-DD, or null")] = None


class Named(_Strict):
    """Something or somebody that a message calls by name."""

    name: Annotated[Text, Field(description="as in the message, at most 60 characters")]
    kind: Annotated[Text, Field(json_schema_extra={"enum": list(KINDS_OF_NAMES)})]


class FactsReply(_Strict):
    """What a message says of its writer, and whom it names. A server without structured output may leave out the latter."""

    facts: Annotated[list[Stated], Field(max_length=MAX_FACTS, description="at most 10")]
    names: Annotated[list[Named], Field(max_length=MAX_NAMES, description="at most 10")] | None = None


def schema_of(shape: type[BaseModel]) -> dict[str, object]:
    """What a server with structured output is asked for: every field must be there, and no other."""
    made = shape.model_json_schema()
    return _asked(made, made.get("$defs", {}))


def _asked(given: dict[str, Any], shapes: dict[str, Any]) -> dict[str, object]:
    """Without limits and defaults, of which servers know some only; what may be left out of a list is an empty list."""
    given = shapes[given["$ref"].rpartition("/")[2]] if "$ref" in given else given
    choices = given.get("anyOf", ())
    if lists := [one for one in choices if one["type"] == "array"]:
        given = lists[0]
    asked: dict[str, object] = {name: given[name] for name in ("description", "enum") if name in given}
    if choices and not lists:
        return asked | {"type": [one["type"] for one in choices]}
    asked["type"] = given["type"]
    if given["type"] == "array":
        asked["items"] = _asked(given["items"], shapes)
    if given["type"] == "object":
        del asked["description"]  # it is ours
        fields = {name: _asked(field, shapes) for name, field in given["properties"].items()}
        asked |= {"properties": fields, "required": list(fields), "additionalProperties": False}
    return asked


def parsed(content: str, shape: type[Model]) -> Model:
    """The reply in this shape. Raises `NotUsable`."""
    # Servers without structured output like to wrap JSON in a Markdown fence.
    content = content.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError):
        raise NotUsable("the reply is not JSON") from None
    try:
        return shape.model_validate(reply)
    except ValidationError as error:
        # Only what is expected where: pydantic's own message quotes the reply.
        where = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(part if isinstance(part, str) else "item" for part in where["loc"])
        raise NotUsable(f"{path or 'the reply'} is not what was asked for ({where['type']})") from None


def read_insight(content: str, *, count: int) -> tuple[str, str | None, tuple[tuple[int, int, float], ...]]:
    """Insight, recommendation and causes of a reply about `count` memories. Raises `NotUsable`."""
    reply = parsed(content, InsightReply)
    text = _sentence(reply.insight)
    if text is None:
        raise NotUsable("the insight is empty")
    causes: dict[tuple[int, int], float] = {}
    for pair in reply.causal or ():
        if not (pair.cause < count and pair.effect < count) or pair.cause == pair.effect:
            raise NotUsable("a causal pair does not name two of the memories")
        causes.setdefault((pair.cause, pair.effect), pair.strength)
    return text, _sentence(reply.recommendation), tuple((c, e, s) for (c, e), s in causes.items())


def read_situations(content: str, *, count: int) -> tuple[str, ...]:
    """A sentence for each of `count` chunks, empty where the reply has none. Raises `NotUsable`."""
    sentences = [""] * count
    for one in parsed(content, SituationsReply).sentences:
        if one.index >= count:
            raise NotUsable("a sentence is about a chunk that was not given")
        line = " ".join(one.sentence.split())
        if len(line) > MAX_CHARACTERS_OF_SITUATION:
            raise NotUsable("a sentence is longer than 300 characters")
        sentences[one.index] = line
    return tuple(sentences)


def read_facts(content: str) -> tuple[tuple[StatedFact, ...], tuple[NamedThing, ...]]:
    """Facts and names of a reply, without those whose attribute or kind is not in the list. Raises `NotUsable`."""
    reply = parsed(content, FactsReply)
    return tuple(_facts(reply.facts)), tuple(_names(reply.names or ()))


def _facts(stated: Sequence[Stated]) -> Iterator[StatedFact]:
    for one in stated:
        if one.attribute not in STATED_ATTRIBUTES:
            continue
        value, sentence = " ".join(one.value.split()), " ".join(one.sentence.split())
        if not 0 < len(value) <= MAX_CHARACTERS_OF_VALUE or not 0 < len(sentence) <= MAX_CHARACTERS_OF_FACT:
            raise NotUsable("a value or a sentence is empty or too long")
        try:
            last_day = date.fromisoformat(one.last_day) if one.last_day else None
        except ValueError:
            raise NotUsable("a last_day is no date") from None
        yield StatedFact(one.attribute, value, sentence, last_day)


def _names(named: Sequence[Named]) -> Iterator[NamedThing]:
    for one in named:
        name = " ".join(one.name.split())
        if not 0 < len(name) <= MAX_CHARACTERS_OF_NAME:
            raise NotUsable("a name is empty or too long")
        if one.kind in KINDS_OF_NAMES:
            yield NamedThing(name, one.kind)


def _sentence(value: str | None) -> str | None:
    if value is None:
        return None
    text = value.strip()
    if len(text) > MAX_CHARACTERS_OF_INSIGHT:
        raise NotUsable("a sentence is longer than 1,000 characters")
    return text or None
