"""A dreamer in the test's own process: no daemon has to start, and its log is a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from structlog.typing import FilteringBoundLogger

from daemon.db.pool import Database
from handlers.dream.dreamer import Dreamer
from handlers.shared.embedding import Embedding
from handlers.shared.thinking import Budget, Thinker
from providers.build import build_language_model
from providers.ports import Instructions, LanguageModel
from tests.support.services.openai_server import OpenAIServer


class Log:
    """Remembers what was logged: (event, values); and the models that the test must close."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.models: list[LanguageModel] = []

    def info(self, event: str, **values: object) -> None:
        """Notes an event."""
        self.lines.append((event, values))

    warning = info

    def values(self, event: str) -> list[dict[str, Any]]:
        """Of each line of an event."""
        return [values for name, values in self.lines if name == event]

    @property
    def logger(self) -> FilteringBoundLogger:
        """As the daemon's parts want it."""
        return cast("FilteringBoundLogger", self)


class NoEmbedding:
    """An embedder that never answers: insights are then written without a vector."""

    instructions = Instructions()

    async def if_possible(
        self, _texts: Mapping[Any, str], *, patience: float | None = None
    ) -> dict[Any, Any]:
        """Nothing."""
        assert patience is None
        return {}


def thinker(
    database: Database,
    server: OpenAIServer,
    log: Log,
    *,
    calls: int | None = None,
    tokens: int | None = None,
    timeout_seconds: float = 20.0,
) -> Thinker:
    """The model of a server, behind a circuit, within a budget."""
    model = build_language_model(
        "openai/any",
        base_url=server.base_url,
        api_key=None,
        timeout_seconds=timeout_seconds,
        on_circuit_change=lambda *_: None,
    )
    assert model is not None
    log.models.append(model)
    return Thinker(model, store=database, budget=Budget(calls, tokens), logger=log.logger)


def dreamer(
    database: Database,
    log: Log,
    thinks: Thinker | None = None,
    *,
    idle_hours: float = 6,
    overdue_hours: float = 24,
) -> Dreamer:
    """A dreamer as a daemon has one, without an embedder."""
    return Dreamer(
        store=database,
        embedding=cast("Embedding", NoEmbedding()),
        thinker=thinks,
        logger=log.logger,
        idle_hours=idle_hours,
        every_hours=6,
        overdue_hours=overdue_hours,
    )
