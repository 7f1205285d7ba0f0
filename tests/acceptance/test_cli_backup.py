"""memoryd backup and restore: the whole database as a file, and back."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psutil
import pytest

from plugins.embedded.server import EmbeddedPostgres
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.users import kept_of
from tests.support.content.finished import all_done
from tests.support.database.logins import login_url
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import BARE, copied
from tests.support.folders import server_folder
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember
from tests.support.waiting import until

WAITING = """
select pid from pg_stat_activity
where application_name = 'pg_restore' and datname = current_database() and wait_event_type = 'Lock'
"""
WAITS = f"select exists ({WAITING})"
# To make it takes more than the 1 MB that a server may give.
BIG_INDEX = """
create table mine (place vector(256));
insert into mine
select (select array_agg(random()) from generate_series(1, 256) d where n > 0)::vector from generate_series(1, 1000) n;
create index on mine using ivfflat (place vector_l2_ops) with (lists = 20)
"""
HAS_SCHEMA = "select to_regnamespace('memoryd') is not null"


@pytest.fixture
async def emptied(server: Server, empty: str) -> AsyncIterator[str]:
    """The URL of an empty database on the same server."""
    async with copied(server, empty) as url:
        yield url


def is_private(file: Path) -> bool:
    """Whether only its owner may read a file."""
    return file.stat().st_mode & 0o777 == 0o600


def names_in(folder: Path, pattern: str = "*") -> list[str]:
    """The names of the files in a folder."""
    return sorted(file.name for file in folder.glob(pattern))


def content_of(file: Path) -> bytes:
    """All of a file."""
    return file.read_bytes()


async def fresh(url: str) -> asyncpg.Connection:
    """A connection to another database."""
    return await asyncpg.connect(url)


async def test_what_is_restored_is_what_was_backed_up(
    memoryd: Commands, connection: asyncpg.Connection, backup: Path, emptied: str, tmp_path: Path
) -> None:
    assert is_private(backup)
    assert names_in(tmp_path, "one.backup*") == ["one.backup"]
    before = [await kept_of(connection, user) for user in (ANN, BOB)]
    done = await Commands(emptied, tmp_path)("restore", str(backup))
    assert done.code == 0, done.err
    restored = await fresh(emptied)
    try:
        assert [await kept_of(restored, user) for user in (ANN, BOB)] == before
        assert await restored.fetchval("select said from mine") == "kept"
        # Policies and grants are those of before.
        async with acting_as(restored, ANN):
            assert await restored.fetchval("select count(distinct user_id) from agent_memory") == 1
        assert await restored.fetchval(
            "select bool_and(relrowsecurity and relforcerowsecurity) from pg_class where relname = 'agent_memory'"
        )
    finally:
        await restored.close()
    checked = await Commands(emptied, tmp_path)("doctor", "--json")
    assert [one["name"] for one in checked.json if one["verdict"] == "problem"] == ["daemons"]


async def test_a_restored_database_goes_on(
    memoryd: Commands, connection: asyncpg.Connection, emptied: str, tmp_path: Path
) -> None:
    # The job that indexes it is in the backup, too.
    await remember(connection, "the certificate of the staging server is purple", agent_id="alice")
    assert (await memoryd("backup", str(tmp_path / "one"))).code == 0
    assert (await Commands(emptied, tmp_path)("restore", str(tmp_path / "one"))).code == 0
    daemons = Daemons(emptied, tmp_path)
    restored = await fresh(emptied)
    try:
        await daemons.start()
        await all_done(restored)
        found = await restored.fetchval(
            "select content from recall('purple certificate', agent_id => 'alice')"
        )
        assert found == "the certificate of the staging server is purple"
    finally:
        await restored.close()
        await daemons.kill_all()


async def test_a_big_index_is_restored_whatever_the_server_gives_for_making_it(
    memoryd: Commands, connection: asyncpg.Connection, emptied: str, tmp_path: Path
) -> None:
    await connection.execute(BIG_INDEX)
    assert (await memoryd("backup", str(tmp_path / "one"))).code == 0
    name = urlsplit(emptied).path[1:]
    await connection.execute(f"alter database {name} set maintenance_work_mem = '1MB'")
    done = await Commands(emptied, tmp_path)("restore", str(tmp_path / "one"))
    assert done.code == 0, done.err


@pytest.fixture
async def owned(server: Server, empty: str) -> AsyncIterator[list[str]]:
    """Two empty databases of another owner than that of all other tests, who makes no roles: an administrator gave them."""
    role = f"owner_{uuid.uuid4().hex[:8]}"
    names = [f"{role}_{number}" for number in range(2)]
    async with connected(server.admin_url) as admin:
        await admin.execute(f"create role {role} login password 'secret'")
        await admin.execute(f"grant memoryd_service to {role}")
        await admin.execute(f"grant memoryd_user, memoryd_admin to {role} with inherit false, set true")
        for name in names:
            await admin.execute(f"create database {name} template {empty} owner {role}")
        yield [login_url(server.admin_url_of(name), role, "secret") for name in names]
        for name in names:
            await admin.execute(f"drop database {name} with (force)")
        await admin.execute(f"drop role {role}")


async def test_an_owner_who_makes_no_roles_has_all_rows_in_the_backup(
    owned: list[str], tmp_path: Path
) -> None:
    one, other = (Commands(url, tmp_path) for url in owned)
    assert (await one("migrate")).code == 0
    opened = await fresh(owned[0])
    await remember(opened, "wombat", agent_id="alice", user_id=ANN)
    await opened.close()
    for memoryd, arguments in (
        (one, ("backup", "one.backup")),
        (other, ("restore", "one.backup")),
        (other, ("backup", "--verify", "one.backup")),
    ):
        done = await memoryd(*arguments)
        assert done.code == 0, (arguments, done.err)
    opened = await fresh(owned[1])
    assert await opened.fetchval("select count(*) from agent_memory where user_id = $1", ANN) > 0
    await opened.close()


async def test_rows_are_written_meanwhile(
    memoryd: Commands, connection: asyncpg.Connection, database_url: str, emptied: str, tmp_path: Path
) -> None:
    """Each transaction writes two rows: a backup has both of one, or none."""
    writer = await fresh(database_url)
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def write() -> int:
        pairs = 0
        while not stopped.is_set():
            async with writer.transaction():
                await remember(writer, f"left {pairs}", agent_id="left")
                await remember(writer, f"right {pairs}", agent_id="right")
            pairs += 1
            begun.set()
        return pairs

    writing = asyncio.create_task(write())
    try:
        await begun.wait()
        done = await memoryd("backup", str(tmp_path / "one"))
    finally:
        stopped.set()
        written = await writing
        await writer.close()
    assert done.code == 0, done.err
    assert (await Commands(emptied, tmp_path)("restore", str(tmp_path / "one"))).code == 0
    restored = await fresh(emptied)
    try:
        of = "select count(*) from agent_memory where agent_id = $1"
        left, right = [await restored.fetchval(of, agent) for agent in ("left", "right")]
    finally:
        await restored.close()
    assert 0 < left == right <= written


def changed(at: int) -> Callable[[bytes], bytes]:
    """One bit of the file is another."""
    return lambda content: content[:at] + bytes([content[at] ^ 1]) + content[at:][1:]


SPOILED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda content: content[:-200], "its end is missing"),
    "empty": (lambda _: b"", "its end is missing"),
    "of pg_dump": (lambda _: b"PGDMP" + bytes(5000), "its end is missing"),
    "changed in the archive": (changed(3000), "is damaged"),
    "changed in the manifest": (changed(-100), "is damaged"),
    "changed at the end": (changed(-50), "is damaged"),
    "without its beginning": (lambda content: content[100:], "is damaged"),
    "of a later format": (lambda content: content[:-1] + b"2", "later memoryd"),
}


async def test_a_spoiled_file_restores_nothing(backup: Path, emptied: str, tmp_path: Path) -> None:
    memoryd = Commands(emptied, tmp_path)
    for how, (spoil, said) in SPOILED.items():
        (tmp_path / "spoiled").write_bytes(spoil(content_of(backup)))
        done = await memoryd("restore", str(tmp_path / "spoiled"))
        assert (done.code, said in done.err) == (1, True), (how, done.err)
    restored = await fresh(emptied)
    assert not await restored.fetchval(HAS_SCHEMA)
    await restored.close()


async def test_an_owner_who_lacks_rights_is_told_what_an_administrator_runs(
    server: Server, backup: Path, tmp_path: Path
) -> None:
    async with copied(server, BARE) as url:
        done = await Commands(url, tmp_path)("restore", str(backup))
        assert (done.code, "create extension if not exists vector with schema public;\n" in done.err) == (
            1,
            True,
        )
        restored = await fresh(url)
        assert not await restored.fetchval(HAS_SCHEMA)
        await restored.close()


async def test_what_is_there_is_not_written_over(memoryd: Commands, backup: Path, tmp_path: Path) -> None:
    done = await memoryd("restore", str(backup))
    assert done.code == 1
    assert "Make an empty one" in done.err
    missing = await memoryd("restore", str(tmp_path / "nothing"))
    assert (missing.code, missing.sentences) == (
        2,
        [f"{tmp_path / 'nothing'} cannot be read: No such file or directory."],
    )
    other = await memoryd(
        "restore", str(backup), embedder="openai/text-embedding-3-small", openai_api_key="x"
    )
    assert other.code == 2
    assert "local/wordllama-256" in other.err


async def test_a_restore_that_is_cut_off_leaves_nothing(backup: Path, emptied: str, tmp_path: Path) -> None:
    restored = await fresh(emptied)
    # A transaction that it must wait for, once it has begun.
    blocker = restored.transaction()
    await blocker.start()
    await restored.execute("create schema memoryd")
    process = await Commands(emptied, tmp_path).start("restore", str(backup))
    watcher = await fresh(emptied)
    try:
        await until(watcher, WAITS)
        await watcher.execute(f"select pg_terminate_backend(pid) from ({WAITING}) w")
        _, err = await process.communicate(b"")
        assert process.returncode == 1
        assert b"Nothing was restored: pg_restore failed: " in err
        await blocker.rollback()
        assert not await watcher.fetchval(HAS_SCHEMA)
        again = await Commands(emptied, tmp_path)("restore", str(backup))
        assert again.code == 0, again.err
    finally:
        await watcher.close()
        await restored.close()


async def test_a_full_disk_leaves_no_file_and_the_old_one(
    memoryd: Commands, backup: Path, tmp_path: Path
) -> None:
    before = content_of(backup)
    process = await memoryd.start("backup", str(backup))
    psutil.Process(process.pid).rlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    _, err = await process.communicate(b"")
    assert process.returncode == 1
    assert b"File too large" in err
    assert content_of(backup) == before
    assert names_in(tmp_path, "one.backup*") == ["one.backup"]
    no_folder = await memoryd("backup", str(tmp_path / "no" / "folder"))
    assert no_folder.code == 1
    assert "cannot be written: No such file or directory" in no_folder.err


async def test_a_part_that_another_process_writes_is_left_alone(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """A part of a backup that was killed is replaced; one that is being written, and a link, are not."""
    part, other = tmp_path / "one.part", tmp_path / "other"
    other.write_text("somebody's")
    part.symlink_to(other)
    done = await memoryd("backup", str(tmp_path / "one"))
    assert (done.code, "cannot be written" in done.err) == (1, True), done.err
    assert other.read_text() == "somebody's"
    part.unlink()
    # Nor is what other programs use: as root, a backup to /dev/null would be the end of it.
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "leads to the pipe").symlink_to("pipe")
    for name in ("pipe", "leads to the pipe"):
        done = await memoryd("backup", str(tmp_path / name))
        assert (done.code, "not a regular file" in done.err) == (1, True), done.err
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "leads to the pipe").is_fifo()
    part.write_text("of a backup that was killed")
    part.chmod(0o644)
    with part.open() as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        done = await memoryd("backup", str(tmp_path / "one"))
        assert (done.code, "Another process is writing" in done.err) == (1, True), done.err
    done = await memoryd("backup", str(tmp_path / "one"))
    assert done.code == 0, done.err
    assert is_private(tmp_path / "one")
    assert not part.exists()


async def test_a_daemon_keeps_the_newest_backups(daemons: Daemons, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    for name in ("20200101T000000Z.backup", "20200102T000000Z.backup", "20200103T000000Z.backup.part"):
        (folder / f"memoryd-{name}").write_bytes(b"old")
    (folder / "notes.txt").write_text("mine")
    # Of another account's making: names of the future would count as the newest, for ever.
    (folder / "memoryd-20990101T000000Z.backup").write_bytes(b"planted")
    (folder / "memoryd-20990102T000000Z.backup").write_bytes(b"planted")
    (folder / "memoryd-20209999T999999Z.backup").write_bytes(b"planted")
    (folder / "memoryd-20200104T000000Z.backup").mkdir()
    (folder / "memoryd-20200104T000000Z.backup.part").mkdir()
    (folder / "memoryd-20200105T000000Z.backup.part").symlink_to("notes.txt")
    os.mkfifo(folder / "memoryd-20200106T000000Z.backup.part")
    # A tick of an hour comes on the hour; one of seconds comes at once, and finds the newest too old.
    daemon = await daemons.start(backup_dir=folder, backup_hours=0.0002, backups_kept=2)
    written = await daemon.event("backup_written")
    assert await daemon.stop() == 0
    assert written["rows"] > 0
    names = names_in(folder)
    assert written["file"] in names
    assert "memoryd-20200101T000000Z.backup" not in names
    real = [
        n
        for n in names
        if n.endswith(".backup") and (folder / n).is_file() and (folder / n).read_bytes() != b"planted"
    ]
    assert len(real) == 2
    assert "memoryd-20200103T000000Z.backup.part" not in names
    assert (folder / "notes.txt").read_text() == "mine"


async def test_a_daemon_says_why_there_is_no_backup(daemons: Daemons, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    daemon = await daemons.start(backup_dir=tmp_path / "file", backup_hours=0.0002)
    assert (await daemon.event("backup_failed"))["error"] == "File exists"


class TestOwnServer:
    """The same with the Postgres that memoryd brings along."""

    @pytest.fixture
    def other(self) -> Iterator[Path]:
        """A second folder, without a database."""
        with server_folder() as path:
            yield path

    async def test_keys_are_named_and_left_out_unless_asked(self, data: Path, other: Path) -> None:
        memoryd = Commands(None, data.parent)
        made = await memoryd("anchors", "new-key", str(data / "trail.key"))
        assert made.code == 0, made.err
        plain = await memoryd("backup", str(other / "plain"))
        assert plain.code == 0, plain.err
        assert "trail.key" in plain.err
        key = (data / "trail.key").read_bytes()
        whole = await memoryd("backup", str(other / "whole"), "--with-keys")
        assert whole.code == 0, whole.err
        assert key[30:60] not in (other / "plain").read_bytes()
        for name, has_key in (("plain", False), ("whole", True)):
            folder = other / f"data-{name}"
            done = await Commands(None, other)("restore", str(other / name), data_dir=str(folder))
            assert done.code == 0, done.err
            assert (folder / "trail.key").exists() == has_key
            EmbeddedPostgres(folder).stop("immediate")
        assert (other / "data-whole" / "trail.key").read_bytes() == key
        # A database that is there is not written over.
        done = await memoryd("restore", str(other / "plain"))
        assert done.code == 1
        assert "MEMORYD_DATA_DIR=restored" in done.err
