"""Losing the database is not fatal: the daemon stays, says so once, and goes on where it was."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.logs import get_logger
from handlers.shared.ports import AnyConnection, Job
from tests.faults.conftest import OwnPostgres
from tests.support.content.finished import all_done
from tests.support.processes.daemons import Daemons
from tests.support.processes.load import load_on
from tests.support.processes.workers import CREATE_DONE, Doing, enqueue, open_database, worker_on, working
from tests.support.services import http
from tests.support.waiting import IDLE, until

ROUNDS = 8


async def test_work_survives_restarts_and_crashes_of_postgres(
    own_postgres: OwnPostgres, daemons: Daemons
) -> None:
    server, url = own_postgres.server, own_postgres.url
    daemon = await daemons.start(
        url=url,
        claim_seconds=2,
        poll_seconds=0.5,
        heartbeat_seconds=0.5,
        executor_command="cat",
        cleanup_seconds=1,
        http=0,
    )
    site = (await daemon.event("http_listening"))["url"]
    async with load_on(url, rounds=ROUNDS, pause=0.2) as load:
        for end in (server.stop, partial(server.stop, "immediate")):
            seen = len(daemon.lines)
            before = load.rounds
            await asyncio.to_thread(end)
            await daemon.event("database_lost", after=seen)
            not_ready = await http.answering(site, "/health/ready", 503)
            assert not_ready.json["reason"].startswith("the database does not answer (")
            assert (await http.ask(site, "/health/live")).status == 200
            told = await http.answering(site, "/metrics", 200, saying="memoryd_database_up 0.0")
            assert "memoryd_jobs{" not in told.body
            assert "memoryd_jobs_handled_total{" in told.body
            await asyncio.to_thread(server.start)
            await daemon.event("database_back", after=seen)
            await http.answering(site, "/health/ready", 200)
            await daemon.event("listener_back", after=seen)
            await load.at_least(min(before + 2, ROUNDS))
    assert load.rounds == ROUNDS
    assert daemon.process.returncode is None

    connection = await asyncpg.connect(url)
    await all_done(connection)
    # A round whose commit was interrupted may have been made before the application tried again.
    assert await connection.fetchval("select count(*) >= $1 from agent_commands", ROUNDS * 13)
    assert await connection.fetchval("select bool_and(status in ('completed', 'failed')) from agent_commands")
    lost, back = daemon.events("database_lost"), daemon.events("database_back")
    assert 2 <= len(lost) == len(back) <= 4
    assert not [line for line in daemon.lines if line.get("level", "error") == "error"], daemon.text()
    assert await connection.fetchval("select count(*) from memoryd.daemons") == 1
    await connection.close()
    assert await daemon.stop() == 0


async def test_files_wait_for_the_database_and_are_taken_when_it_is_back(
    own_postgres: OwnPostgres, daemons: Daemons, tmp_path: Path
) -> None:
    drop, replica = tmp_path / "drop", tmp_path / "replica"
    drop.mkdir()
    daemon = await daemons.start(
        url=own_postgres.url, drop_folder=drop, replica=replica, drop_settle_seconds=0.2, poll_seconds=0.5
    )
    connection = await asyncpg.connect(own_postgres.url)
    await connection.execute("insert into documents (title, content) values ('Owls', 'Owls sleep by day.')")
    path = await until(connection, "select replica_path from documents where status = 'active'")
    file = replica / path
    await connection.close()

    await asyncio.to_thread(own_postgres.server.stop)
    await daemon.event("database_lost")
    file.write_text(file.read_text("utf-8").replace("by day", "until dusk"), "utf-8")
    (drop / "Bats.md").write_text("Bats sleep in caves.", "utf-8")
    await daemon.event("drop_waits_for_database")
    assert (drop / "Bats.md").exists()
    await asyncio.to_thread(own_postgres.server.start)

    connection = await asyncpg.connect(own_postgres.url)
    texts = "select array_agg(content order by content) from documents where status = 'active'"
    await until(connection, f"select ({texts}) = $1", ["Bats sleep in caves.", "Owls sleep until dusk."])
    await until(connection, "select count(replica_path) = 2 from documents")
    assert await connection.fetchval("select count(*) from memoryd.replica_conflicts") == 0
    await connection.close()
    await daemon.event("files_taken")
    assert (drop / "taken" / "Bats.md").exists()
    assert daemon.process.returncode is None


async def test_a_daemon_can_be_stopped_while_the_database_is_away(
    own_postgres: OwnPostgres, daemons: Daemons
) -> None:
    daemon = await daemons.start(url=own_postgres.url, poll_seconds=0.1, shutdown_seconds=1)
    await asyncio.to_thread(own_postgres.server.stop)
    await daemon.event("database_lost")
    assert await daemon.stop() == 0
    assert daemon.lines[-1]["event"] == "daemon_stopped"


async def once_idle(url: str) -> asyncpg.Connection:
    """A connection to the server, which may crash meanwhile, once no job is left."""
    async with asyncio.timeout(60):
        while True:
            try:
                connection = await asyncpg.connect(url)
                await until(connection, IDLE)
                return connection
            except DATABASE_FAULTS:
                await asyncio.sleep(0.05)


async def test_a_job_that_crashes_the_server_each_time_becomes_a_dead_letter(
    own_postgres: OwnPostgres,
) -> None:
    async def crash(connection: AnyConnection, jobs: Sequence[Job]) -> None:
        if any(job.payload for job in jobs):
            os.kill(await connection.fetchval("select pg_backend_pid()"), signal.SIGKILL)
            await connection.execute("select 1")

    connection = await asyncpg.connect(own_postgres.url)
    await connection.execute(CREATE_DONE)
    ids = await enqueue(connection, "test", [None, None, '{"bad": true}', None])
    await connection.close()
    async with (
        open_database(own_postgres.url) as database,
        working(worker_on(database, Doing(within=crash), max_attempts=2, claim_seconds=1), claim_seconds=1),
    ):
        connection = await once_idle(own_postgres.url)
    dead = await connection.fetchrow("select * from memoryd.dead_letters")
    assert dead is not None
    assert dead["id"] == ids[2]
    assert [r["job"] for r in await connection.fetch("select job from done order by job")] == [
        ids[0],
        ids[1],
        ids[3],
    ]
    await connection.close()


async def forget_a_transaction(database: Database, watch: asyncpg.Connection) -> None:
    """Begins one, is cut off by the server, and goes on."""
    async with database.transaction() as forgotten:
        assert await forgotten.fetchval("show idle_in_transaction_session_timeout") == "30s"
        await forgotten.execute("set local idle_in_transaction_session_timeout = 10")
        backend = forgotten.get_server_pid()
        await until(watch, "select not exists (select from pg_stat_activity where pid = $1)", backend)
        await forgotten.execute("select 1")


@pytest.mark.parametrize("pooled", [False, True])
async def test_locks_of_a_machine_that_vanished_are_released(
    database_url: str, connection: asyncpg.Connection, pooled: bool
) -> None:
    database = await Database.open(database_url, size=1, pooled=pooled, logger=get_logger())
    with pytest.raises(DATABASE_FAULTS) as raised:
        await forget_a_transaction(database, connection)
    # To the daemon that wakes up it is a lost connection like any other.
    assert is_gone(raised.value)
    assert await database.fetchval("select 1") == 1
    await database.close()
