"""How the fleet's memory is doing, in one statement: one snapshot, one round trip.

Promise: it only reads, and what it says is true of one moment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from daemon.activity import BYTES_A_DAY
from daemon.db.migration_files import AppliedFile
from daemon.db.plan import schema_trouble
from daemon.db.pool import Database
from daemon.db.server import READ as READ_STANDBY
from daemon.db.server import Standby
from daemon.presence import ALIVE, silence
from handlers.shared.ports import AnyConnection

LARGEST = 5

# A job in a lane is claimed by leasing its lane, any other by moving its own visible_at.
READ = f"""
with jobs as materialized (
    select j.topic, j.created_at,
           case when j.lane is null then j.visible_at <= now()
                else coalesce(l.leased_until <= now() and l.not_before <= now(), true) end as claimable,
           greatest(j.created_at, j.visible_at, l.not_before) as since,
           coalesce(s.value ? j.topic, true) as served
    from memoryd.jobs j
    left join memoryd.settings s on s.key = 'topics'
    left join memoryd.lanes l on l.topic = j.topic and l.lane = j.lane
), dream as materialized (
    select * from public.dream_sessions order by started_at desc limit 1
)
select json_build_object(
    'database', current_database(),
    'postgres', current_setting('server_version'),
    'standby', {READ_STANDBY},
    'daemons', (
        select coalesce(json_agg(json_build_object(
            'id', d.id, 'host', d.host, 'pid', d.pid, 'version', d.version, 'wake_up', d.wake_up,
            'up_seconds', extract(epoch from now() - d.started_at),
            'silent_seconds', extract(epoch from now() - d.seen_at),
            'failing', d.failing, 'alive', {ALIVE}) order by d.started_at, d.id), '[]')
        from memoryd.daemons d),
    'queue', (
        select coalesce(json_agg(q order by q.topic), '[]')
        from (select topic, count(*) as jobs, count(*) filter (where claimable) as claimable, bool_and(served) as served,
                     extract(epoch from now() - min(created_at)) as oldest_seconds
              from jobs group by topic) q),
    'lag_seconds', (select extract(epoch from now() - min(since)) from jobs where claimable and served),
    'dead', (
        select coalesce(json_agg(q order by q.topic), '[]')
        from (select topic, count(*) as jobs, extract(epoch from now() - max(died_at)) as newest_seconds
              from memoryd.dead_letters group by topic) q),
    'memories', (
        select coalesce(json_object_agg(kind, n order by kind), '{{}}')
        from (select kind, count(*) as n from public.agent_memory group by kind) q),
    'commands', (
        select coalesce(json_object_agg(status, n order by status), '{{}}')
        from (select status, count(*) as n from public.agent_commands group by status) q),
    'agents', (select count(*) from public.agents),
    'associations', (select count(*) from public.memory_associations),
    'insights', (select count(*) from public.dream_insights),
    'anchors', (select t.size from memoryd.trail t),
    'anchors_signed', (select coalesce(max(c.size), 0) from memoryd.trail_checkpoints c),
    'dream', (
        select json_build_object(
            'id', d.id, 'started_by', d.started_by, 'status', d.status,
            'started_seconds', extract(epoch from now() - d.started_at),
            'took_seconds', extract(epoch from d.finished_at - d.started_at),
            'memories_scanned', d.memories_scanned, 'clusters_found', d.clusters_found,
            'insights_generated', d.insights_generated, 'associations_pruned', d.associations_pruned,
            'categories', (select coalesce(json_object_agg(category, n order by category), '{{}}')
                           from (select category, count(*) as n from public.dream_insights
                                 where dream_id = d.id group by category) q))
        from dream d),
    'size', json_build_object(
        'bytes', pg_database_size(current_database()),
        'bytes_a_day', ({BYTES_A_DAY}),
        'largest', (
            select json_object_agg(t.name, t.bytes order by t.bytes desc)
            from (select c.relname as name, pg_total_relation_size(c.oid) as bytes from pg_class c
                  where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
                  order by 2 desc limit {LARGEST}) t)),
    'unindexed', (
        select coalesce(json_object_agg(source, n order by source), '{{}}')
        from (select source, count(*) as n from memoryd.unindexed group by source) q),
    'unembedded', (
        select coalesce(json_object_agg(source, n order by source), '{{}}')
        from (select source, count(*) as n from memoryd.entries where code is null group by source) q),
    'migrations', (
        select json_agg(json_build_array(version, name, checksum) order by version) from memoryd.migrations),
    'function_files', (
        select json_object_agg(name, json_build_object('checksum', checksum, 'objects', objects, 'applied_by', applied_by))
        from memoryd.function_files)
)
"""  # noqa: S608 - a constant of ours


@dataclass(frozen=True, slots=True)
class DaemonRow:
    """A daemon as its row tells; `alive`: see `daemon/presence.py`."""

    id: str
    host: str
    pid: int
    version: str
    wake_up: str
    up_seconds: float
    silent_seconds: float
    failing: Mapping[str, str]
    """Parts that have failed and are started again, each with its error."""
    alive: bool


@dataclass(frozen=True, slots=True)
class QueuedTopic:
    """The jobs of a topic; `claimable` are those that only wait for a worker."""

    topic: str
    jobs: int
    claimable: int
    oldest_seconds: float
    served: bool
    """Whether the daemon that started last does such jobs: no, if the topic's plugin was taken away."""

    def __str__(self) -> str:
        waits = "1 job of topic {} waits" if self.jobs == 1 else f"{self.jobs:,} jobs of topic {{}} wait"
        return f"{waits.format(self.topic)}, and the daemon that started last does not serve this topic."


@dataclass(frozen=True, slots=True)
class DeadTopic:
    topic: str
    jobs: int
    newest_seconds: float


@dataclass(frozen=True, slots=True)
class LastDream:
    """The dream that began last; `categories` counts the insights that are still of it."""

    id: str
    started_by: str
    status: str
    started_seconds: float
    took_seconds: float | None
    memories_scanned: int
    clusters_found: int
    insights_generated: int
    associations_pruned: int
    categories: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Size:
    """Of the database. `bytes_a_day`: over the last 30 days; None in the first. `largest`: tables with their indexes."""

    bytes: int
    bytes_a_day: float | None
    largest: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Status:
    """One moment. `lag_seconds`: how long the oldest claimable job of a served topic has waited; None when none waits.

    `schema_trouble` says what is wrong between the database's schema and this code, None when they agree. `standby`: None at
    a primary.
    """

    database: str
    postgres: str
    standby: Standby | None
    schema_version: int
    schema_trouble: str | None
    daemons: tuple[DaemonRow, ...]
    queue: tuple[QueuedTopic, ...]
    lag_seconds: float | None
    dead: tuple[DeadTopic, ...]
    memories: Mapping[str, int]
    commands: Mapping[str, int]
    agents: int
    associations: int
    insights: int
    anchors: int
    """Anchors whose leaf has a position in the trail."""
    anchors_signed: int
    dream: LastDream | None
    size: Size
    unindexed: Mapping[str, int]
    """Rows that the index has not, or not as they are now, by source."""
    unembedded: Mapping[str, int]
    """Passages without an embedding, by source: found by their words."""
    address: str = ""
    """Where the database is, as host:port/name."""


async def read_status(reader: Database | AnyConnection) -> Status:
    """The status now.

    Raises asyncpg.UndefinedTableError where there is no schema yet.
    """
    read: dict[str, Any] = json.loads(await reader.fetchval(READ, silence()))
    ledger = [(version, name, checksum) for version, name, checksum in read["migrations"] or ()]
    files = read["function_files"] or {}
    computed = {
        "schema_version": max((version for version, _, _ in ledger), default=0),
        "schema_trouble": schema_trouble(ledger, {name: AppliedFile(**row) for name, row in files.items()}),
    }
    return TypeAdapter(Status).validate_python(read | computed)
