"""The embedder that a daemon uses: the one that the database is embedded by, also after `memoryd reembed` has changed it.

Promise: every handler asks this one object, so all change over together; a model that these settings cannot reach is reported
once, and counts as an embedder that is down: rows are found by their words until it is there. What a cosine of the model says
is measured when the model is new here, and again when the rows have doubled; the local model, by which the thresholds were
found, costs nothing. Until it is measured its cosines count as they are, or as they were measured last.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict

import numpy as np
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pool import Database
from daemon.db.settings import Model, model_of
from handlers.shared.embedding import Embedding
from memory.calibration import SUBJECTS, Calibration, measure
from memory.vectors import rows_of
from providers.ports import Embedder, Instructions, RejectionError, UnavailableError, Vectors

RETRY_SECONDS = 30.0


class FollowingEmbedder:
    """An `Embedder` that can become another one."""

    def __init__(
        self,
        current: Embedder,
        *,
        build: Callable[[Model], Embedder],
        turn: Callable[[], AbstractAsyncContextManager[None]],
        logger: FilteringBoundLogger,
    ) -> None:
        """`turn`: for calls of an embedder that several databases share. Its maker closes it."""
        self._turn = turn
        self.current = current
        self._build = build
        self._log = logger

    @property
    def name(self) -> str:
        """See `Embedder`."""
        return self.current.name

    @property
    def dimensions(self) -> int:
        """See `Embedder`."""
        return self.current.dimensions

    @property
    def remote(self) -> bool:
        """See `Embedder`."""
        return self.current.remote

    @property
    def instructions(self) -> Instructions:
        """See `Embedder`."""
        return self.current.instructions

    @property
    def model(self) -> Model:
        """Name and dimensions of the present one."""
        return model_of(self.current)

    def retry_in(self) -> float:
        """See `Embedder`."""
        return self.current.retry_in()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        async with self._turn():
            return await self.current.embed(texts)

    async def close(self) -> None:
        """See `Embedder`. Its maker closes it."""

    def become(self, model: Model) -> None:
        """Changes over to another model."""
        was = self.name
        try:
            self.current = self._build(model)
        except (ValueError, RuntimeError) as error:
            self.current = _NoEmbedder(model, str(error))
            self._log.error("embedder_missing", embedder=model.embedder, reason=str(error))
            return
        self._log.warning(
            "embedder_followed",
            was=was,
            now=model.embedder,
            dimensions=model.dimensions,
            hint=f"set MEMORYD_EMBEDDER={model.embedder} and MEMORYD_EMBEDDING_DIMENSIONS={model.dimensions}",
        )


class _NoEmbedder:
    """In place of an embedder that these settings cannot make."""

    remote = True

    def __init__(self, model: Model, reason: str) -> None:
        self.name = model.embedder
        self.dimensions = model.dimensions
        self.instructions = model.instructions
        self._reason = reason

    def retry_in(self) -> float:
        return RETRY_SECONDS

    async def embed(self, _texts: Sequence[str]) -> Vectors:
        raise UnavailableError(self._reason, provider=self.name, retry_in=RETRY_SECONDS, asked=False)

    async def close(self) -> None:
        """There is nothing to close."""


LOOK_SECONDS = 30.0
SOON_SECONDS = 1.0
"""Least pause after a failure."""
FEW = 100
"""Rows that are doubled from the first measurement on."""
SAMPLE = 512
"""Rows: the error of the mean is below a hundredth of the spread then."""
READ_AT_MOST = 4_000

DUE = """
select w.rows
from (select coalesce(sum(s.rows), 0)::bigint as rows
      from memoryd.lexeme_statistics s where s.lexeme >= '#' and s.lexeme < '$') w
left join memoryd.settings s on s.key = 'similarity'
where s.key is null or w.rows >= 2 * greatest($1, (s.value ->> 'rows')::bigint)
"""
READ = """
select distinct on (e.text_hash) e.embedding::vector as embedding
from (select t.text_hash, t.embedding from memoryd.{table} t tablesample system ($1)
      where t.code is not null limit {read}) e
limit {sample}
"""
KEEP = """
insert into memoryd.settings as s (key, value)
select 'similarity', $3::jsonb from memoryd.settings e, memoryd.settings d
where e.key = 'embedder' and e.value = to_jsonb($1::text) and d.key = 'dimensions' and d.value = to_jsonb($2::integer)
on conflict (key) do update set value = excluded.value, updated_at = now()
"""
KEEP_SPARE = """
update memoryd.settings s set value = s.value || jsonb_build_object('similarity', $3::jsonb)
where s.key = 'spare' and s.value ->> 'embedder' = $1 and (s.value ->> 'dimensions')::integer = $2
"""


async def keep_calibrated(
    database: Database, embedding: Embedding, embedder: FollowingEmbedder, logger: FilteringBoundLogger
) -> None:
    """Looks every half minute, for as long as the daemon runs."""
    while True:
        pause = LOOK_SECONDS
        try:
            if embedding.is_measured and (due := await database.fetch(DUE, FEW)):
                rows: int = due[0]["rows"]
                model, dimensions = embedder.name, embedder.dimensions
                found = await calibrate(database, embedding, dimensions=dimensions, rows=rows)
                logger.info(
                    "embedder_calibrated",
                    embedder=model,
                    background=found.background,
                    spread=found.spread,
                    rows=rows,
                )
        except (UnavailableError, RejectionError, ValueError, *DATABASE_FAULTS):
            # The circuit, and the worker that misses the database, tell of it.
            pause = min(LOOK_SECONDS, max(SOON_SECONDS, embedder.retry_in()))
        await asyncio.sleep(pause)


async def calibrate(
    database: Database, embedding: Embedding, *, dimensions: int, rows: int, spare: bool = False
) -> Calibration:
    """Measures the model and keeps it in the database; `spare`: with the generation that is being built.

    Raises UnavailableError, RejectionError, ValueError where its vectors have no direction.
    """
    name = embedding.name
    documents = await embedding.of(SUBJECTS)
    questions = await embedding.of(SUBJECTS, asked=True)
    query = READ.format(table="spare_entries" if spare else "entries", read=READ_AT_MOST, sample=SAMPLE)
    found = await database.fetch(query, min(100.0, 100.0 * READ_AT_MOST / max(1, rows)))
    vectors = [v for r in found if len(v := r["embedding"].to_numpy()) == dimensions]
    sample = rows_of(vectors) if vectors else np.empty((0, dimensions), dtype=np.float32)
    measured = await asyncio.to_thread(measure, questions, documents, sample)
    value = json.dumps({**asdict(measured), "rows": rows})
    await database.execute(KEEP_SPARE if spare else KEEP, name, dimensions, value)
    return measured
