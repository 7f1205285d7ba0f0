"""What one test leaves, the next one does not find (tests/support/database/reused.py)."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from tests.support.access.isolation import index_world
from tests.support.database.reused import TABLES, Reused
from tests.support.database.servers import Server
from tests.support.rows import ask, column, remember


async def contents(connection: asyncpg.Connection) -> dict[str, list[str]]:
    """All rows of all tables."""
    names = [str(name) for name in await column(connection, TABLES)]
    return {
        name: sorted(map(str, await column(connection, f"select t::text from {name} t"))) for name in names
    }


@pytest.mark.parametrize(
    ("change", "is_emptied"),
    [
        ("update memoryd.settings set value = '1'", True),
        ("delete from memoryd.lanes", True),
        ("set role memoryd_user", True),
        ("begin; delete from memoryd.settings", True),
        ("create function public.mine() returns integer language sql return 1", False),
        ("alter table agent_memory add column mine integer", False),
        ("drop trigger stamp_memory on agent_memory", False),
        ("revoke select on agent_memory from memoryd_user", False),
    ],
)
async def test_a_test_finds_a_database_as_a_new_one(
    server: Server, template: str, tmp_path: Path, change: str, is_emptied: bool
) -> None:
    made = Reused(server, template, tmp_path)
    await made.open()
    new, url = await contents(made.connection), made.url
    await remember(made.connection, "the walrus sleeps")
    await ask(made.connection, "wake the walrus")
    await index_world(made.connection)
    await made.connection.execute(change)
    await made.empty()
    await made.open()
    assert (made.url == url) == is_emptied
    assert await contents(made.connection) == new
    await made.close()
