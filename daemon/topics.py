"""Which topics there are, who handles each, in batches of what size and how many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from daemon.db.pool import Database
from daemon.queue.topic import Topic
from handlers.associate import AssociateHandler
from handlers.capture import CaptureHandler
from handlers.context import ContextHandler
from handlers.document import DocumentHandler
from handlers.dream.dreamer import Dreamer
from handlers.dream.handler import DreamHandler
from handlers.index import IndexHandler
from handlers.lexicon import LexiconHandler
from handlers.request import RequestHandler
from handlers.shared.embedding import Embedding
from handlers.shared.ports import Commit, Handler, Job
from handlers.shared.thinking import Thinker
from handlers.situate import SituateHandler
from handlers.statistics import StatisticsHandler
from memory.trail.significance import Significance
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
    significance: Significance,
) -> list[Topic]:
    """The topics of a daemon. A remote embedder is waited for by more workers at once; the local one keeps a core busy."""
    calls = 4 if remote else 2
    return [
        Topic("context", ContextHandler(reader=database, embedding=embedding), batch=16, parallel=calls),
        Topic(
            "capture",
            CaptureHandler(reader=database, embedding=embedding, significance=significance),
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
        _facts(database, dreamer.thinker if facts_by_model else None),
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


def _facts(database: Database, thinker: Thinker | None) -> Topic:
    """Facts, found by the language model where there is a thinker. Lanes: a user's messages are read in order."""
    handler = _FactsHandler(database, thinker)
    if thinker is None:
        return Topic("facts", handler, batch=128, lanes=32, follow_ups=("index",))
    # Few at once: a batch waits for a language model, and none of its effects is written before the last reply.
    return Topic("facts", handler, batch=4, parallel=4, lanes=4, follow_ups=("index",))


class _FactsHandler:
    """Loads the handler of facts with its first job: compiling all its patterns would delay each start."""

    def __init__(self, database: Database, thinker: Thinker | None) -> None:
        self._database = database
        self._thinker = thinker
        self._loaded: Handler | None = None

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """See handlers/facts.py."""
        if self._loaded is None:
            self._loaded = await asyncio.to_thread(self._load)
        return await self._loaded.prepare(jobs)

    def _load(self) -> Handler:
        from handlers.facts import FactsHandler  # noqa: PLC0415
        from handlers.shared.fact_finders import ModelFinder, RuleFinder  # noqa: PLC0415

        finder = RuleFinder() if self._thinker is None else ModelFinder(self._thinker)
        return FactsHandler(reader=self._database, finder=finder)
