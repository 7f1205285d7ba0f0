"""The language model and the dreamer of a daemon, or of a command, as the settings ask for them."""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from daemon.db.pool import Database
from daemon.settings import Settings
from handlers.dream.dreamer import Dreamer
from handlers.shared.embedding import Embedding
from handlers.shared.thinking import Budget, Thinker
from providers.ports import LanguageModel

DREAM_EVERY_HOURS = 6.0
"""Between two completed dreams."""


def build_thinker(
    settings: Settings, database: Database, language_model: LanguageModel | None, logger: FilteringBoundLogger
) -> Thinker | None:
    """The language model within its budget; None where the settings name none."""
    if language_model is None:
        return None
    budget = Budget(settings.language_model_calls_per_hour, settings.language_model_tokens_per_hour)
    return Thinker(language_model, store=database, budget=budget, logger=logger)


def build_dreamer(
    settings: Settings,
    database: Database,
    embedding: Embedding,
    thinker: Thinker | None,
    logger: FilteringBoundLogger,
) -> Dreamer:
    """The dreamer that these settings ask for."""
    return Dreamer(
        store=database,
        embedding=embedding,
        thinker=thinker,
        logger=logger,
        idle_hours=settings.dream_idle_hours,
        every_hours=DREAM_EVERY_HOURS,
    )
