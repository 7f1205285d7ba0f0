"""Periodic work of the core: expired memories, conversations and knowledge, answers, overdue commands, old rows, indexes.

Promise: each transaction deletes a bounded number of rows; what somebody has locked goes the next time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

from structlog.typing import FilteringBoundLogger

from daemon.activity import keep_history, measure_queue
from daemon.db.indexes import build_dense_indexes
from daemon.db.pool import Database
from daemon.plugins import Core
from daemon.schedule import Tick
from daemon.settings import Settings

CLEANUP_SECONDS = 300.0
OVERDUE_EVERY_SECONDS = 60.0
OUTDATED_EVERY_SECONDS = 5.0
MEASURE_EVERY_SECONDS = 60.0
DENSE_EVERY_SECONDS = 30.0
SWEEP_EVERY_SECONDS = 3600.0
CLEANUP_ROWS = 10_000
MARKS = 1000
RETRIEVALS = 1000
ANSWERS = 100
"""Answers that one transaction deletes: each may have hundreds of megabytes."""
DEAD_LETTER_DAYS = 30
DELETED_DAYS = 30
"""How long a document that a person deleted can be restored."""
EMBEDDING_DAYS = 30
AUDIT_DAYS = 90
"""For what support has read, and for rows of before, where the audit trail is off."""
HISTORY_ROWS = 1000
"""Rows that one transaction deletes: a command may have megabytes, a run many steps."""

SWEEP_AUDIT = "select coalesce(memoryd.sweep_audit($1), 0) as rows"
EXPIRE_MEMORIES = "select public.cleanup_expired_memory($1::integer) as memories"
EXPIRE_CONVERSATIONS = "select messages, sessions from memoryd.expire_conversations($1, $2)"
PURGE_DOCUMENTS = "select memoryd.purge_documents($1) as documents"
PURGE_ENTRIES = "select memoryd.purge_entries($1) as entries"
ARCHIVE_KNOWLEDGE = (
    "select coalesce(public.expire_low_confidence() + memoryd.archive_resolved(), 0) as entries"
)
COUNT_RETRIEVED = "select memoryd.count_retrieved($1) as retrievals"

REMOVE_OUTDATED = "select marks, texts from memoryd.remove_outdated($1)"

# These answers are copies of all that is kept about a user. They are for the client that asked, not for later readers of the
# table. Whoever asked for an embedding deletes the request; one that is left behind was given up.
EXPIRE_ANSWERS = """
with given_up as (
    delete from public.memory_requests
    where id = any(array(
        select r.id from public.memory_requests r
        where r.kind = 'embed' and r.created_at < now() - interval '1 minute'
        limit $1
        for update skip locked))
    returning 1
), expired as (
    update public.memory_requests
    set result = null
    where id in (
        select r.id from public.memory_requests r
        where r.kind in ('export', 'erase') and r.result is not null and r.finished_at < now() - interval '1 hour'
        order by r.finished_at
        limit $1
        for update skip locked
    )
    returning 1
)
select (select count(*) from expired) as requests, (select count(*) from given_up) as questions
"""

FAIL_OVERDUE = """
with overdue as (
    update public.agent_commands
    set status = 'failed', finished_at = now(),
        error = 'never completed: complete_command was not called within ' || $1::text || ' hours'
    where status = 'running' and started_at < now() - make_interval(secs => $1::double precision * 3600)
    returning 1
)
select count(*) from overdue
"""

SWEEP = """
with queries as (
    delete from public.memory_queries
    where id = any(array(
        select q.id from public.memory_queries q
        where q.query_time < now() - make_interval(secs => $1::double precision * 86400)
        -- What somebody is judging at this moment goes the next time.
        for update skip locked))
    returning 1
), dead as (
    delete from memoryd.dead_letters where died_at < now() - make_interval(days => $2) returning 1
), kept as (
    delete from memoryd.embeddings where used_at < now() - make_interval(days => $3) returning 1
), requests as (
    delete from public.memory_requests
    where created_at < now() - make_interval(secs => $1::double precision * 86400) and status <> 'pending' returning 1
), daemons as (
    delete from memoryd.daemons where seen_at < now() - interval '1 day' returning 1
), lanes as (
    delete from memoryd.lanes l
    where l.topic not in ('lock', 'tick') and l.leased_until < now() - interval '1 hour' and l.not_before < now()
      and not exists (select from memoryd.jobs j where j.topic = l.topic and j.lane = l.lane)
    returning 1
)
select (select count(*) from queries) as queries, (select count(*) from dead) as dead_letters,
       (select count(*) from kept) as embeddings, (select count(*) from requests) as requests
"""

# What is over: commands of which there is no memory, runs with their steps, and dreams of which there is no insight. A row that
# somebody has locked goes the next time. The newest dream says when the next one is due.
PRUNE = """
with commands as (
    delete from public.agent_commands
    where id = any(array(
        select c.id from public.agent_commands c
        where c.created_at < now() - make_interval(secs => $1::double precision * 86400)
          and c.status in ('completed', 'failed', 'cancelled')
          and c.finished_at < now() - make_interval(secs => $1::double precision * 86400)
          and not exists (select from public.agent_memory m where m.command_id = c.id)
          and not exists (select from memoryd.jobs j where j.ref = c.id)
        order by c.created_at
        limit $2
        for update skip locked))
    returning 1
), runs as (
    delete from public.agent_sessions
    where id = any(array(
        select s.id from public.agent_sessions s
        where s.status in ('completed', 'error', 'cancelled')
          and greatest(s.completed_at, s.updated_at) < now() - make_interval(secs => $1::double precision * 86400)
        order by s.updated_at
        limit $2
        for update skip locked))
    returning 1
), dreams as (
    delete from public.dream_sessions
    where id = any(array(
        select d.id from public.dream_sessions d
        where d.status <> 'running' and d.finished_at < now() - make_interval(secs => $1::double precision * 86400)
          and d.finished_at < (select max(n.finished_at) from public.dream_sessions n where n.status = 'completed')
          and not exists (select from public.dream_insights i where i.dream_id = d.id)
        order by d.finished_at
        limit $2
        for update skip locked))
    returning 1
)
select (select count(*) from commands) as commands, (select count(*) from runs) as runs,
       (select count(*) from dreams) as dreams
"""


class Upkeep:
    """The work of the ticks. Each says how much it did."""

    def __init__(self, database: Database, settings: Settings, *, logger: FilteringBoundLogger) -> None:
        self._database = database
        self._settings = settings
        self._log = logger

    async def expire_memories(self) -> int:
        """Deletes expired memories."""
        if total := await self._clean(EXPIRE_MEMORIES, limit=CLEANUP_ROWS):
            self._log.info("memories_expired", **total)
        return total.total()

    async def expire_conversations(self) -> int:
        """Deletes messages past their retention, and sessions as old that are empty."""
        minutes = self._settings.conversation_retention_minutes
        if total := await self._clean(EXPIRE_CONVERSATIONS, minutes, limit=CLEANUP_ROWS):
            self._log.info("conversations_expired", **total)
        return total.total()

    async def archive_knowledge(self) -> int:
        """Archives unused learning entries of low confidence, and entries that were resolved long ago."""
        if counted := await self._clean(COUNT_RETRIEVED, limit=RETRIEVALS):
            self._log.info("knowledge_uses_counted", **counted)
        if archived := await self._clean(ARCHIVE_KNOWLEDGE):
            self._log.info("knowledge_archived", **archived)
        return counted.total() + archived.total()

    async def expire_answers(self) -> int:
        """Deletes the results of exports and erasures after an hour, and requests for embeddings after a minute."""
        if total := await self._clean(EXPIRE_ANSWERS, limit=ANSWERS):
            self._log.info("answers_expired", **total)
        return total.total()

    async def remove_outdated(self) -> int:
        """Removes lines of deleted, replaced or reworded rows from stored contexts and answers."""
        marks = texts = 0
        while True:
            [taken] = await self._database.fetch(REMOVE_OUTDATED, MARKS)
            marks += taken["marks"]
            texts += taken["texts"]
            if taken["marks"] < MARKS:
                break
        if texts:
            self._log.info("outdated_texts_cut", texts=texts)
        return int(marks)

    async def fail_overdue_commands(self) -> int:
        """Fails commands that their executor never completed; the failure is remembered like any other."""
        hours = self._settings.command_timeout_hours
        failed = int(await self._database.fetchval(FAIL_OVERDUE, hours))
        if failed:
            self._log.warning("commands_overdue", commands=failed, hours=hours)
        return failed

    async def purge_documents(self) -> int:
        """Deletes for good what people deleted in the replica, when it can be restored no more."""
        if documents := await self._clean(PURGE_DOCUMENTS, DELETED_DAYS):
            self._log.info("documents_purged", **documents)
        if entries := await self._clean(PURGE_ENTRIES, DELETED_DAYS):
            self._log.info("entries_purged", **entries)
        return documents.total() + entries.total()

    async def sweep(self) -> int:
        """Deletes logs of retrievals, answered requests, dead letters, kept embeddings and leases past their time."""
        await keep_history(self._database)
        days = self._settings.query_log_days
        if swept := await self._clean(SWEEP, days, DEAD_LETTER_DAYS, EMBEDDING_DAYS):
            self._log.info("old_rows_swept", **swept)
        if audited := await self._clean(SWEEP_AUDIT, self._settings.audit_days or AUDIT_DAYS):
            self._log.info("audit_swept", **audited)
        return swept.total() + audited.total()

    async def prune_history(self) -> int:
        """Deletes commands, runs and dreams that are long over."""
        if total := await self._clean(PRUNE, self._settings.history_days, limit=HISTORY_ROWS):
            self._log.info("history_pruned", **total)
        return total.total()

    async def _clean(self, sql: str, *args: object, limit: int | None = None) -> Counter[str]:
        """Runs a statement; returns how much it did, by kind, and nothing where it did nothing.

        `limit`: the most rows of a kind in one transaction, its last argument; it runs until there are fewer.
        """
        total: Counter[str] = Counter()
        while True:
            [row] = await self._database.fetch(sql, *args, *(() if limit is None else (limit,)))
            total.update(dict(row))
            if limit is None or max(row) < limit:
                return total if any(total.values()) else Counter()


def build_ticks(
    core: Core, topics: Sequence[str], *, build_turn: Callable[[], AbstractAsyncContextManager[None]]
) -> Iterable[Tick]:
    """The ticks of the core. `topics`: those whose queues are measured; `build_turn`: what an index waits for."""
    database, logger = core.database, core.logger
    upkeep = Upkeep(database, core.settings, logger=logger)
    return (
        Tick("expire_memories", CLEANUP_SECONDS, upkeep.expire_memories),
        Tick("expire_conversations", CLEANUP_SECONDS, upkeep.expire_conversations),
        Tick("archive_knowledge", CLEANUP_SECONDS, upkeep.archive_knowledge),
        Tick("expire_answers", CLEANUP_SECONDS, upkeep.expire_answers),
        Tick("remove_outdated", OUTDATED_EVERY_SECONDS, upkeep.remove_outdated),
        Tick("fail_overdue_commands", OVERDUE_EVERY_SECONDS, upkeep.fail_overdue_commands),
        Tick("measure_queue", MEASURE_EVERY_SECONDS, lambda: measure_queue(database, topics)),
        Tick(
            "build_dense_indexes",
            DENSE_EVERY_SECONDS,
            lambda: build_dense_indexes(database, logger, turn=build_turn),
        ),
        Tick("purge_documents", SWEEP_EVERY_SECONDS, upkeep.purge_documents),
        Tick("sweep", SWEEP_EVERY_SECONDS, upkeep.sweep),
        Tick("prune_history", SWEEP_EVERY_SECONDS, upkeep.prune_history),
    )
