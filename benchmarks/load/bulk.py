"""Loading rows in bulk, searchable: what the daemon writes row by row, by statements that say the same of many.

Entries are written by the daemon's own function; statistics are counted at once; a daemon fills the lexicon, and its builder
makes the lists of a big index.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from pgvector import Vector

from benchmarks.corpus import Corpus
from benchmarks.harness import daemon, until_idle
from daemon.db.indexes import build_dense_indexes
from daemon.db.pool import Database
from daemon.logs import get_logger
from providers.local_embedder import LocalEmbedder

BATCH = 5_000
SESSION = 20
"""Messages of a session."""
SOURCES = {"agent_memory": "memory", "conversation_messages": "conversation"}

# The indexes are made once, after the rows.
TAKE_INDEXES = """
select c.oid::regclass::text as name, pg_get_indexdef(i.indexrelid) as definition
from pg_index i
join pg_class c on c.oid = i.indexrelid
where i.indrelid in ($1::regclass, 'memoryd.entries'::regclass) and not i.indisprimary
  and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
"""

STAGE = """
create unlogged table if not exists bench_rows (
    id uuid, user_id uuid, session_id uuid, message_index integer, speaker text, content text, created_at timestamptz,
    embedding vector)
"""

SESSIONS = """
insert into conversation_sessions (id, user_id, created_at)
select session_id, (array_agg(user_id))[1], min(created_at) from bench_rows group by session_id
on conflict do nothing
"""

FILL = {
    "agent_memory": """
insert into agent_memory (id, agent_id, user_id, kind, ttl_hours, content, created_at)
select id, 'assistant', user_id, 'fact', null, content, created_at from bench_rows
""",
    "conversation_messages": """
insert into conversation_messages (id, session_id, user_id, message_index, role, speaker, content, created_at)
select id, session_id, user_id, message_index, 'user', speaker, content, created_at from bench_rows
""",
}

INDEX = """
select memoryd.insert_entries($1, array_agg(s.id order by s.id), array_agg(s.scope order by s.id),
                              array_agg(r.id order by s.id), array_agg(r.content order by s.id),
                              array_agg(r.embedding order by s.id))
from bench_rows r join memoryd.searchable s on s.source = $1 and s.id = r.id
"""

COUNT = """
truncate memoryd.lexeme_statistics, memoryd.scope_statistics, memoryd.speaker_statistics, memoryd.lexeme_changes;
insert into memoryd.lexeme_changes (scope, source, language, speaker, words, lexemes, sign)
select scope, source, language, btrim(speaker), length, strip(lexemes), 1 from memoryd.entries;
select memoryd.fold_lexeme_changes(null);
"""
BUILT = "select count(*) from memoryd.settings where key = 'dense_index.entries'"


class Rows:
    """Makes the rows, users taking turns session by session."""

    def __init__(self, *, users: Sequence[uuid.UUID], seed: int) -> None:
        self._corpus = Corpus(seed)
        self._ids = random.Random(seed)
        self._users = users
        self._embedder = LocalEmbedder()
        self._begin = datetime.now(UTC) - timedelta(days=300)
        self._made = 0

    async def make(self, count: int) -> list[tuple[Any, ...]]:
        """Rows for the stage; `count` is a multiple of SESSION, or what is made last."""
        texts = [self._corpus.text() for _ in range(count)]
        vectors = await self._embedder.embed(texts)
        rows: list[tuple[Any, ...]] = []
        for start in range(0, count, SESSION):
            end = min(start + SESSION, count)
            user = self._users[self._made // SESSION % len(self._users)]
            session = self._id()
            for place, vector in enumerate(vectors[start:end]):
                born = self._begin + timedelta(seconds=20 * self._made)
                text = texts[start + place]
                speaker = ("Ada", "Ben")[place % 2]
                rows.append((self._id(), user, session, place, speaker, text, born, Vector(vector)))
                self._made += 1
        return rows

    def _id(self) -> uuid.UUID:
        return uuid.UUID(int=self._ids.getrandbits(128))


async def load(connection: asyncpg.Connection, table: str, rows: Rows, count: int) -> None:
    """Adds `count` rows, searchable; then statistics and lists of all."""
    await connection.execute("set session_replication_role = replica")
    await connection.execute("set client_min_messages = warning")
    indexes = await connection.fetch(TAKE_INDEXES, f"public.{table}")
    for index in indexes:
        await connection.execute(f"drop index {index['name']}")
    await connection.execute(STAGE)
    making = asyncio.create_task(rows.make(min(BATCH, count)))
    while count > 0:
        batch = await making
        count -= len(batch)
        making = asyncio.create_task(rows.make(min(BATCH, count)))
        await connection.execute("truncate bench_rows")
        await connection.copy_records_to_table("bench_rows", records=batch)
        if table == "conversation_messages":
            await connection.execute(SESSIONS)
        await connection.execute(FILL[table])
        await connection.execute("analyze bench_rows")
        await connection.execute(INDEX, SOURCES[table])
    await making
    for index in indexes:
        await connection.execute(index["definition"])
    await connection.execute("set session_replication_role = origin")


async def learn(connection: asyncpg.Connection, url: str, *, lists_from: int) -> None:
    """Statistics, lexicon, lists."""
    await connection.execute(COUNT)
    await connection.execute("select memoryd.learn_words($1)", sorted(Corpus(1).words))
    async with daemon(url):
        await until_idle(connection)
    opened = await Database.open(url, size=3, pooled=False, logger=get_logger())
    rows = await connection.fetchval("select count(*) from memoryd.entries")
    while True:
        await build_dense_indexes(opened, get_logger(), min_rows=lists_from)
        if rows < lists_from or await connection.fetchval(BUILT):
            break
        # The daemon has begun to build, and was ended: its lease runs out.
        await asyncio.sleep(5)
    await opened.close()
    await connection.execute("vacuum (analyze)")
    await connection.execute("checkpoint")
