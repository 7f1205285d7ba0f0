"""A dream: looks over the memories of the last two days, clusters them, writes what they say together, prunes.

Promise: one dream at a time across daemons, see `lease.py`; a dream that lost its lease ends at the next chunk.
The same cluster seen again updates its insight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from handlers.dream import lease
from handlers.dream.lease import MIN_MEMORIES, When
from handlers.dream.model import Worded, word
from handlers.dream.reader import read_known, read_memories
from handlers.dream.report import DreamReport, Trigger
from handlers.dream.writer import prune, write_insights
from handlers.shared.embedding import Embedding
from handlers.shared.ports import Store
from memory.clustering import Cluster, ClusteringStoppedError, cluster
from memory.insights import Insight, KnownInsights, write_insight
from providers.ports import LanguageModel

CHUNK = 500
"""Clusters that are written at once."""


class Dreamer:
    """Runs dreams. All durations in hours."""

    def __init__(
        self,
        *,
        store: Store,
        embedding: Embedding,
        language_model: LanguageModel | None,
        logger: FilteringBoundLogger,
        idle_hours: float,
        every_hours: float,
        window_hours: float,
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._model = language_model
        self._log = logger
        self._when = When(idle_hours * 3600, every_hours * 3600, window_hours * 3600)

    async def due(self) -> bool:
        """Whether the fleet is idle, the last dream long enough ago, and there is something to dream about."""
        return await lease.is_due(self._store, self._when)

    async def end_dead(self) -> None:
        """Ends a dream whose daemon died: until then its row says running."""
        if await lease.end_dead(self._store):
            self._log.warning("dream_interrupted", reason="its daemon died")

    async def dream(self, trigger: Trigger) -> DreamReport | None:
        """Dreams once; None when another dream is running, or an idle one is not due."""
        dream_id = await lease.begin(self._store, trigger, self._when)
        if dream_id is None:
            return None
        self._log.info("dream_started", dream=str(dream_id), trigger=trigger)
        report = DreamReport(dream_id, "interrupted")
        try:
            async with lease.renewed(self._store, dream_id) as lost:
                report = await self._dream(dream_id, lost)
        finally:
            await lease.finish(self._store, report)
        self._log.info(
            "dream_ended", **{k: str(v) if k == "dream_id" else v for k, v in asdict(report).items()}
        )
        return report

    async def _dream(self, dream_id: UUID, lost: asyncio.Event) -> DreamReport:
        report = DreamReport(dream_id, "interrupted")
        memories, vectors = await read_memories(self._store, self._when.window_seconds, lost=lost)
        report = replace(report, memories_scanned=len(memories))
        clusters: list[Cluster] = []
        if len(memories) >= MIN_MEMORIES:
            same_topic = self._embedding.floors.same_topic
            try:
                clusters = await asyncio.to_thread(
                    cluster, memories, vectors, same_topic=same_topic, should_stop=lost.is_set
                )
            except ClusteringStoppedError:
                return report
        report = replace(report, clusters_found=len(clusters))
        known = await read_known(self._store)
        for start in range(0, len(clusters), CHUNK):
            if lost.is_set():
                return report
            written = await self._write(dream_id, clusters[start : start + CHUNK], known, lost)
            report = replace(report, insights_generated=report.insights_generated + written)
        if lost.is_set():
            return report
        return replace(report, status="completed", associations_pruned=await prune(self._store))

    async def _write(
        self, dream_id: UUID, clusters: Sequence[Cluster], known: KnownInsights, lost: asyncio.Event
    ) -> int:
        insights: list[Insight] = []
        causes: list[tuple[UUID, UUID]] = []
        for found in clusters:
            draft = write_insight(found)
            if draft is None:
                continue
            worded = Worded([draft])
            if self._model is not None and not lost.is_set():
                worded = await word(self._model, found, draft, logger=self._log)
            insights += worded.insights
            causes += worded.causes
        if not insights:
            return 0
        embeddings = await self._embedding.if_possible(
            {n: i.text for n, i in enumerate(insights)}, patience=None
        )
        await write_insights(
            self._store, dream_id, insights, causes=causes, embeddings=embeddings, known=known
        )
        return len(insights)
