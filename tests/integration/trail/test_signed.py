"""What was signed on a machine is known there after a restart: a log that does not continue it is not signed."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from structlog.testing import capture_logs

from daemon.db.pool import Database
from daemon.logs import get_logger
from plugins.trail.keys import make_key
from plugins.trail.log import BrokenTrailError, Pace, Trail
from plugins.trail.rules.note import Checkpoint, Note
from tests.support.processes.commands import Commands
from tests.support.processes.workers import open_database
from tests.support.rows import remember
from tests.support.waiting import BLOCKED, until

SIGNED = "select coalesce(max(size), 0) from memoryd.trail_checkpoints"
REWRITE = """
delete from memoryd.trail_checkpoints;
update memoryd.trail_leaves set leaf = sha256(leaf) where position = 1;
update memoryd.trail_tiles set hashes = overlay(hashes placing sha256(hashes) from 33) where level = 0
"""


async def anchored(connection: asyncpg.Connection, count: int) -> None:
    for n in range(count):
        memory = await remember(connection, f"step {n}")
        await connection.execute("select memoryd.anchor($1, 'decision')", memory)


def kept(folder: Path) -> dict[str, int]:
    """The files of what was signed, each with its number of leaves; nobody else may read one."""
    files = list(folder.glob("*.signed*"))
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * len(files)
    return {file.name: Checkpoint.parse(Note.parse(file.read_text()).text).size for file in files}


def replaced(folder: Path, content: bytes, mode: int = 0o600) -> None:
    [file] = folder.glob("*.signed")
    file.write_bytes(content)
    file.chmod(mode)


def machine(database: Database, folder: Path, name: str = "a") -> Trail:
    """A daemon that has just started on a machine of this name."""
    place = folder / name
    if not place.exists():
        place.mkdir()
        make_key(place / "key")
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    return Trail(
        database, key=key, pace=Pace(1, 300), ledgers=[], logger=get_logger(), key_file=place / "key"
    )


async def test_killed_before_the_checkpoint_is_committed_it_is_signed_again_and_nothing_else(
    database_url: str,
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    database: Database,
    tmp_path: Path,
) -> None:
    make_key(tmp_path / "key")
    memoryd = Commands(database_url, tmp_path)
    await anchored(connection, 3)
    # Which signs a checkpoint, where the anchor has none.
    prove = ("prove", str(await connection.fetchval("select id from memory_anchors limit 1")))
    async with second.transaction():
        await second.execute("lock table memoryd.trail_checkpoints in share mode")
        signing = await memoryd.start(*prove, trail_key=f"file:{tmp_path / 'key'}")
        await until(connection, BLOCKED)
        signing.kill()
        await signing.wait()
    trail = await connection.fetchval("select id from memoryd.trail")
    assert kept(tmp_path) == {f"key.{trail}.signed": 3}
    assert await connection.fetchval(SIGNED) == 0
    # What was kept, and nobody has, is no obstacle.
    assert (await memoryd(*prove, trail_key=f"file:{tmp_path / 'key'}")).code == 0
    assert await connection.fetchval(SIGNED) == 3
    # While no daemon runs, somebody without the key writes the history anew, and deletes what could tell.
    await connection.execute(REWRITE)
    await anchored(connection, 1)
    with pytest.raises(
        BrokenTrailError, match=r"does not begin with what the last checkpoint says, as .*\.signed has it"
    ):
        await machine(database, tmp_path.parent, tmp_path.name).advance()
    assert await connection.fetchval(SIGNED) == 0


async def test_leaves_are_durable_where_other_commits_are_not(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    await connection.execute(
        "create function told() returns trigger language plpgsql as "
        "$$begin raise exception 'with %', current_setting('synchronous_commit'); end$$; "
        "create trigger told before update on memoryd.trail for each row execute function told()"
    )
    await anchored(connection, 1)
    name = await connection.fetchval("select current_database()")
    for given, expected in (("off", "on"), ("local", "local")):
        await connection.execute(f'alter database "{name}" set synchronous_commit = {given}')
        async with open_database(database_url) as database:
            with pytest.raises(asyncpg.RaiseError, match=f"with {expected}"):
                await machine(database, tmp_path).advance()


async def test_each_machine_knows_what_it_has_signed_itself(
    connection: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    await anchored(connection, 2)
    await machine(database, tmp_path, "a").advance()
    await anchored(connection, 2)
    await machine(database, tmp_path, "b").advance()
    assert [*kept(tmp_path / "a").values(), *kept(tmp_path / "b").values()] == [2, 4]
    # Cut off after the third leaf: that continues what the one has signed, and not what the other has.
    await connection.execute(
        "delete from memoryd.trail_checkpoints; delete from memoryd.trail_leaves where position = 3; "
        "update memoryd.trail set size = 3; "
        "update memoryd.trail_tiles set hashes = substr(hashes, 1, 96) where level = 0"
    )
    with pytest.raises(
        BrokenTrailError, match=r"has 4 leaves, and the log 3, as .*/b/key\..*\.signed has it"
    ):
        await machine(database, tmp_path, "b").advance()
    await machine(database, tmp_path, "a").advance()
    assert await connection.fetchval(SIGNED) == 3


async def test_a_file_that_cannot_be_trusted_stops_signing_and_one_that_cannot_be_written_does_not(
    connection: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    await anchored(connection, 1)
    await machine(database, tmp_path).advance()
    await anchored(connection, 1)
    for content, mode, why in (
        (b"", 0o600, "has no checkpoint"),
        (b"\xff\0", 0o600, "has no checkpoint"),
        (b"x", 0o644, "can be read by other accounts"),
    ):
        replaced(tmp_path / "a", content, mode)
        with pytest.raises(BrokenTrailError, match=why):
            await machine(database, tmp_path).advance()
    nowhere = tmp_path / "none" / "key"
    trail = Trail(
        database,
        key=Ed25519PrivateKey.generate(),
        pace=Pace(1, 300),
        ledgers=[],
        logger=get_logger(),
        key_file=nowhere,
    )
    with capture_logs() as logs:
        await trail.advance()
        await anchored(connection, 1)
        await trail.advance()
    assert [each["event"] for each in logs].count("checkpoint_not_kept") == 1
    assert await connection.fetchval(SIGNED) == 3
