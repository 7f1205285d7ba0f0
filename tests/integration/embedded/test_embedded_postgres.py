"""The embedded Postgres comes up in every state a folder can be left in, and keeps what was committed.

One server for the whole file; a test may stop or kill it, the next one finds it running again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from plugins.embedded import account as embedded_account
from plugins.embedded.causes import EmbeddedPostgresError
from plugins.embedded.programs import find_programs
from plugins.embedded.server import EmbeddedPostgres
from tests.support.database.schemas import connected
from tests.support.folders import server_folder

USERADD = shutil.which("useradd", path=embedded_account.with_administration()["PATH"])
LIGHT = {"shared_buffers": "16MB", "max_connections": "20"}

START_ONE = """
import sys
from pathlib import Path
from plugins.embedded.server import EmbeddedPostgres
print(EmbeddedPostgres(Path(sys.argv[1]), options={"shared_buffers": "16MB"}).start())
"""


@pytest.fixture(scope="module")
def short_folder() -> Iterator[Path]:
    with server_folder() as path:
        yield path


@pytest.fixture(scope="module")
def shared(short_folder: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(short_folder / "data", options=LIGHT)
    yield server
    server.stop()


@pytest.fixture
def server(shared: EmbeddedPostgres) -> EmbeddedPostgres:
    shared.start()
    return shared


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, whose server is stopped at the end."""
    with server_folder() as path:
        yield path
        EmbeddedPostgres(path).stop("immediate")


async def ask(url: str, query: str) -> object:
    async with connected(url) as connection:
        return await connection.fetchval(query)


async def is_open(url: str) -> bool:
    try:
        return await ask(url, "select 1") == 1
    except asyncpg.CannotConnectNowError:
        return False


def pid_of(server: EmbeddedPostgres) -> int:
    pid = server.postmaster_pid()
    assert pid is not None
    return pid


def crash(server: EmbeddedPostgres) -> None:
    """kill -9 of the server's main process; its lock files stay behind."""
    os.kill(pid_of(server), signal.SIGKILL)
    while server.is_running():
        time.sleep(0.01)


def remove_user(name: str) -> None:
    environment = embedded_account.with_administration()
    subprocess.run(["userdel", name], env=environment, check=False, capture_output=True)


def sleeper(uid: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], user=uid if os.geteuid() == 0 else None)


def cluster_of(server: EmbeddedPostgres) -> Path:
    return server.log_path.parent / "pg"


def test_an_empty_folder_becomes_a_server_that_a_second_start_reuses(folder: Path) -> None:
    half = folder / "new" / "pg.new-0"
    (half / "base").mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(folder / "new", options=LIGHT)
    assert not server.is_running()
    assert server.start() is True
    assert not half.exists(), "an interrupted first start left it"
    assert server.is_running()
    assert server.start() is False
    assert EmbeddedPostgres(folder / "new").start() is False
    server.stop()
    assert not server.is_running()
    assert server.postmaster_pid() is None


async def test_both_addresses_lead_to_the_database_with_vectors(server: EmbeddedPostgres) -> None:
    for url in (server.socket_url, server.tcp_url):
        assert await ask(url, "select current_database()") == "memoryd"
    async with connected(server.socket_url) as connection:
        await connection.execute("create extension if not exists vector")
        assert await connection.fetchval("select '[3,4]'::vector <-> '[0,0]'") == 5.0


async def test_non_ascii_letters_are_letters_in_text_search(server: EmbeddedPostgres) -> None:
    assert await ask(server.socket_url, "select lower('ÄÉ')") == "äé"
    found = await ask(
        server.socket_url, "select to_tsvector('simple', 'Straße') @@ to_tsquery('simple', 'straße')"
    )
    assert found is True


async def test_fsync_and_full_page_writes_are_on(server: EmbeddedPostgres) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes", "data_checksums"):
        assert await ask(server.socket_url, f"show {setting}") == "on"


async def test_tcp_connections_need_the_password(server: EmbeddedPostgres) -> None:
    name, _, rest = server.tcp_url.partition("@")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(f"{name}x@{rest}")


def test_secrets_and_socket_are_for_the_owner_alone(server: EmbeddedPostgres) -> None:
    folder = server.log_path.parent
    for path in (folder / "password", folder / "postgres.log", *(folder / "run").glob(".s.PGSQL.*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


async def test_rows_survive_stop_and_start(server: EmbeddedPostgres) -> None:
    await ask(server.socket_url, "create table kept as select 'through a stop' as what")
    before = server.tcp_url
    server.stop()
    assert server.start() is True
    assert await ask(server.tcp_url, "select what from kept") == "through a stop"
    assert server.tcp_url == before


async def test_rows_survive_a_killed_server_with_active_sessions(server: EmbeddedPostgres) -> None:
    session = await asyncpg.connect(server.socket_url)
    await session.execute("create table survivors as select generate_series(1, 1000) as n")
    busy = asyncio.create_task(session.execute("do $$ begin loop end loop; end $$"))
    at_work = "select count(*) from pg_stat_activity where state = 'active' and query like 'do %'"
    while await ask(server.socket_url, at_work) == 0:
        pass
    crash(server)
    assert await asyncio.to_thread(server.start) is True
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.PostgresError, OSError)):
        await busy
    session.terminate()
    assert await ask(server.socket_url, "select count(*) from survivors") == 1000


async def test_a_stale_lock_file_whose_process_id_was_reused_is_removed(
    server: EmbeddedPostgres,
) -> None:
    crash(server)
    cluster = cluster_of(server)
    owner = cluster.stat().st_uid
    stranger = sleeper(owner)
    try:
        locks = [cluster / "postmaster.pid", *(cluster.parent / "run").glob("*.lock")]
        assert len(locks) == 2
        for lock in locks:
            _, _, rest = lock.read_text().partition("\n")
            lock.write_text(f"{stranger.pid}\n{rest}")
        assert not server.is_running()
        assert server.start() is True
        assert await ask(server.socket_url, "select 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_session_in_the_template_database_does_not_stop_a_first_start(
    server: EmbeddedPostgres,
) -> None:
    """On a busy machine autovacuum may be in template1 for as long as the database is being made."""
    elsewhere = server.socket_url.replace("/memoryd?", "/template1?")
    async with connected(elsewhere) as guest:
        await guest.execute("drop database memoryd")
        assert await asyncio.to_thread(server.start) is False
    assert await ask(server.socket_url, "select current_database()") == "memoryd"


@pytest.mark.skipif(os.geteuid() != 0 or USERADD is None, reason="only root adds users, by useradd")
@pytest.mark.parametrize("path", ["/usr/bin:/bin", ""])
def test_the_system_user_is_added_where_the_path_does_not_lead_to_useradd(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PATH of cron, of su, and of an empty environment."""
    name = f"memoryd-p{os.getpid() % 100_000}"
    monkeypatch.setenv("PATH", path)
    try:
        assert embedded_account._system_user(name).pw_name == name
    finally:
        remove_user(name)


async def test_a_lost_password_is_replaced(server: EmbeddedPostgres) -> None:
    before = server.tcp_url
    (server.log_path.parent / "password").unlink()
    server.start()
    assert server.tcp_url != before
    assert await ask(server.tcp_url, "select 1") == 1


async def test_restart_brings_new_options_and_a_new_process(server: EmbeddedPostgres) -> None:
    before = pid_of(server)
    other = EmbeddedPostgres(
        server.log_path.parent, options={**LIGHT, "work_mem": "5MB", "memoryd.note": r"it's \ "}
    )
    other.restart()
    assert pid_of(server) != before
    assert await ask(server.socket_url, "show work_mem") == "5MB"
    assert await ask(server.socket_url, "show memoryd.note") == r"it's \ "


async def test_a_failing_statements_values_are_not_in_the_log(server: EmbeddedPostgres) -> None:
    async with connected(server.socket_url) as connection:
        await connection.execute("create temp table one (what text primary key, check (what <> 'hush two'))")
        await connection.execute("insert into one values ('hush one')")
        for what in ("hush one", "hush two"):
            with pytest.raises(asyncpg.IntegrityConstraintViolationError):
                await connection.execute(f"insert into one values ('{what}')")
    log = server.log_path.read_text()
    assert "ready to accept connections" in log
    assert "hush" not in log


async def test_another_port_is_used_when_the_port_is_taken(server: EmbeddedPostgres) -> None:
    server.stop()
    port = int((server.log_path.parent / "port").read_text())
    with socket.create_server(("127.0.0.1", port)):
        assert server.start() is True
        assert f":{port}/" not in server.tcp_url
        assert await ask(server.tcp_url, "select 1") == 1


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(server: EmbeddedPostgres) -> None:
    server.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedPostgresError, match=f"Port {port} .* is taken"):
            EmbeddedPostgres(server.log_path.parent, port=port).start()
    asked = EmbeddedPostgres(server.log_path.parent, port=port, options=LIGHT)
    assert asked.start() is True
    assert f":{port}/" in asked.tcp_url


def test_an_option_postgres_does_not_know_is_named(server: EmbeddedPostgres) -> None:
    server.stop()
    with pytest.raises(EmbeddedPostgresError, match='unrecognized configuration parameter "no_such_option"'):
        EmbeddedPostgres(server.log_path.parent, options={"no_such_option": "1"}).start()


def is_there(folder: str) -> bool:
    """Whether it exists."""
    return Path(folder).exists()


async def test_a_folder_with_a_long_and_awkward_name_works(folder: Path) -> None:
    server = EmbeddedPostgres(folder / ('it\'s a "$HOME", ' + "long " * 20) / "dätä", options=LIGHT)
    assert server.start() is True
    assert await ask(server.socket_url, "select 1") == 1
    server.restart()
    assert await ask(server.socket_url, "select 1") == 1
    # It is among temporary files, where nothing stays.
    sockets = server.socket_url.partition("host=")[2].partition("&")[0]
    assert is_there(sockets)
    server.stop()
    assert not is_there(sockets)


def test_data_of_another_version_are_refused_and_left_unchanged(folder: Path) -> None:
    version = folder / "pg" / "PG_VERSION"
    version.parent.mkdir()
    version.write_text("16\n")
    with pytest.raises(
        EmbeddedPostgresError, match="holds the data of PostgreSQL 16, which PostgreSQL 18 cannot read"
    ):
        EmbeddedPostgres(folder).start()
    assert version.read_text() == "16\n"
    assert [path.name for path in folder.rglob("*")] == ["pg", "PG_VERSION"]


def test_a_folder_with_something_else_in_it_is_refused(folder: Path) -> None:
    (folder / "pg").mkdir()
    (folder / "pg" / "letter.txt").write_text("dear all")
    with pytest.raises(EmbeddedPostgresError, match="holds no database"):
        EmbeddedPostgres(folder).start()
    assert (folder / "pg" / "letter.txt").read_text() == "dear all"


def test_a_version_that_is_not_installed_is_refused() -> None:
    with pytest.raises(EmbeddedPostgresError, match="no embedded PostgreSQL 17"):
        find_programs(17)


def test_addresses_before_the_first_start_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="run memoryd once"):
        _ = EmbeddedPostgres(tmp_path / "nothing").socket_url


def test_stop_without_a_server_creates_nothing(tmp_path: Path) -> None:
    EmbeddedPostgres(tmp_path / "nothing").stop()
    assert list(tmp_path.iterdir()) == []


def test_of_concurrent_starts_one_starts_the_server_and_all_use_it(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    starting = [
        subprocess.Popen(
            [sys.executable, "-c", START_ONE, folder], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = sorted(process.communicate()[0].strip() for process in starting)
    assert said == ["False", "False", "True"]
    assert EmbeddedPostgres(folder).is_running()


async def test_a_server_that_is_still_stopping_is_waited_for(server: EmbeddedPostgres) -> None:
    async with connected(server.socket_url) as last_guest:
        os.kill(pid_of(server), signal.SIGTERM)  # a smart shutdown waits for its last session
        while await is_open(server.socket_url):
            pass
        starting = asyncio.create_task(asyncio.to_thread(server.start))
        assert await last_guest.fetchval("select 1") == 1
    assert await starting is True
    assert await ask(server.socket_url, "select 1") == 1
