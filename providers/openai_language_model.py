"""The language model behind the OpenAI protocol: it answers prompts with JSON of the shape that they name.

Promise: what it is shown is data. It reaches the model fenced off as JSON and cannot leave the fence, and what comes back has
the shape that was asked for, or is `UselessReplyError`: then the caller keeps what its rule wrote. The reason quotes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from providers.openai_client import connect, misunderstood, translated
from providers.ports import Answer, InvalidReplyError, Prompt, UselessReplyError
from providers.vectors import clean

SETTING = "MEMORYD_LANGUAGE_MODEL"
MAX_CHARACTERS_OF_REPLY = 10_000_000
CHARACTERS_OF_TOKEN = 4
"""Where a server does not say what a reply cost, it is estimated."""

Model = TypeVar("Model", bound=BaseModel)


class OpenAILanguageModel:
    """Asks a model of the OpenAI protocol. Implements `LanguageModel`. Raises ValueError without a key and a base_url."""

    def __init__(
        self, *, model: str, base_url: str | None, api_key: str | None, timeout_seconds: float
    ) -> None:
        self.name = f"openai/{model}"
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._client = connect(base_url=base_url, api_key=api_key, timeout_seconds=timeout_seconds)

    def retry_in(self) -> float:
        return 0.0  # the circuit around it knows when to ask again

    async def ask(self, prompt: Prompt[Answer]) -> tuple[Answer, int]:
        system, user = prompt.instructions, _fenced(prompt.fence, prompt.data)
        async with translated(self.name, setting=SETTING, timeout_seconds=self._timeout_seconds):
            reply = await self._client.chat.completions.create(
                model=self._model,
                messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
                # A server that heeds it answers the same content once.
                extra_headers={"Idempotency-Key": hashlib.sha256((system + user).encode()).hexdigest()},
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": prompt.name, "strict": True, "schema": _schema_of(prompt.shape)},
                },
            )
            choices = list(reply.choices)
            content = (choices[0].message.content or "") if choices else ""
            counted = reply.usage.total_tokens if reply.usage is not None else 0
        if not choices:
            raise misunderstood(self.name)
        # The client does not check the types of a reply.
        told = counted if type(counted) is int and counted > 0 else 0
        tokens = told or (len(system) + len(user) + len(content)) // CHARACTERS_OF_TOKEN
        try:
            return prompt.read(_parsed(content, prompt.shape)), tokens
        except InvalidReplyError as error:
            raise UselessReplyError(f"{self.name}: {error}", provider=self.name, tokens=tokens) from None

    async def close(self) -> None:
        await self._client.close()


def _fenced(fence: str, data: Mapping[str, object]) -> str:
    # Without a single "<" no text can close the fence; JSON reads the escape back as the character.
    shown = json.dumps(_storable(data), ensure_ascii=False).replace("<", "\\u003c")
    return f"<{fence}>\n{shown}\n</{fence}>"


def _storable(value: Any) -> Any:
    """The same without NUL and lone surrogates: JSON can spell them, and Postgres stores neither."""
    if isinstance(value, str):
        return clean(value, len(value))
    if isinstance(value, list):
        return [_storable(each) for each in value]
    return {name: _storable(each) for name, each in value.items()} if isinstance(value, dict) else value


def _schema_of(shape: type[BaseModel]) -> dict[str, object]:
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
        asked.pop("description", None)  # it is ours
        fields = {name: _asked(field, shapes) for name, field in given["properties"].items()}
        asked |= {"properties": fields, "required": list(fields), "additionalProperties": False}
    return asked


def _parsed(content: str, shape: type[Model]) -> Model:
    """The reply in this shape. Raises `InvalidReplyError`."""
    if len(content) > MAX_CHARACTERS_OF_REPLY:
        raise InvalidReplyError("the reply is longer than 10,000,000 characters")
    # Servers without structured output like to wrap JSON in a Markdown fence.
    content = content.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        reply = _storable(json.loads(content))
    except (ValueError, RecursionError):
        raise InvalidReplyError("the reply is not JSON") from None
    try:
        return shape.model_validate(reply, strict=True)
    except ValidationError as error:
        # Only what is expected where: pydantic's own message quotes the reply.
        where = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(part if isinstance(part, str) else "item" for part in where["loc"])
        raise InvalidReplyError(
            f"{path or 'the reply'} is not what was asked for ({where['type']})"
        ) from None
