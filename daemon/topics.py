"""Which topics the core has, who handles each, in batches of what size and how many at once; and their workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from structlog.typing import FilteringBoundLogger

from daemon.db import presence
from daemon.db.pool import Database
from daemon.measures import ANSWERS, Measures
from daemon.plugins import Core, PluginError
from daemon.queue.failures import BACKOFF_MAX_SECONDS
from daemon.queue.topic import Topic
from daemon.queue.worker import Worker
from handlers.associate import AssociateHandler
from handlers.capture import CaptureHandler
from handlers.context import ContextHandler
from handlers.document import DocumentHandler
from handlers.dream.dreamer import Dreamer
from handlers.dream.handler import DreamHandler
from handlers.index import IndexHandler
from handlers.lexicon import LexiconHandler
from handlers.request import RequestHandler
from handlers.situate import SituateHandler
from handlers.statistics import StatisticsHandler
from providers.build import build_word_embedder

MAX_ATTEMPTS = 15
"""Before a job is discarded."""
RETRY_MAX_SECONDS = BACKOFF_MAX_SECONDS


def build_topics(core: Core, dreamer: Dreamer) -> list[Topic]:
    """The topics of the core. A remote embedder is waited for by more workers at once; the local one keeps a core busy."""
    database, embedding, thinker, remote = core.database, core.embedding, core.thinker, core.embedder.remote
    words = build_word_embedder(core.embedder.current)
    calls = 4 if remote else 2
    return [
        Topic("context", ContextHandler(reader=database, embedding=embedding), batch=16, parallel=calls),
        Topic(
            "capture",
            CaptureHandler(reader=database, embedding=embedding),
            batch=256,
            parallel=calls,
            lanes=64,
            follow_ups=("index", "associate", "statistics"),
        ),
        Topic(
            "index",
            IndexHandler(store=database, embedding=embedding),
            # One request to a remote embedder; the local one and the database are faster with bigger batches.
            batch=64 if remote else 256,
            parallel=calls,
            follow_ups=("associate", "statistics"),
            waits_for=core.embedder.retry_in,
        ),
        # Few at once: a document may be as long as a book, and a batch is one transaction.
        Topic(
            "document",
            DocumentHandler(reader=database, situate=thinker is not None),
            batch=16,
            follow_ups=("index", "situate"),
        ),
        # One document at a time: a batch waits for a language model, and none of its effects is written before the last reply.
        Topic(
            "situate",
            SituateHandler(reader=database, thinker=thinker),
            batch=1,
            follow_ups=("index",),
        ),
        # Deep lanes: what a batch may be near to is read once for each. Many of them: a lane is one user's with one agent.
        Topic("associate", AssociateHandler(reader=database), batch=512, lanes=32),
        Topic("statistics", StatisticsHandler(), batch=1000, lanes=1),
        Topic("lexicon", LexiconHandler(reader=database, embedder=words), batch=1000, lanes=1),
        Topic(
            "request",
            RequestHandler(reader=database, embedding=embedding, words=words),
            batch=16,
            parallel=calls,
        ),
        # What reads or deletes all about a user: one at a time, so that a user's exports never take the workers of recalls.
        Topic("user_data", RequestHandler(reader=database, embedding=embedding, words=words), batch=1),
        Topic("dream", DreamHandler(reader=database, dreamer=dreamer), batch=16),
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
    return {
        topic.name: Worker(
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
        )
        for topic in topics
    }
