"""What the database says for the metrics, in one statement.

Of the daemons of a database one reports this: the one that has the lease. It is taken by whichever is asked first, and
renewed whenever it is asked again. So counts are not doubled where daemons are added up, N daemons cost no more queries than
one, and a daemon that nobody scrapes never has it.

Promise: it costs some milliseconds, also while much waits (`daemon/queue/backlog.py`). The rows of the sources are the
estimates of the server's statistics.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.lease import Lease
from daemon.db.pool import Database
from daemon.measures import Measures
from daemon.presence import ALIVE, silence
from daemon.queue.backlog import DEPTH, ESTIMATED_ROWS, EXACT, LAG

GIVE_BACK_SECONDS = 2.0
LEASE_SECONDS = 60.0
"""Longer than the usual pause between two scrapes, so that the daemon that reports stays the same."""
TRY_SECONDS = 10.0
"""Between two tries to become that one."""

QUEUE = f"""
    'jobs', (select coalesce(json_agg(json_build_array(d.topic, d.state, d.jobs)), '[]') from ({DEPTH}) d),
    'lag', (select coalesce(json_object_agg(l.topic, l.seconds), '{{}}') from ({LAG}) l),
    'dead', (select coalesce(json_object_agg(t.topic, d.letters), '{{}}')
             from unnest($1::text[]) as t(topic)
             cross join lateral (
                 select count(*) as letters
                 from (select from memoryd.dead_letters d where d.topic = t.topic limit {EXACT}) d) d
             where d.letters > 0)"""  # noqa: S608 - a constant of ours
"""The fields of an object for the topics $1: their jobs by state, how long they wait, and their dead letters."""
READ = f"""
select json_build_object({QUEUE},
    'unindexed', (select greatest(count(*), case when count(*) = {EXACT} then (
                      select c.reltuples from pg_class c where c.oid = 'memoryd.unindexed'::regclass) end)
                  from (select from memoryd.unindexed w order by w.scope, w.id limit {EXACT}) u),
    'unembedded', (select greatest(count(*), case when count(*) = {EXACT} then (
                       select c.reltuples from pg_class c where c.oid = 'memoryd.entries_unembedded'::regclass) end)
                   from (select from memoryd.entries e where e.code is null order by e.scope, e.id limit {EXACT}) e),
    'rows', (select json_object_agg(s.name, {ESTIMATED_ROWS})
             from memoryd.sources() s
             join pg_class c on c.oid = to_regclass('public.' || quote_ident(s.table_name))),
    'daemons', (select json_build_array(count(*) filter (where alive), count(*) filter (where not alive))
                from (select {ALIVE.replace("$1", "$2")} as alive from memoryd.daemons d) d),
    'dream_age', (select extract(epoch from now() - d.finished_at) from public.dream_sessions d
                  where d.status = 'completed' order by d.finished_at desc limit 1),
    'server_connections', json_build_array(
        (select sum(numbackends) from pg_stat_database), current_setting('max_connections')::integer)
)
"""  # noqa: S608 - a constant of ours


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer. `shared`: what `READ` says; None where another daemon reports it, or the database is away."""

    is_up: bool
    shared: dict[str, Any] | None = None


SILENT = Reading(False)
"""No answer."""


class Readings:
    """Asks the database, if this daemon is the one that reports it."""

    def __init__(self, database: Database, topics: Sequence[str], measures: Measures) -> None:
        self._topics = list(topics)
        self._database = database
        self._measures = measures
        self._lease = Lease("metrics", LEASE_SECONDS)
        self._token: int | None = None
        self._again = 0.0

    async def read(self) -> Reading:
        began = time.perf_counter()
        try:
            if not await self._reports():
                await self._database.fetchval("select 1")
                return Reading(True)
            return Reading(True, json.loads(await self._database.fetchval(READ, self._topics, silence())))
        except DATABASE_FAULTS:
            return SILENT
        finally:
            self._measures.readings.observe(time.perf_counter() - began)

    async def close(self) -> None:
        """Lets another daemon report."""
        if self._token is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(GIVE_BACK_SECONDS):
                    await self._lease.give_back(self._database, self._token)

    async def _reports(self) -> bool:
        now = time.monotonic()
        if now < self._again:
            return self._token is not None
        if self._token is None or not await self._lease.renew(self._database, self._token):
            self._token = await self._lease.take(self._database)
        # Each of these is a commit, which may take longer than all the rest.
        self._again = now + (TRY_SECONDS if self._token is None else LEASE_SECONDS / 2)
        return self._token is not None
