"""The settings that stand in the database: what triggers and functions read, and which model embeds it.

Promise: of the model the database decides. Settings that name an earlier one, or none, follow it, so that a daemon that starts
again after `memoryd reembed` works; settings that name a model which the database was never embedded by are refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from daemon.db.errors import MigrationError
from daemon.plugins import load_plugins
from daemon.settings import Settings, split_list
from handlers.shared.ports import AnyConnection
from providers.ports import Embedder, Instructions

READ_SETTING = "select value #>> '{}' from memoryd.settings where key = $1"
WRITE_SETTINGS = """
insert into memoryd.settings (key, value)
select key, value from unnest($1::text[], $2::jsonb[]) as s(key, value)
on conflict (key) do update
set value = excluded.value, updated_at = now()
where settings.value <> excluded.value
"""


async def write_settings(connection: Any, settings: Settings) -> None:
    """Tells the database what its triggers must know."""
    values: dict[str, object] = {
        "notification_user_ids": settings.notification_user_ids,
        "context_words": settings.context_words,
        "audit": settings.audit_days > 0,
        "facts": "off",  # where its plugin does not say otherwise: a former start may have had it
        "languages": split_list(settings.languages),
        "ttl_hours.outcome": settings.outcome_ttl_hours,
        "ttl_hours.error": settings.outcome_ttl_hours,
        "ttl_hours.observation": settings.outcome_ttl_hours,
        "ttl_hours.task_memory": settings.task_memory_ttl_hours,
    }
    for plugin in load_plugins():
        values |= plugin.database_settings(settings)
    await connection.execute(WRITE_SETTINGS, list(values), [json.dumps(v) for v in values.values()])


READ_MODELS = """
select json_object_agg(key, value) from memoryd.settings
where key in ('embedder', 'dimensions', 'spare', 'former_embedders', 'instructions')
"""


NO_INSTRUCTIONS = Instructions()


@dataclass(frozen=True, slots=True)
class Model:
    """An embedder by its name, with the dimensions of its vectors, and what stands before the texts."""

    embedder: str
    dimensions: int
    instructions: Instructions = NO_INSTRUCTIONS

    def __str__(self) -> str:
        return f"{self.embedder} ({self.dimensions} dimensions)"


@dataclass(frozen=True, slots=True)
class Models:
    """The models that a database knows. `state` of the spare: building or kept."""

    used: Model | None = None
    spare: Model | None = None
    state: str | None = None
    since: str | None = None
    former: frozenset[Model] = frozenset()


async def read_models(connection: AnyConnection) -> Models:
    """None are known of a database without a schema."""
    if await connection.fetchval("select to_regclass('memoryd.settings')") is None:
        return Models()
    found = json.loads(await connection.fetchval(READ_MODELS) or "{}")
    spare = found.get("spare") or {}
    return Models(
        used=_model(found) if "embedder" in found else None,
        spare=_model(spare) if spare else None,
        state=spare.get("state"),
        since=spare.get("since"),
        former=frozenset(_model(f) for f in found.get("former_embedders", ())),
    )


def model_of(embedder: Embedder) -> Model:
    """The model of an embedder, as the database stores it."""
    return Model(embedder.name, embedder.dimensions, embedder.instructions)


def _model(found: dict[str, Any]) -> Model:
    instructions = found.get("instructions") or {}
    return Model(
        found["embedder"],
        int(found["dimensions"]),
        Instructions(instructions.get("query", ""), instructions.get("document", "")),
    )


def model_to_use(asked: Model, models: Models, *, chosen: bool, instructed: bool = False) -> Model:
    """What a process uses whose settings name `asked`; `chosen` is False where that is only the default.

    `instructed`: whether the settings say what stands before the texts. Where they do not, that is the database's own.

    Raises MigrationError where somebody chose a model that the database was never embedded by.
    """
    if models.used is None or asked == models.used:
        return asked
    if not chosen or any(is_like(asked, one, instructed=instructed) for one in (models.used, *models.former)):
        return models.used
    refuse_model(asked, models.used)
    return asked


def is_like(asked: Model, known: Model, *, instructed: bool) -> bool:
    """Whether the settings name this model; what stands before the texts counts only where they say it."""
    return asked == (known if instructed else replace(known, instructions=asked.instructions))


def refuse_model(asked: Model, used: Model) -> None:
    """Raises MigrationError that says what to do."""
    found = (
        f"This database has embeddings of {used.dimensions} dimensions, the embedder gives {asked.dimensions}."
        if asked.dimensions != used.dimensions
        else f"This database has embeddings of {used.embedder}, the settings name {asked.embedder}."
        if asked.embedder != used.embedder
        else f"This database has embeddings of {used.embedder} with {_told(used)}, the settings name {_told(asked)}."
    )
    raise MigrationError(
        f"{found} Set MEMORYD_EMBEDDER (and MEMORYD_EMBEDDING_DIMENSIONS) back to {used}, or change the database: "
        f"memoryd reembed {asked.embedder} --dimensions {asked.dimensions}"
    )


def _told(model: Model) -> str:
    its = model.instructions
    return f"MEMORYD_QUERY_INSTRUCTION={its.query!r} and MEMORYD_DOCUMENT_INSTRUCTION={its.document!r}"
