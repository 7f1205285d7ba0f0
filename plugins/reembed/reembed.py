"""Changing a database to another embedding model while recall answers: `memoryd reembed`.

Promise: whenever it is ended, also by kill -9, the database works, by one model or the other, and the next run goes on where
this one was. Until `drop_previous` the step back is as quick as the step forward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from daemon.db.errors import MigrationError
from daemon.db.indexes import build_spare_index
from daemon.db.pool import Database
from daemon.db.settings import Model, Models, model_of, read_models
from daemon.embedder import calibrate
from handlers.shared.embedding import Embedding
from plugins.reembed import generations
from plugins.reembed.fill import START, LeaseLostError, fill_batch
from providers.ports import Embedder, RejectionError, UnavailableError

BATCH_LOCAL, BATCH_REMOTE = 512, 128
"""Passages."""
MIN_WAIT, MAX_WAIT = 1.0, 60.0
"""Seconds until an embedder that did not answer is called again."""
FEW = 500
"""Passages written in a pass: with so few the swap need not wait for a further pass."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Shows the progress to a person: done and total passages, and remarks."""

    progress: Callable[[int, int], None]
    remark: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ModelChange:
    """The end of a change. `queued`: rows that the daemons embed, since they were written at the last moment."""

    was: Model
    passages: int
    queued: int


async def models_of(database: Database) -> Models:
    """The models that the database knows."""
    async with database.connection() as connection:
        return await read_models(connection)


async def reembed(database: Database, embedder: Embedder, told: Progress) -> ModelChange:
    """Builds the generation of this embedder, or the rest of it, and switches recall to it.

    Raises MigrationError where another is in the way, UnavailableError where the embedder does not answer its first question.
    """
    model = model_of(embedder)
    async with generations.lease(database) as token:
        models = await models_of(database)
        check_possible(models, model)
        assert models.used is not None
        # What cannot work is refused before anything is begun.
        await embedder.embed(["memory"])
        if models.spare is None:
            await generations.begin(database, model)
        try:
            await _fill(database, embedder, told, token)
            total, done = await generations.count_passages(database)
            told.progress(done, total)
            await generations.prepare_swap(database)
            await _calibrate(database, embedder, rows=total)
            await build_spare_index(database, rows=total, dimensions=model.dimensions)
            return ModelChange(models.used, done, await generations.swap(database))
        except LeaseLostError:
            raise MigrationError(
                "This command was suspended for so long that another memoryd reembed has taken over. "
                "To see how far it is: memoryd reembed --status"
            ) from None


def check_possible(models: Models, model: Model) -> None:
    """Raises MigrationError where there is nothing to do, or another change must be ended first."""
    if models.used is None:
        raise MigrationError("This database has no memoryd schema yet. Run: memoryd migrate")
    if model == models.used:
        raise MigrationError(f"The database is embedded by {model} already.")
    if models.spare is None or (models.state == "building" and models.spare == model):
        return
    if models.state == "building":
        raise MigrationError(
            f"The embeddings of {models.spare} are being made. Go on with: memoryd reembed {models.spare.embedder} "
            f"--dimensions {models.spare.dimensions}; or give them up: memoryd reembed --undo"
        )
    if models.spare == model:
        raise MigrationError(
            f"The embeddings of {model} are still kept. To go back to them: memoryd reembed --undo"
        )
    raise MigrationError(
        f"The embeddings of {models.spare} are still kept. Delete them first (memoryd reembed --drop-previous), or go back "
        "to them (memoryd reembed --undo)."
    )


async def undo(database: Database) -> Models:
    """Gives up a generation that is being built, or goes back to the one before; returns the models as they were.

    Raises MigrationError where there is neither.
    """
    async with generations.lease(database):
        models = await models_of(database)
        if models.spare is None:
            raise MigrationError("There is nothing to undo: no other model's embeddings are kept.")
        if models.state == "building":
            await generations.drop(database)
        else:
            await generations.prepare_swap(database)
            await generations.swap(database)
        return models


async def drop_previous(database: Database) -> Model:
    """Deletes the generation that was kept; returns its model. Raises MigrationError where there is none."""
    async with generations.lease(database):
        models = await models_of(database)
        if models.spare is None or models.state != "kept":
            raise MigrationError("There is nothing to drop: no earlier model's embeddings are kept.")
        await generations.drop(database)
        return models.spare


async def _calibrate(database: Database, embedder: Embedder, *, rows: int) -> None:
    """So recall has the new model's background from its first question on. Where it is down, the daemons measure it later."""
    embedding = Embedding(embedder, database)
    if not embedding.is_measured:
        return
    with suppress(UnavailableError, RejectionError, ValueError):
        await calibrate(database, embedding, dimensions=embedder.dimensions, rows=rows, spare=True)


async def _fill(database: Database, embedder: Embedder, told: Progress, token: int) -> None:
    embedding = Embedding(embedder, database)
    maximum = BATCH_REMOTE if embedder.remote else BATCH_LOCAL
    while True:
        total, done = await generations.count_passages(database)
        told.progress(done, total)
        after, in_pass, silent = START, 0, False
        while True:
            try:
                filled = await fill_batch(database, embedding, after=after, maximum=maximum, token=token)
            except UnavailableError as error:
                if not silent:
                    told.remark(f"{error}. Waiting for it; Ctrl-C ends, and the same command goes on later.")
                    silent = True
                await asyncio.sleep(min(MAX_WAIT, max(MIN_WAIT, error.retry_in, embedder.retry_in())))
                continue
            silent = False
            if filled.last is None:
                break
            after, in_pass = filled.last, in_pass + filled.written
            told.progress(min(total, done + in_pass), total)
        if in_pass < FEW:
            return
