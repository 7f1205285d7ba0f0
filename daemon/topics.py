"""Which topics the core has, who handles each, in batches of what size and how many at once; their workers, and who thinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

from structlog.typing import FilteringBoundLogger

from daemon import presence
from daemon.db.pool import Database
from daemon.measures import ANSWERS, Measures
from daemon.plugins import Core, PluginError
from daemon.queue.failures import BACKOFF_MAX_SECONDS
from daemon.queue.topic import Topic
from daemon.queue.worker import Worker
from daemon.settings import Settings
from handlers.associate import AssociateHandler
from handlers.capture import CaptureHandler
from handlers.context import ContextHandler
from handlers.dream.dreamer import Dreamer, DreamHandler
from handlers.index import IndexHandler, StatisticsHandler
from handlers.lexicon import LexiconHandler
from handlers.request import RequestHandler
from handlers.shared.embedding import Embedding
from handlers.shared.thinking import Budget, Thinker
from providers.build import build_word_embedder
from providers.ports import LanguageModel

DREAM_EVERY_HOURS = 6.0
"""Between two completed dreams."""
MAX_ATTEMPTS = 15
"""Before a job is discarded."""
RETRY_MAX_SECONDS = BACKOFF_MAX_SECONDS


def build_topics(core: Core, dreamer: Dreamer) -> list[Topic]:
    """The topics of the core. A remote embedder is waited for by more workers at once; the local one keeps a core busy."""
    database, embedding, remote = core.database, core.embedding, core.embedder.remote
    words = build_word_embedder(core.embedder.current)
    calls = 4 if remote else 2
    return [
        Topic(
            "context",
            ContextHandler(reader=database, embedding=embedding),
            batch=16,
            parallel=calls,
            counted_as="contexts",
        ),
        Topic(
            "capture",
            CaptureHandler(reader=database, embedding=embedding),
            batch=256,
            parallel=calls,
            lanes=64,
            follow_ups=("index", "associate", "statistics"),
            counted_as="captured",
            derives=True,
        ),
        Topic(
            "index",
            IndexHandler(store=database, embedding=embedding),
            # One request to a remote embedder; the local one and the database are faster with bigger batches.
            batch=64 if remote else 256,
            parallel=calls,
            follow_ups=("associate", "statistics"),
            counted_as="indexed",
            derives=True,
            waits_for=core.embedder.retry_in,
        ),
        # Deep lanes: what a batch may be near to is read once for each. Many of them: a lane is one user's with one agent.
        # These three do the same for less where there is more of it, and give way to rows that nobody finds yet.
        Topic(
            "associate",
            AssociateHandler(reader=database),
            batch=512,
            lanes=32,
            counted_as="linked",
            derives=True,
            gives_way_to=("index",),
        ),
        Topic(
            "statistics",
            StatisticsHandler(),
            batch=1000,
            lanes=1,
            derives=True,
            gives_way_to=("index", "associate"),
            last=True,
        ),
        Topic(
            "lexicon",
            LexiconHandler(reader=database, embedder=words),
            batch=1000,
            lanes=1,
            derives=True,
            gives_way_to=("index", "associate"),
            last=True,
        ),
        Topic(
            "request",
            RequestHandler(reader=database, embedding=embedding, words=words),
            batch=16,
            parallel=calls,
            counted_as="requests",
        ),
        # What reads or deletes all about a user: one at a time, so that a user's exports never take the workers of recalls.
        Topic("user_data", RequestHandler(reader=database, embedding=embedding, words=words), batch=1),
        Topic("dream", DreamHandler(reader=database, dreamer=dreamer), batch=16, counted_as="dreams"),
    ]


def build_workers(
    topics: Sequence[Topic],
    database: Database,
    *,
    daemon: int,
    measures: Measures,
    wake_others: Callable[[Sequence[str]], None],
    turn: Callable[[], AbstractAsyncContextManager[None]],
    logger: FilteringBoundLogger,
) -> dict[str, Worker]:
    """The worker of each topic, by its name. `daemon`: the number of the daemon. `turn`: for what nobody waits for."""
    if twice := [name for name, times in Counter(topic.name for topic in topics).items() if times > 1]:
        raise PluginError(f"Two plugins bring the topic {twice[0]}: uninstall one of them.")
    workers: dict[str, Worker] = {}

    def others(topic: Topic) -> list[Worker]:
        return [workers[name] for name in topic.gives_way_to]

    for topic in topics:
        workers[topic.name] = Worker(
            topic,
            database=database,
            claim_seconds=presence.CLAIM_SECONDS,
            max_attempts=MAX_ATTEMPTS,
            retry_max_seconds=RETRY_MAX_SECONDS,
            daemon=daemon,
            measures=measures,
            logger=logger,
            wake_others=wake_others,
            turn=nullcontext if topic.name in ANSWERS else turn,
            others=partial(others, topic),
        )
    return workers


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
