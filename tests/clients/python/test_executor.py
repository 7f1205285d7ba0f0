"""Executor of memoryd_client: each command is done once and completed, whatever happens around it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
import threading
from uuid import UUID

import asyncpg
import pytest
from memoryd_client import Command, Database, Executor, Refused

from tests.support.database.cut_wire import CutWire
from tests.support.processes.daemons import DaemonProcess
from tests.support.repository import ROOT
from tests.support.rows import ask
from tests.support.waiting import FINISHED, READY, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEVER = 3600.0
"""Seconds between two polls: only what was announced is found."""
OUTCOME = "select status, output, exit_code from agent_commands where id = $1"
TAKE_AWAY = "update agent_commands set status = 'ready', started_at = null where id = $1"
LISTENING = """
select exists (select from pg_stat_activity
               where datname = current_database() and query ilike 'listen "command_ready"%' and state = 'idle')
"""


async def outcome(owner: asyncpg.Connection, command: UUID) -> tuple[str, str, int]:
    """What became of a command, once it has ended."""
    await until(owner, FINISHED, command)
    row = await owner.fetchrow(OUTCOME, command)
    assert row is not None
    return row["status"], row["output"], row["exit_code"]


async def test_announced_commands_are_done_by_a_handler_of_either_kind(
    db: Database, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str, user: UUID
) -> None:
    seen: list[tuple[str, Command]] = []

    async def answer(context: str, message: str, command: Command) -> tuple[str, int]:
        seen.append((context, command))
        return f"{message}? no", 3

    def shout(context: str, message: str, command: Command) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return message.upper()

    async with Executor(db, agent, answer, poll_seconds=NEVER):
        await until(owner, LISTENING)
        # The agent is known from this first command on.
        first = await ask(owner, "deploy the server", agent_id=agent, user_id=user, metadata='{"by": "cron"}')
        assert await outcome(owner, first) == ("failed", "deploy the server? no", 3)
    [(context, command)] = seen
    assert (command.id, command.agent_id, command.user_id) == (first, agent, user)
    assert (command.message, command.context) == ("deploy the server", context)
    assert command.metadata == {"by": "cron"}

    async with Executor(db, agent, shout, poll_seconds=NEVER):
        second = await ask(owner, "deploy the server", agent_id=agent)
        assert await outcome(owner, second) == ("completed", "DEPLOY THE SERVER", 0)


async def test_commands_are_found_though_the_connection_that_listens_has_gone_silent(
    client_url: str, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    async def work(_context: str, message: str, _command: Command) -> str:
        return message

    with tempfile.TemporaryDirectory() as folder:
        async with CutWire(client_url, folder) as wire, Database(wire.url) as database:
            wire.mute(b"LISTEN")
            async with Executor(database, agent, work, poll_seconds=0.05):
                await until(owner, LISTENING)
                for message in ("one", "two"):
                    key = await ask(owner, message, agent_id=agent)
                    assert await outcome(owner, key) == ("completed", message, 0)
            assert wire.cuts == 1


async def interrupted() -> None:
    """An async handler in which somebody presses Ctrl-C."""
    raise KeyboardInterrupt


class UnspeakableError(Exception):
    """It cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError


RAISED = {
    "raise": LookupError("no \0 server \ud800"),
    "exit": SystemExit(4),
    "unspeakable": UnspeakableError(),
    "interrupt": KeyboardInterrupt(),
    "stop iteration": StopIteration(),  # which no future carries
    "cancel": asyncio.CancelledError(),
}


async def test_whatever_a_handler_does_is_an_outcome(
    db: Database, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    def work(_context: str, message: str, _command: Command) -> object:
        if message in RAISED:
            raise RAISED[message]
        match message:
            case "interrupt later":
                return interrupted()
            case "nothing":
                return None
            case "number":
                return 5
            case "NUL":
                return "a\0b\udc80"
            case "big code":
                return ("x", 2**40)
        return asyncio.sleep(0, "awaited")

    expected = {
        "raise": ("failed", "LookupError: no \ufffd server \ufffd", 1),
        "exit": ("failed", "SystemExit: 4", 1),
        "interrupt": ("failed", "KeyboardInterrupt", 1),
        "interrupt later": ("failed", "KeyboardInterrupt", 1),
        "stop iteration": ("failed", "StopIteration", 1),
        "cancel": ("failed", "CancelledError", 1),
        "unspeakable": ("failed", "UnspeakableError", 1),
        "nothing": ("completed", "", 0),
        "number": ("failed", "TypeError: the handler returned int, not a text or (text, exit code)", 1),
        "NUL": ("completed", "a\ufffdb\ufffd", 0),
        "big code": ("failed", "TypeError: the handler returned tuple, not a text or (text, exit code)", 1),
        "later": ("completed", "awaited", 0),
    }
    ids = {message: await ask(owner, message, agent_id=agent) for message in expected}
    async with Executor(db, agent, work, parallel=3):  # type: ignore[arg-type]  # on purpose
        for message, key in ids.items():
            assert await outcome(owner, key) == expected[message]


async def test_no_more_than_so_many_run_at_once_and_stop_lets_them_finish(
    db: Database, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    running, most, go = 0, 0, asyncio.Event()

    async def work(_context: str, message: str, _command: Command) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1
        return message

    ids = [await ask(owner, f"task {n}", agent_id=agent) for n in range(4)]
    for key in ids:
        await until(owner, READY, key)
    executor = Executor(db, agent, work, parallel=2)
    async with executor:
        while running < 2:
            await asyncio.sleep(0)
        stopping = asyncio.create_task(executor.stop())
        await asyncio.sleep(0)
        go.set()
        await stopping
    states = [
        r["status"] for r in await owner.fetch("select status from agent_commands where agent_id = $1", agent)
    ]
    assert sorted(states) == ["completed", "completed", "ready", "ready"]
    assert most == 2

    # It can be run again. One that does not end in time is cancelled, and its command says so.
    go.clear()
    async with executor as late:
        while running < 2:
            await asyncio.sleep(0)
        with pytest.raises(Refused, match="runs already"):
            await executor.__aenter__()
        await late.stop(timeout=0.01)
    states = [
        r["status"] for r in await owner.fetch("select status from agent_commands where agent_id = $1", agent)
    ]
    assert sorted(states) == ["completed", "completed", "failed", "failed"]


async def test_no_command_is_left_running_by_an_executor_that_is_stopped_at_once(
    db: Database, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    async def work(_context: str, message: str, _command: Command) -> str:
        return message

    for key in [await ask(owner, f"task {n}", agent_id=agent) for n in range(12)]:
        await until(owner, READY, key)
    for turns in range(0, 24, 2):
        executor = Executor(db, agent, work)
        await executor.__aenter__()
        for _ in range(turns):
            await asyncio.sleep(0)
        await executor.stop(timeout=0)
    running = "select count(*) from agent_commands where agent_id = $1 and status = 'running'"
    assert await owner.fetchval(running, agent) == 0


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", ["claim_command", "complete_command"])
async def test_a_command_is_done_once_though_the_connection_is_cut(
    client_url: str, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str, at: str, after: bool
) -> None:
    done: list[UUID] = []

    async def work(_context: str, message: str, command: Command) -> str:
        if at == "complete_command":
            wire.cut(b"commit", after=after)
        done.append(command.id)
        return message

    with tempfile.TemporaryDirectory() as folder:
        async with CutWire(client_url, folder) as wire, Database(wire.url) as database:
            key = await ask(owner, "deploy the server", agent_id=agent)
            await until(owner, READY, key)
            if at == "claim_command":
                wire.cut(b"commit", after=after)
            async with Executor(database, agent, work, poll_seconds=NEVER):
                assert await outcome(owner, key) == ("completed", "deploy the server", 0)
            assert wire.cuts == 1
    assert done == [key]


async def test_an_executor_survives_an_outage_and_hears_of_commands_again(
    client_url: str,
    owner: asyncpg.Connection,
    client_daemon: DaemonProcess,
    agent: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(_context: str, message: str, _command: Command) -> str:
        return message

    with tempfile.TemporaryDirectory() as folder, caplog.at_level(logging.DEBUG, "memoryd_client"):
        async with (
            CutWire(client_url, folder) as wire,
            Database(wire.url) as database,
            Executor(database, agent, work, poll_seconds=NEVER),
        ):
            assert (await outcome(owner, await ask(owner, "one", agent_id=agent)))[0] == "completed"
            wire.end_all(close=True)
            key = await ask(owner, "a secret", agent_id=agent)
            await until(owner, READY, key)
            wire.closed = False
            assert (await outcome(owner, key))[0] == "completed"
    assert "secret" not in caplog.text


async def test_an_error_that_no_waiting_mends_ends_it(agent: str) -> None:
    executor = Executor(Database("mysql://nowhere/none"), agent, lambda _c, _m, _k: None)
    with pytest.raises(Refused, match="The URL of the database, or a file that it names, cannot be read"):
        await executor.run()


PROGRAM = """
import sys
from memoryd_client.sync import Executor

def work(context, message, command):
    print("begun", flush=True)
    if message == "wait":
        sys.stdin.readline()
    return sys.argv[3]

Executor(sys.argv[1], sys.argv[2], work, lease_seconds=float(sys.argv[4]) or None).run()
"""


async def program(url: str, agent: str, name: str, *, lease: float = 60) -> asyncio.subprocess.Process:
    """An executor in a process of its own. It says "begun" for each command; its output is the name."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, url, agent, name, str(lease),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "clients/python/src")},
    )  # fmt: skip


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
async def test_a_program_that_is_told_to_end_finishes_first(
    client_url: str, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str, end: signal.Signals
) -> None:
    key = await ask(owner, "wait", agent_id=agent)
    process = await program(client_url, agent, "done")
    assert process.stdout is not None
    assert process.stdin is not None
    assert await process.stdout.readline() == b"begun\n"
    process.send_signal(end)
    process.stdin.write(b"\n")
    assert await process.wait() == 0
    assert await outcome(owner, key) == ("completed", "done", 0)


@pytest.mark.parametrize("lease", [1, 0])
async def test_a_command_whose_executor_was_killed_is_run_again_if_it_had_a_lease(
    client_url: str, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str, lease: float
) -> None:
    key = await ask(owner, "wait", agent_id=agent)
    killed = await program(client_url, agent, "killed", lease=lease)
    assert killed.stdout is not None
    assert await killed.stdout.readline() == b"begun\n"
    killed.kill()
    await killed.wait()
    other = await program(client_url, agent, "other", lease=lease)
    assert other.stdout is not None
    if lease:
        assert await other.stdout.readline() == b"begun\n"
        assert other.stdin is not None
        other.stdin.write(b"\n")
        assert await outcome(owner, key) == ("completed", "other", 0)
    else:
        # It has had its turn at another one, and left this one alone.
        later = await ask(owner, "go on", agent_id=agent)
        assert (await outcome(owner, later))[0] == "completed"
        assert await owner.fetchval("select status from agent_commands where id = $1", key) == "running"
    other.terminate()
    await other.wait()


async def test_an_executor_that_lost_its_lease_stops_and_writes_nothing(
    db: Database,
    owner: asyncpg.Connection,
    client_daemon: DaemonProcess,
    agent: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun: asyncio.Queue[Command] = asyncio.Queue()
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def work(_context: str, _message: str, command: Command) -> str:
        begun.put_nowait(command)
        try:
            await asyncio.Event().wait()
        finally:
            ended.put_nowait("cancelled")
        return "never"

    key = await ask(owner, "a long task", agent_id=agent)
    async with Executor(db, agent, work, lease_seconds=1) as executor:
        first = await begun.get()
        await owner.execute(TAKE_AWAY, key)
        assert await ended.get() == "cancelled"
        second = await begun.get()
        assert (first.id, second.id) == (key, key)
        assert second.started_at > first.started_at
        with pytest.raises(asyncpg.PostgresError, match="claimed again meanwhile"):
            await owner.execute("select complete_command($1, 'late', 0, $2)", key, first.started_at)
        await executor.stop(timeout=0)
    assert (await outcome(owner, key))[:2] == ("failed", "The executor was stopped before this was done.")
    assert "a long task" not in caplog.text


async def test_a_long_task_keeps_its_lease(
    db: Database, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    until_now = "select lease_until from memoryd.executions where command_id = $1"
    renewed = "select lease_until > $2 from memoryd.executions where command_id = $1"
    finish = asyncio.Event()

    async def work(_context: str, _message: str, _command: Command) -> str:
        await finish.wait()
        return "done"

    key = await ask(owner, "a long task", agent_id=agent)
    async with Executor(db, agent, work, lease_seconds=1):
        lease = await until(owner, until_now, key)
        for _ in range(2):
            await until(owner, renewed, key, lease)
            lease = await owner.fetchval(until_now, key)
        finish.set()
        assert await outcome(owner, key) == ("completed", "done", 0)
    assert await owner.fetchval(until_now, key) is None


async def test_two_processes_do_each_command_once(
    client_url: str, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    both = [await program(client_url, agent, name) for name in ("one", "other")]
    waits = [await ask(owner, "wait", agent_id=agent) for _ in both]
    for process in both:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"begun\n"  # each has one of the two, so both work
    ids = [await ask(owner, f"task {n}", agent_id=agent) for n in range(10)]
    for process in both:
        assert process.stdin is not None
        process.stdin.write(b"\n")
    for key in [*waits, *ids]:
        assert (await outcome(owner, key))[0] == "completed"
    for process in both:
        process.send_signal(signal.SIGTERM)
    said = [(await process.communicate())[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert b"".join(said).count(b"begun") == len(ids)  # beside the two that were read
