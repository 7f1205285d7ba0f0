"""What a language model may reply: checked by pydantic, so that nothing but these few fields can have an effect.

Promise: a reply becomes a value of the right shape, or `NotUsable` is raised with a reason that quotes nothing. Fields that
were not asked for are ignored: a reply cannot set a confidence, a category or an id, whatever a memory told the model to do.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from providers.vectors import clean

MAX_CHARACTERS_OF_INSIGHT = 1_000
MAX_CHARACTERS_OF_SITUATION = 300
MAX_CAUSES = 30
STRENGTH = 0.5
"""Of a causal link for which the model names none."""

Model = TypeVar("Model", bound=BaseModel)


class NotUsable(Exception):
    """The reply is not of the shape that was asked for; says why, and quotes nothing."""


def _storable(value: object) -> object:
    # JSON can spell NUL and lone surrogates: Postgres stores neither, and pydantic refuses the latter.
    return clean(value, len(value)) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_storable)]


class Strict(BaseModel):
    """Types are not converted, and other fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class Cause(Strict):
    """One memory brought about another."""

    cause: Annotated[int, Field(ge=0)]
    effect: Annotated[int, Field(ge=0)]
    strength: Annotated[float, Field(ge=0, le=1, description="from 0 to 1: how sure you are")] = STRENGTH


class InsightReply(Strict):
    """An insight."""

    insight: Annotated[Text, Field(description="one or two sentences, at most 1000 characters")]
    recommendation: Annotated[Text | None, Field(description="one sentence, or null")] = None
    causal: Annotated[list[Cause], Field(max_length=MAX_CAUSES)] | None = None


class Situation(Strict):
    """Where one chunk stands."""

    index: Annotated[int, Field(ge=0)]
    sentence: Annotated[Text, Field(description="at most 300 characters")]


class SituationsReply(Strict):
    """Where chunks stand."""

    sentences: list[Situation]


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


def _sentence(value: str | None) -> str | None:
    if value is None:
        return None
    text = value.strip()
    if len(text) > MAX_CHARACTERS_OF_INSIGHT:
        raise NotUsable("a sentence is longer than 1,000 characters")
    return text or None
