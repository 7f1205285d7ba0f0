"""A dream: looks over the memories of the last two days, clusters them, writes what they say together, prunes.

Promise: one dream at a time across daemons, as a row under a unique index with a lease, so that neither a pooler nor a
kill -9 can break it. An idle dream ends when a command or a load arrives. The same cluster seen again updates its insight.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal
from uuid import UUID

import numpy as np
from structlog.typing import FilteringBoundLogger

from handlers.shared.embedding import Embedding
from handlers.shared.ports import AnyConnection, Commit, Job, Store
from memory.clustering import Cluster, ClusteringStoppedError, Dreamable, cluster
from memory.insights import Insight, KnownInsight, KnownInsights, write_insight
from providers.ports import LanguageModel, Rejected, Unavailable

FEWEST_MEMORIES = 3
PAGE = 5000
LEASE_SECONDS = 20.0
"""Shorter than a claim: when a killed daemon's request is taken up again, its dream has ended."""
CHUNK = 500
MODEL_MEMORIES = 30
"""Memories of one cluster that a language model is shown."""

_DUE = """
       not exists (select from public.agent_commands c
                   where c.created_at > now() - make_interval(secs => $1) and c.created_at <= now())
   and not exists (select from public.agent_commands c where c.status = 'running')
   and not exists (select from public.dream_sessions d where d.status = 'completed'
                   and d.finished_at > now() - make_interval(secs => $2))
   and not exists (select from public.dream_sessions d where d.status = 'running' and d.lease_until > now())
   and (select count(*) from (select from public.agent_memory m
                              where m.created_at at time zone 'utc'
                                    > (now() - make_interval(secs => $3)) at time zone 'utc'
                              limit $4) m) = $4
   and not memoryd.is_busy()
"""
DUE = f"select {_DUE}"

# Beginnings and ends read the clock once they hold this: one that waits for another to be committed is dated after it.
ALONE = "select memoryd.lock('dream_sessions')"

END_DEAD = """
update public.dream_sessions
set status = 'interrupted', finished_at = clock_timestamp()
where status = 'running' and lease_until < now()
"""
FIND_DEAD = (
    "select exists (select from public.dream_sessions where status = 'running' and lease_until < now())"
)

BEGIN = """
insert into public.dream_sessions (trigger, started_at, lease_until)
values ('manual', clock_timestamp(), now() + make_interval(secs => $1))
on conflict do nothing
returning id
"""

# Asked once more: since this daemon found a dream due, another may have dreamt it from beginning to end.
BEGIN_IDLE = f"""
insert into public.dream_sessions (trigger, started_at, lease_until)
select 'idle', clock_timestamp(), now() + make_interval(secs => $5)
where {_DUE}
on conflict do nothing
returning id
"""

# False when the dream is no longer ours, or when it was an idle one and somebody has work for the fleet.
HOLD = """
update public.dream_sessions d
set lease_until = now() + make_interval(secs => $2)
where d.id = $1
  and d.status = 'running'
  and (d.trigger = 'manual'
       or coalesce((select max(c.created_at) from public.agent_commands c where c.created_at <= now())
                <= d.started_at, true)
          and not exists (select from public.agent_commands c where c.status = 'running')
          and not memoryd.is_busy())
returning 1
"""

READ_PAGE = """
select m.id, m.agent_id, m.user_id, m.kind, left(m.content, 600) as content, m.keywords, m.created_at, m.embedding
from public.agent_memory m
where m.created_at at time zone 'utc' > $1::timestamptz at time zone 'utc'
  and (m.created_at at time zone 'utc', m.id) > ($2::timestamptz at time zone 'utc', $3)
  and (m.expires_at is null or m.expires_at > now())
  and not exists (select from public.memory_settings s where s.user_id = m.user_id and not s.memory_enabled)
order by m.created_at at time zone 'utc', m.id
limit $4
"""

READ_KNOWN = """
select id, category, user_id, source_memories
from public.dream_insights
where generated_at > now() - interval '30 days'
"""

WRITE_INSIGHTS = """
insert into public.dream_insights
    (id, agent_id, user_id, insight, source_memories, category, confidence, embedding, dream_id)
select coalesce(n.id, gen_random_uuid()), n.agent_id, n.user_id, n.insight,
       array(select jsonb_array_elements_text(n.sources)::uuid), n.category, n.confidence, n.embedding, $9
from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::jsonb[], $6::text[], $7::double precision[], $8::vector[])
     as n(id, agent_id, user_id, insight, sources, category, confidence, embedding)
on conflict (id) do update
set agent_id = excluded.agent_id,
    insight = excluded.insight,
    category = excluded.category,
    source_memories = excluded.source_memories,
    confidence = excluded.confidence,
    embedding = excluded.embedding,
    generated_at = now(),
    dream_id = excluded.dream_id
"""

# Locked, so that none of them is gone when the link's keys are checked. What a model said is not made anew from words alone.
WRITE_CAUSES = """
with memories as materialized (
    select m.id from public.agent_memory m where m.id = any($1::uuid[] || $2::uuid[]) order by m.id for key share
)
insert into public.memory_associations (memory_id, related_memory_id, association_type, strength)
select n.effect, n.cause, 'causal', 0.5
from unnest($1::uuid[], $2::uuid[]) as n(effect, cause)
where n.effect in (select m.id from memories m)
  and n.cause in (select m.id from memories m)
order by n.effect, n.cause
on conflict (memory_id, related_memory_id) do update
set association_type = 'causal', automatic = false, updated_at = now()
"""

PRUNE = """
with pruned as (
    delete from public.memory_associations
    where id = any(array(
        select a.id from public.memory_associations a where a.strength < 0.15 for update skip locked))
    returning 1
)
select count(*) from pruned
"""

FINISH = """
update public.dream_sessions
set status = $2, finished_at = clock_timestamp(), memories_scanned = $3, clusters_found = $4, insights_generated = $5,
    associations_pruned = $6
where id = $1 and status = 'running'
"""

ANSWER_REQUEST = """
update public.memory_requests
set status = $2, result = $3, error = $4, finished_at = clock_timestamp()
where id = $1 and status = 'pending'
"""

Trigger = Literal["idle", "manual"]


@dataclass(frozen=True, slots=True)
class DreamReport:
    """What a dream saw and wrote."""

    dream_id: UUID
    status: Literal["completed", "interrupted"]
    memories_scanned: int = 0
    clusters_found: int = 0
    insights_generated: int = 0
    associations_pruned: int = 0


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
        self._window = window_hours * 3600
        self._when = (idle_hours * 3600, every_hours * 3600, self._window, FEWEST_MEMORIES)

    async def due(self) -> bool:
        """Whether the fleet is idle, the last dream long enough ago, and there is something to dream about."""
        return bool(await self._store.fetchval(DUE, *self._when))

    async def end_dead(self) -> None:
        """Ends a dream whose daemon died: until then it stands as running."""
        if not await self._store.fetchval(FIND_DEAD):
            return
        async with self._store.transaction() as connection:
            await connection.execute(ALONE)
            if await connection.fetch(f"{END_DEAD} returning id"):
                self._log.warning("dream_interrupted", reason="its daemon died")

    async def dream(self, trigger: Trigger) -> DreamReport | None:
        """Dreams once; None when another dream is running, or an idle one is not due."""
        async with self._store.transaction() as connection:
            await connection.execute(ALONE)
            await connection.execute(END_DEAD)
            if trigger == "manual":
                dream_id = await connection.fetchval(BEGIN, LEASE_SECONDS)
            else:
                dream_id = await connection.fetchval(BEGIN_IDLE, *self._when, LEASE_SECONDS)
        if dream_id is None:
            return None
        self._log.info("dream_started", dream=str(dream_id), trigger=trigger)
        report = DreamReport(dream_id, "interrupted")
        try:
            async with self._held(dream_id) as lost:
                report = await self._dream(dream_id, lost)
        finally:
            await self._finish(report)
        self._log.info(
            "dream_ended", **{k: str(v) if k == "dream_id" else v for k, v in asdict(report).items()}
        )
        return report

    @asynccontextmanager
    async def _held(self, dream_id: UUID) -> AsyncIterator[asyncio.Event]:
        """Renews the lease; the event is set when the dream must end."""
        lost = asyncio.Event()

        async def hold() -> None:
            while await self._store.fetchval(HOLD, dream_id, LEASE_SECONDS):
                await asyncio.sleep(1.0)
            lost.set()

        holding = asyncio.create_task(hold())
        holding.add_done_callback(lambda _task: lost.set())
        try:
            yield lost
        finally:
            holding.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await holding

    async def _dream(self, dream_id: UUID, lost: asyncio.Event) -> DreamReport:
        report = DreamReport(dream_id, "interrupted")
        memories, vectors = await self._read(lost)
        report = replace(report, memories_scanned=len(memories))
        clusters: list[Cluster] = []
        if len(memories) >= FEWEST_MEMORIES:
            try:
                clusters = await asyncio.to_thread(cluster, memories, vectors, should_stop=lost.is_set)
            except ClusteringStoppedError:
                return report
        report = replace(report, clusters_found=len(clusters))
        known = KnownInsights(
            KnownInsight(r["id"], r["category"], r["user_id"], frozenset(r["source_memories"]))
            for r in await self._store.fetch(READ_KNOWN)
        )
        for start in range(0, len(clusters), CHUNK):
            if lost.is_set():
                return report
            written = await self._write(dream_id, clusters[start : start + CHUNK], known, lost)
            report = replace(report, insights_generated=report.insights_generated + written)
        if lost.is_set():
            return report
        pruned = await self._store.fetchval(PRUNE)
        return replace(report, status="completed", associations_pruned=pruned)

    async def _read(self, lost: asyncio.Event) -> tuple[list[Dreamable], Any]:
        since = await self._store.fetchval("select now() - make_interval(secs => $1)", self._window)
        memories: list[Dreamable] = []
        vectors: list[Any] = []
        last_time, last_id = since, UUID(int=0)
        while not lost.is_set():
            page = await self._store.fetch(READ_PAGE, since, last_time, last_id, PAGE)
            memories += [
                Dreamable(
                    id=r["id"],
                    agent_id=r["agent_id"],
                    user_id=r["user_id"],
                    kind=r["kind"],
                    content=r["content"],
                    keywords=tuple(r["keywords"]),
                    created_at=r["created_at"],
                )
                for r in page
            ]
            vectors += [None if r["embedding"] is None else r["embedding"].to_numpy() for r in page]
            if len(page) < PAGE:
                break
            last_time, last_id = page[-1]["created_at"], page[-1]["id"]
        return memories, _matrix(vectors)

    async def _write(
        self, dream_id: UUID, clusters: Sequence[Cluster], known: KnownInsights, lost: asyncio.Event
    ) -> int:
        insights: list[Insight] = []
        causes: list[tuple[UUID, UUID]] = []
        for found in clusters:
            insight = write_insight(found)
            if insight is None:
                continue
            if self._model is None or lost.is_set():
                insights.append(insight)
            else:
                insights += await self._by_model(found, insight, causes)
        if not insights:
            return 0
        embeddings = await self._embedding.if_possible(
            {n: i.text for n, i in enumerate(insights)}, patience=None
        )
        async with self._store.transaction() as connection:
            await connection.execute(
                WRITE_INSIGHTS,
                [known.find(i) for i in insights],
                [i.agent_id for i in insights],
                [i.user_id for i in insights],
                [i.text for i in insights],
                ["[" + ",".join(f'"{m}"' for m in i.source_memories) + "]" for i in insights],
                [i.category for i in insights],
                [i.confidence for i in insights],
                [embeddings.get(n) for n in range(len(insights))],
                dream_id,
            )
            if causes:
                unique = sorted(set(causes))
                await connection.execute(WRITE_CAUSES, [e for e, _ in unique], [c for _, c in unique])
        return len(insights)

    async def _by_model(
        self, found: Cluster, draft: Insight, causes: list[tuple[UUID, UUID]]
    ) -> list[Insight]:
        """The model's words for the rule's insight, and its recommendation; the rule's own where the model has none."""
        assert self._model is not None
        shown = found.memories[-MODEL_MEMORIES:]
        try:
            written = await self._model.insight([m.content for m in shown], draft.text)
        except (Unavailable, Rejected) as error:
            self._log.info("insight_by_rule", provider=error.provider, error=type(error).__name__)
            return [draft]
        causes += [(shown[effect].id, shown[cause].id) for cause, effect in written.causal]
        insights = [replace(draft, text=written.text)]
        if written.recommendation:
            insights.append(replace(draft, category="recommendation", text=written.recommendation))
        return insights

    async def _finish(self, report: DreamReport) -> None:
        async with self._store.transaction() as connection:
            await connection.execute(ALONE)
            await connection.execute(
                FINISH,
                report.dream_id,
                report.status,
                report.memories_scanned,
                report.clusters_found,
                report.insights_generated,
                report.associations_pruned,
            )


class DreamHandler:
    """A request of kind dream: dreams at once, and answers with the report."""

    def __init__(self, *, dreamer: Dreamer) -> None:
        self._dreamer = dreamer

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Dreams once for all of the batch."""
        report = await self._dreamer.dream("manual")

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            for job in ours:
                await connection.execute(ANSWER_REQUEST, job.ref, *_answer(report))

        return commit


def _answer(report: DreamReport | None) -> tuple[str, str | None, str | None]:
    if report is None:
        return "failed", None, "Another dream is running; see dream_sessions. Ask again when it has ended."
    fields = ", ".join(
        f'"{k}": {v}' if isinstance(v, int) else f'"{k}": "{v}"' for k, v in asdict(report).items()
    )
    return "done", "{" + fields + "}", None


def _matrix(vectors: Sequence[Any]) -> Any:
    """Rows as one float32 array, NaN where a memory has no embedding yet; None when none has."""
    width = next((len(v) for v in vectors if v is not None), None)
    if width is None:
        return None
    matrix = np.full((len(vectors), width), np.nan, dtype=np.float32)
    for row, vector in enumerate(vectors):
        if vector is not None:
            matrix[row] = vector
    return matrix
