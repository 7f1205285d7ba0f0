"""A data folder or a `.env` file that another user prepared is refused, also when memoryd runs as root."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plugins.embedded.causes import EmbeddedPostgresError
from plugins.embedded.server import EmbeddedPostgres
from tests.support.folders import server_folder
from tests.support.processes.commands import Commands

LIGHT = {"shared_buffers": "16MB", "max_connections": "20"}
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
STRANGER = 65534
VICTIM = "precious\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder; the server of `data` in it is stopped at the end."""
    with server_folder() as path:
        yield path
        data = path / "data"
        for link in data.rglob("*") if data.exists() else ():
            if link.is_symlink() or link.is_fifo():
                link.unlink()
        EmbeddedPostgres(data).stop("immediate")


@pytest.fixture
def victim(folder: Path) -> Path:
    """A file outside the data folder that nothing may touch."""
    path = folder / "victim"
    path.write_text(VICTIM)
    path.chmod(0o640)
    return path


def untouched(victim: Path) -> bool:
    """Whether it is as it was made."""
    found = victim.stat()
    return (victim.read_text(), stat.S_IMODE(found.st_mode), found.st_uid) == (VICTIM, 0o640, os.geteuid())


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def second_name(path: Path, target: Path) -> None:
    os.link(target, path)


# What lies there is made anew beside it and put in its place, whatever it was.
REPLACED = ("port", "password")


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("postgres.log", link), ("postgres.log", second_name), ("postgres.log.1", link), ("in-use", second_name),
        ("password", link), ("port", second_name), ("pg/memoryd.conf", link),
    ],
)  # fmt: skip
async def test_a_link_in_the_place_of_a_file_is_not_followed(
    folder: Path, data: Path, victim: Path, name: str, plant: Callable[[Path, Path], None]
) -> None:
    planted = data / name
    planted.unlink(missing_ok=True)
    plant(planted, victim)
    if name == "postgres.log.1":
        with (data / "postgres.log").open("ab") as log:
            log.truncate(17_000_000)
    ended = await Commands(None, folder)("migrate")
    assert untouched(victim)
    if ended.code != 0:
        assert str(planted) in ended.err
        assert "not what memoryd put there" in ended.err
    else:
        assert name in ("postgres.log.1", "pg/memoryd.conf", *REPLACED)
        assert not planted.is_symlink()


@pytest.mark.parametrize("name", ["pg", "run"])
def test_a_link_in_the_place_of_a_folder_is_refused(folder: Path, data: Path, name: str) -> None:
    elsewhere = folder / "elsewhere"
    (data / name).rename(elsewhere)
    before = elsewhere.stat()
    (data / name).symlink_to(elsewhere)
    with pytest.raises(EmbeddedPostgresError, match=f"data/{name} is not what memoryd put there"):
        EmbeddedPostgres(data, options=LIGHT).start()
    assert (elsewhere.stat().st_uid, elsewhere.stat().st_mode) == (before.st_uid, before.st_mode)


def test_a_pipe_in_the_place_of_a_file_does_not_block(folder: Path) -> None:
    data = folder / "data"
    (data / "pg").mkdir(parents=True)
    (data / "pg" / "PG_VERSION").write_text("18\n")
    os.mkfifo(data / "pg" / "postmaster.pid")
    with pytest.raises(EmbeddedPostgresError, match="not what memoryd put there"):
        EmbeddedPostgres(data).start()


def test_the_callers_own_link_to_the_data_folder_is_followed(folder: Path) -> None:
    (folder / "big-disk").mkdir()
    (folder / "data").symlink_to(folder / "big-disk")
    server = EmbeddedPostgres(folder / "data", options=LIGHT)
    assert server.start() is True
    server.stop()


@AS_ROOT
def test_another_users_link_to_a_folder_is_refused(folder: Path) -> None:
    (folder / "roots").mkdir(mode=0o700)
    (folder / "data").symlink_to(folder / "roots")
    os.chown(folder / "data", STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(EmbeddedPostgresError, match="is a link that another user made"):
        EmbeddedPostgres(folder / "data").start()
    assert list((folder / "roots").iterdir()) == []


@AS_ROOT
@pytest.mark.parametrize("name", ["postgres.log", "password", "run"])
def test_another_users_file_in_the_data_folder_is_refused(data: Path, name: str) -> None:
    os.chown(data / name, STRANGER, STRANGER)
    with pytest.raises(
        EmbeddedPostgresError, match=f"{name} (belongs to user id {STRANGER}|belongs to another user)"
    ):
        EmbeddedPostgres(data, options=LIGHT).start()
    assert (data / name).stat().st_uid == STRANGER


@AS_ROOT
def test_a_tablespace_outside_the_data_folder_is_not_given_to_the_servers_user(
    folder: Path, victim: Path
) -> None:
    """A cluster that came back from a backup as root's: a tablespace's link stays one, and its target as it is."""
    data = folder / "data"
    EmbeddedPostgres(data, options=LIGHT).start()
    EmbeddedPostgres(data).stop()
    owner = (data / "pg").stat().st_uid
    assert owner != 0
    os.chown(data / "pg", 0, 0)
    (data / "pg" / "pg_tblspc" / "99999").symlink_to(victim)
    EmbeddedPostgres(data, options=LIGHT).start()
    EmbeddedPostgres(data).stop()
    assert untouched(victim)
    assert (data / "pg").stat().st_uid == owner
    os.chown(data / "pg", 0, 0)
    os.link(victim, data / "pg" / "friendly")
    with pytest.raises(EmbeddedPostgresError, match="friendly is not what memoryd put there"):
        EmbeddedPostgres(data, options=LIGHT).start()
    assert untouched(victim)


@AS_ROOT
@pytest.mark.parametrize("linked", [False, True])
async def test_a_settings_file_of_another_user_is_not_read(tmp_path: Path, linked: bool) -> None:
    theirs = tmp_path / ("theirs" if linked else ".env")
    theirs.write_text("DATABASE_URL=postgresql://mallory@127.0.0.1:1/db\nMEMORYD_NONSENSE=1\n")
    os.chown(theirs, STRANGER, STRANGER)
    if linked:
        (tmp_path / ".env").symlink_to(theirs)
    memoryd = Commands(None, tmp_path)
    ended = await memoryd("url")
    assert "mallory" not in ended.out
    assert "There is no database in" in ended.err
    assert '"event": "env_file_not_read"' in ended.err
    assert "MEMORYD_NONSENSE" not in ended.err
    os.chown(theirs, 0, 0)
    # The data folder is a database, too: where the environment names it, the file names no other.
    assert "mallory" not in (await memoryd("url")).out
    assert "mallory" in (await memoryd("url", data_dir="")).out


@pytest.mark.parametrize("kind", ["pipe", "device"])
async def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    """A checkout may have a `.env` that leads to a device, another account a pipe in the place of a key or a backup."""
    odd = tmp_path / "odd"
    if kind == "pipe":
        os.mkfifo(odd, 0o600)
    else:
        odd.symlink_to("/dev/zero")
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / ".env").symlink_to(odd)
    nowhere = "postgresql://127.0.0.1:1/none"
    here = Commands(nowhere, tmp_path)
    for ended in (
        await here("restore", str(odd)),
        await here("backup", "--verify", str(odd)),
        await here("mcp", "--agent", "a", "--http", mcp_token=f"file:{odd}"),
        await here("status", env_file=odd),
        await Commands(None, tmp_path)("status", database_urls=odd),
        await Commands(nowhere, checkout)("status"),
    ):
        assert ended.code in (1, 2)
        assert "ot a regular file" in ended.err
