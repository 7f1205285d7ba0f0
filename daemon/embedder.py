"""The embedder that a daemon uses: the one that the database is embedded by, also after `memoryd reembed` has changed it.

Promise: every handler asks this one object, so all change over together; a model that these settings cannot reach is reported
once, and counts as an embedder that is down: rows are found by their words until it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from structlog.typing import FilteringBoundLogger

from daemon.db.models import Model, model_of
from providers.ports import Embedder, Instructions, Unavailable, Vectors

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
        raise Unavailable(self._reason, provider=self.name, retry_in=RETRY_SECONDS, asked=False)

    async def close(self) -> None:
        """There is nothing to close."""
