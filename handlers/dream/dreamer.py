"""A dream: looks over the memories of the last two days, clusters them, writes what they say together, compares them with
what earlier dreams said, draws again what lost its memories, and weakens links that nothing uses.

Promise: one dream at a time across daemons, see `lease.py`; a dream that lost its lease ends at the next chunk.
The same cluster seen again updates its insight; a language model is not asked about the same memories twice. What was committed
before a request for a dream is remembered before the dream begins, unless that takes more than seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from hashlib import sha256
from uuid import UUID, uuid4

from structlog.typing import FilteringBoundLogger

from handlers.dream import lease, writer
from handlers.dream.lease import MIN_MEMORIES, DreamReport, DreamTimes, Start
from handlers.dream.model import Cause, Wording
from handlers.dream.reader import read_known, read_memories, read_stale
from handlers.dream.writer import NewInsight
from handlers.shared.embedding import Embedding, calibration_of
from handlers.shared.ports import AnyConnection, Commit, Job, Reader, Store
from handlers.shared.thinking import Thinker
from memory.clustering import SAME_TOPIC, Cluster, ClusteringStoppedError, cluster
from memory.insights import KnownInsights, parts_of, write_insight
from memory.judging import judge

CHUNK = 500
"""Clusters that are written at once."""
CHUNK_WITH_MODEL = 10
"""Where a language model puts them in words: a dream that is killed has paid for at most this number in vain."""
WINDOW_HOURS, OVERDUE_HOURS = 48.0, 24.0
"""A dream reads the memories of the first; after the second without one it does not wait until the fleet is idle."""
REDRAWN = 200
"""Insights that are drawn again at once."""

ANSWER_REQUEST = """
update public.memory_requests
set status = $2, result = $3, error = $4, finished_at = clock_timestamp()
where id = $1 and status = 'pending'
"""

NEXT = "select coalesce(max(id), 0) + 1 as next from memoryd.jobs"
BEHIND = "select exists (select from memoryd.jobs where topic = any($1) and id < $2) as behind"
WAIT_SECONDS, LOOK_SECONDS = 5.0, 0.05


class Dreamer:
    """Runs dreams. All durations in hours."""

    def __init__(
        self,
        *,
        store: Store,
        embedding: Embedding,
        thinker: Thinker | None,
        logger: FilteringBoundLogger,
        idle_hours: float,
        every_hours: float,
        overdue_hours: float = OVERDUE_HOURS,
    ) -> None:
        self._store = store
        self._embedding = embedding
        self.thinker = thinker
        self._log = logger
        self._when = DreamTimes(
            idle_hours * 3600, every_hours * 3600, WINDOW_HOURS * 3600, overdue_hours * 3600
        )

    async def due(self) -> bool:
        """Whether the fleet is idle or a dream overdue, and there is something to dream about."""
        return bool(await self._store.fetchval(lease.DUE, *self._when.arguments))

    async def end_dead(self) -> None:
        """Ends a dream whose daemon died: until then its row says running."""
        if await lease.end_dead(self._store):
            self._log.warning("dream_interrupted", reason="its daemon died")

    async def dream(self, start: Start) -> DreamReport | None:
        """Dreams once; None when another dream is running, or an idle one is not due."""
        dream_id = await lease.begin(self._store, start, self._when)
        if dream_id is None:
            return None
        self._log.info("dream_started", dream=str(dream_id), started_by=start)
        began = time.perf_counter()
        report = DreamReport(dream_id, "interrupted")
        try:
            async with lease.renewed(self._store, dream_id) as lost:
                report = await self._dream(dream_id, lost)
        finally:
            await lease.finish(self._store, report)
        counts = asdict(report)
        ms = round((time.perf_counter() - began) * 1000)
        self._log.info("dream_ended", dream=str(counts.pop("dream_id")), ms=ms, **counts)
        return report

    async def _dream(self, dream_id: UUID, lost: asyncio.Event) -> DreamReport:
        report = DreamReport(dream_id, "interrupted")
        wording = Wording(self.thinker)
        read_at = await self._store.fetchval("select now()")
        memories, vectors = await read_memories(self._store, self._when.window_seconds, lost=lost)
        report = replace(report, memories_scanned=len(memories))
        clusters: list[Cluster] = []
        if len(memories) >= MIN_MEMORIES:
            same_topic = (await calibration_of(self._store)).cosine(SAME_TOPIC)
            try:
                clusters = await asyncio.to_thread(
                    cluster, memories, vectors, same_topic=same_topic, should_stop=lost.is_set
                )
            except ClusteringStoppedError:
                return report
        del vectors
        report = replace(report, clusters_found=len(clusters))
        known = await read_known(self._store)
        size = CHUNK if self.thinker is None else CHUNK_WITH_MODEL
        try:
            for start in range(0, len(clusters), size):
                if lost.is_set():
                    return report
                chunk = _Chunk(self._store, dream_id, known, wording, read_at)
                for found in clusters[start : start + size]:
                    for part in parts_of(found):
                        if lost.is_set():
                            return report
                        await chunk.draw(part)
                written = await chunk.write(self._embedding)
                report = replace(report, insights_generated=report.insights_generated + written)
            verdicts = await asyncio.to_thread(judge, known.left(), memories)
            if verdicts:
                await writer.write_verdicts(self._store, verdicts)
                report = replace(report, insights_judged=len(verdicts))
            del memories
            report = replace(report, insights_redrawn=await self._redraw(dream_id, wording, lost))
        finally:
            self._tell(wording)
        if lost.is_set():
            return report
        await writer.count_uses(self._store, dream_id)
        report = replace(report, links_faded=await writer.fade(self._store))
        pruned = int(await self._store.fetchval(writer.PRUNE))
        return replace(report, status="completed", associations_pruned=pruned)

    async def _redraw(self, dream_id: UUID, wording: Wording, lost: asyncio.Event) -> int:
        """Draws insights again whose memories changed or went; those that have nothing to say any more are deleted."""
        total = 0
        while not lost.is_set():
            read_at = await self._store.fetchval("select now()")
            stale = await read_stale(self._store, REDRAWN)
            chunk = _Chunk(self._store, dream_id, KnownInsights(()), wording, read_at)
            empty = [
                one.id for one in stale if one.cluster is None or not await chunk.draw(one.cluster, one.id)
            ]
            total += await chunk.write(self._embedding)
            if empty:
                total += int(await self._store.fetchval(writer.DROP_STALE, empty))
            if len(stale) < REDRAWN:
                break
        return total

    def _tell(self, wording: Wording) -> None:
        for reason, insights in sorted(wording.by_rule.items()):
            self._log.info("insight_by_rule", provider=wording.model, reason=reason, insights=insights)


class _Chunk:
    """Insights that are written together."""

    def __init__(
        self, store: Store, dream_id: UUID, known: KnownInsights, wording: Wording, read_at: datetime
    ) -> None:
        self._store = store
        self._dream_id = dream_id
        self._known = known
        self._wording = wording
        self._read_at = read_at
        self._drawn: list[NewInsight] = []
        self._causes: list[Cause] = []
        self._confirmed: list[UUID] = []

    async def draw(self, found: Cluster, as_id: UUID | None = None) -> bool:
        """Draws the insight of a cluster, as the one with this id; whether there is one."""
        draft = write_insight(found)
        if draft is None:
            return False
        sources_hash = _hash(found)
        insight_id = as_id or self._known.find(draft)
        if insight_id is not None and as_id is None and self._wording.model is not None:
            before = self._known.continued(insight_id)
            if before.written_by == self._wording.model and before.sources_hash == sources_hash:
                self._confirmed.append(insight_id)
                if (beside := self._known.find(replace(draft, category="recommendation"))) is not None:
                    self._confirmed.append(beside)
                return True
        worded = await self._wording.word(found, draft)
        for n, insight in enumerate(worded.insights):
            if n > 0 or insight_id is None:
                insight_id = self._known.find(insight) or uuid4()
            self._drawn.append(NewInsight(insight_id, insight, worded.by, sources_hash))
        self._causes += worded.causes
        return True

    async def write(self, embedding: Embedding) -> int:
        """Writes all that was drawn; how many insights."""
        if self._confirmed:
            await self._store.execute(writer.CONFIRM, self._confirmed, self._dream_id)
        if self._drawn:
            embeddings = await embedding.if_possible(
                {n: one.insight.text for n, one in enumerate(self._drawn)}, patience=None
            )
            await writer.write_insights(
                self._store,
                self._dream_id,
                self._drawn,
                causes=self._causes,
                embeddings=embeddings,
                read_at=self._read_at,
            )
        return len(self._confirmed) + len(self._drawn)


def _hash(found: Cluster) -> bytes:
    """A hash of the memories of a cluster and of their texts."""
    digest = sha256()
    for memory in found.memories:
        digest.update(memory.id.bytes + sha256(f"{memory.kind} {memory.content}".encode()).digest())
    return digest.digest()


class DreamHandler:
    """A request of kind dream: dreams, and answers with the report."""

    def __init__(self, *, reader: Reader, dreamer: Dreamer) -> None:
        self._reader = reader
        self._dreamer = dreamer

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        deadline = time.monotonic() + WAIT_SECONDS
        # A topic that nobody serves has no jobs: "facts" may stand here where its plugin does not.
        await self._until_done(("capture", "facts"), max(job.id for job in jobs), deadline)
        # What became memories has newer jobs.
        [newest] = await self._reader.fetch(NEXT)
        await self._until_done(("index",), newest["next"], deadline)
        report = await self._dreamer.dream("manual")

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            for job in ours:
                await connection.execute(ANSWER_REQUEST, job.ref, *_answer(report))

        return commit

    async def _until_done(self, topics: Sequence[str], before: int, deadline: float) -> None:
        while time.monotonic() < deadline:
            [row] = await self._reader.fetch(BEHIND, topics, before)
            if not row["behind"]:
                return
            await asyncio.sleep(LOOK_SECONDS)


def _answer(report: DreamReport | None) -> tuple[str, str | None, str | None]:
    if report is None:
        return "failed", None, "Another dream is running; see dream_sessions. Ask again when it has ended."
    fields = ", ".join(
        f'"{k}": {v}' if isinstance(v, int) else f'"{k}": "{v}"' for k, v in asdict(report).items()
    )
    return "done", "{" + fields + "}", None
