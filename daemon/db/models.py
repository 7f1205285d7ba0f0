"""Which embedding model the database is embedded by, and which one a process with these settings uses.

Promise: the database decides. Settings that name an earlier model, or none, follow it, so that a daemon that starts again
after `memoryd reembed` works; settings that name a model which the database was never embedded by are refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from daemon.db.plan import MigrationError
from handlers.shared.ports import AnyConnection

READ_MODELS = """
select json_object_agg(key, value) from memoryd.settings
where key in ('embedder', 'dimensions', 'spare', 'former_embedders')
"""


@dataclass(frozen=True, slots=True)
class Model:
    """An embedder by its name, with the dimensions of its vectors."""

    embedder: str
    dimensions: int

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
        used=Model(found["embedder"], int(found["dimensions"])) if "embedder" in found else None,
        spare=Model(spare["embedder"], int(spare["dimensions"])) if spare else None,
        state=spare.get("state"),
        since=spare.get("since"),
        former=frozenset(
            Model(f["embedder"], int(f["dimensions"])) for f in found.get("former_embedders", ())
        ),
    )


def model_to_use(asked: Model, models: Models, *, chosen: bool) -> Model:
    """What a process uses whose settings name `asked`; `chosen` is False where that is only the default.

    Raises MigrationError where somebody chose a model that the database was never embedded by.
    """
    if models.used is None or asked == models.used:
        return asked
    if not chosen or asked in models.former:
        return models.used
    refuse_model(asked, models.used)
    return asked


def refuse_model(asked: Model, used: Model) -> None:
    """Raises MigrationError that says what to do."""
    found = (
        f"This database has embeddings of {used.dimensions} dimensions, the embedder gives {asked.dimensions}."
        if asked.dimensions != used.dimensions
        else f"This database has embeddings of {used.embedder}, the settings name {asked.embedder}."
    )
    raise MigrationError(
        f"{found} Set MEMORYD_EMBEDDER (and MEMORYD_EMBEDDING_DIMENSIONS) back to {used}, or change the database: "
        f"memoryd reembed {asked.embedder} --dimensions {asked.dimensions}"
    )
