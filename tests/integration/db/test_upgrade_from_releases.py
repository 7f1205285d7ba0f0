"""A database of each released version, upgraded to this one while others write and read: nothing is lost, nothing stands still.

Each backup in tests/data was made at its release (tests/support/database/release.py). A numbered file that was changed since is
refused here: a change of the schema is a new file.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.content.finished import all_done, all_indexed
from tests.support.database.release import REMEMBERED, restore
from tests.support.database.schemas import connected
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.processes.load import load_on
from tests.support.repository import ROOT
from tests.support.rows import column

RELEASES = sorted((ROOT / "tests" / "data").glob("*.backup.gz"))
# Of a version without a change of functions since, too, all of them are applied again.
OLDER = "update memoryd.function_files set checksum = 'of before'"
KEPT = """
select 'memory ' || id from agent_memory union all select 'command ' || id from agent_commands
union all select 'message ' || id from conversation_messages union all select 'document ' || id from documents
union all select 'knowledge ' || id from shared_knowledge union all select 'anchor ' || id from memory_anchors
union all select 'link ' || id from memory_associations union all select 'insight ' || id from dream_insights
"""
# What expires or fades some time after the release does so some time after this test.
AS_ON_THAT_DAY = """
update agent_memory set expires_at = now() + interval '1 day' where expires_at is not null;
update memory_associations set rested_at = now();
"""
RECALL = "select count(*) from recall('purple certificate', agent_id => 'alice')"


@pytest.fixture(params=RELEASES, ids=lambda file: file.name.removesuffix(".backup.gz"))
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The backup of a release."""
    file = tmp_path / "release.backup"
    file.write_bytes(gzip.decompress(request.param.read_bytes()))
    return file


@asynccontextmanager
async def recalls(url: str) -> AsyncIterator[list[int]]:
    """Somebody who recalls without a pause; how much each call found."""
    found: list[int] = []

    async def go_on() -> None:
        async with connected(url) as connection:
            while True:
                found.append(await connection.fetchval(RECALL))

    going = asyncio.create_task(go_on())
    try:
        yield found
    finally:
        going.cancel()
        await asyncio.wait([going])
        assert going.cancelled(), going.exception()


async def test_a_released_database_is_upgraded_under_load(
    release: Path, template: str, empty_url: str, tmp_path: Path
) -> None:
    """`template`: its roles are there."""
    async with connected(empty_url) as connection:
        server = await connection.fetchval("select current_setting('server_version_num')::integer / 10000")
        restored = await asyncio.to_thread(restore, release, empty_url, server)
        assert re.findall("ERROR: .*|ignored.*", restored) == [
            'ERROR:  schema "public" already exists', "ERROR:  must be owner of extension vector", "ignored on restore: 2",
        ], restored  # fmt: skip
        await connection.execute(AS_ON_THAT_DAY)
        before = set(await column(connection, KEPT))
        waiting = await connection.fetchval("select count(*) from memoryd.jobs")
        assert min(len(before), waiting) > 50
        await connection.execute(OLDER)
        memoryd, daemons = Commands(empty_url, tmp_path), Daemons(empty_url, tmp_path)
        async with recalls(empty_url) as found, load_on(empty_url, rounds=15, pause=0.05) as load:
            await load.at_least(3)
            upgraded = await memoryd("migrate")
            assert upgraded.code == 0, upgraded.err
            # What came meanwhile, and comes after, is taken by a daemon of this version.
            daemon = await daemons.start(executor_command="cat", facts="rules", history_days="36500")
            await load.at_least(12)
        assert load.refused == 0
        assert min(found) >= 1
        try:
            await all_done(connection, timeout=120)
            await all_indexed(connection)
            assert before <= set(await column(connection, KEPT))
            assert daemon.events("job_discarded") == []
            assert (
                await connection.fetchval(
                    "select content from recall('purple certificate', agent_id => 'alice', match_count => 1)"
                )
                == REMEMBERED
            )
            # A message that waited to be read by rules is not read any more.
            assert await connection.fetchval("select count(*) from memoryd.names") == 0
            checked = await memoryd("doctor", "--json")
            assert [one for one in checked.json if one["verdict"] == "problem"] == []
        finally:
            await daemons.kill_all()


async def test_a_backup_of_a_release_is_restored_and_upgraded(
    release: Path, template: str, empty_url: str, tmp_path: Path
) -> None:
    memoryd = Commands(empty_url, tmp_path)
    restored = await memoryd("restore", str(release))
    assert restored.code == 0, restored.err
    said = await memoryd("recall", "purple certificate", "--agent", "alice")
    assert REMEMBERED in said.out
