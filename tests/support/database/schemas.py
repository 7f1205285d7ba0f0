"""A database brought up to date by the role that connects to it, and the proof that it works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from daemon.db.migration_files import MigrationFiles
from daemon.db.migrator import migrate
from daemon.db.plan import Upgrade
from daemon.db.settings import NO_INSTRUCTIONS
from providers.ports import Instructions
from tests.support.content.index import INDEXED_MEMORIES
from tests.support.rows import DIMENSIONS, ask, column, insert, remember
from tests.support.waiting import IDLE, until

EMBEDDER = "local/wordllama-256"
NO_TRIGGERS = """
do $$
declare
    each record;
begin
    for each in
        select t.oid::regclass as name, array(select quote_ident(c.conname) from pg_constraint c
                                              where c.conrelid = t.oid and c.contype = 'f') as keys
        from pg_class t where t.relkind = 'r' and t.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
    loop
        execute format('alter table %s disable trigger user', each.name);
        if each.keys <> '{}' then
            execute format('alter table %s drop constraint %s', each.name,
                           array_to_string(each.keys, ', drop constraint '));
        end if;
    end loop;
end
$$
"""
"""For the rest of a transaction that is undone: no trigger fires and no foreign key holds, as the tables' owner can have it."""


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection for the block."""
    opened = await asyncpg.connect(url)
    try:
        yield opened
    finally:
        await opened.close()


async def apply(
    url: str,
    *,
    dimensions: int = DIMENSIONS,
    embedder: str = EMBEDDER,
    instructions: Instructions = NO_INSTRUCTIONS,
    files: MigrationFiles | None = None,
) -> Upgrade:
    """Migrates; answers what was applied."""
    async with connected(url) as connection:
        return await migrate(
            connection, dimensions=dimensions, embedder=embedder, instructions=instructions, files=files
        )


async def embedded_by(connection: asyncpg.Connection, embedder: str) -> None:
    """Makes an empty migrated database one of another embedder of the same dimensions."""
    await connection.execute(
        "update memoryd.settings set value = to_jsonb($1::text) where key = 'embedder'", embedder
    )


async def lives(connection: asyncpg.Connection) -> None:
    """One command's whole way, as far as SQL can see it, and a dream."""
    command = await ask(connection, "deploy the staging server")
    await until(connection, "select status = 'ready' from agent_commands where id = $1", command)
    assert await connection.fetchval("select id from claim_command('alice')") == command
    await connection.execute("select complete_command($1, 'deployed build 512')", command)
    for text in ("staging server has 8 cores", "staging server is in Oslo"):
        await remember(connection, text, kind="fact", agent_id="_shared")
    await until(connection, IDLE)
    assert len(await column(connection, INDEXED_MEMORIES)) == 3
    assert await connection.fetchval("select count(*) from memory_associations") >= 1
    second = await ask(connection, "deploy the production server")
    await until(connection, "select context like '%build 512%' from agent_commands where id = $1", second)
    assert await connection.fetchval("select count(*) from recall('staging server')") == 3
    await connection.execute(
        "update agent_memory set content = 'staging server moved to Bergen' where content like '%Oslo'"
    )
    request = await insert(connection, "memory_requests", {"kind": "recall", "query": "Bergen"})
    dream = await insert(connection, "memory_requests", {"kind": "dream"})
    await until(
        connection,
        "select count(*) = 2 from memory_requests where id = any($1) and status = 'done'",
        [request, dream],
    )
    await connection.execute("select mark_useful(id, true) from memory_queries")
    await connection.execute("delete from agent_memory where agent_id = '_shared'")
    assert await connection.fetchval("select cleanup_expired_memory()") == 0
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
