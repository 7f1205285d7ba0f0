"""Which topics there are, who handles each, in batches of what size and how many at once."""

from __future__ import annotations

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from daemon.db.pool import Database
from daemon.queue.topic import Topic
from handlers.associate import AssociateHandler
from handlers.capture import CaptureHandler
from handlers.context import ContextHandler
from handlers.document import DocumentHandler
from handlers.dream.dreamer import Dreamer
from handlers.dream.handler import DreamHandler
from handlers.facts import FactsHandler
from handlers.index import IndexHandler
from handlers.lexicon import LexiconHandler
from handlers.names import NamesHandler
from handlers.request import RequestHandler
from handlers.shared.embedding import Embedding
from handlers.situate import SituateHandler
from handlers.statistics import StatisticsHandler
from providers.ports import WordEmbedder


def build_topics(
    database: Database,
    embedding: Embedding,
    dreamer: Dreamer,
    *,
    words: WordEmbedder,
    remote: bool,
    embedder_wait: Callable[[], float],
    facts_by_model: bool,
    logger: FilteringBoundLogger,
) -> list[Topic]:
    """The topics of a daemon. A remote embedder is waited for by more workers at once; the local one keeps a core busy."""
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
            waits_for=embedder_wait,
        ),
        # Few at once: a document may be as long as a book, and a batch is one transaction.
        Topic(
            "document",
            DocumentHandler(reader=database, situate=dreamer.thinker is not None),
            batch=16,
            follow_ups=("index", "situate"),
        ),
        # One document at a time: a batch waits for a language model, and none of its effects is written before the last reply.
        Topic(
            "situate",
            SituateHandler(reader=database, thinker=dreamer.thinker),
            batch=1,
            follow_ups=("index",),
        ),
        Topic("names", NamesHandler(reader=database), batch=128),
        # One stretch at a time: a batch waits for a language model. Lanes: a user's conversations are read in order.
        Topic(
            "facts",
            FactsHandler(
                reader=database,
                embedding=embedding,
                thinker=dreamer.thinker if facts_by_model else None,
                logger=logger,
            ),
            batch=1,
            parallel=4,
            lanes=1,
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
