"""memoryd replay: a history, loaded and remembered."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from memoryd_client import id_of

from tests.support.content.index import INDEXED_MEMORIES
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import STOP_SECONDS, DaemonProcess
from tests.support.rows import column

TIME = "2026-05-24T13:38:03-05:00"
COMMANDS = "select * from agent_commands order by created_at, id"


def line(**fields: Any) -> bytes:
    """A line of a file: a good task, with these fields."""
    return (
        json.dumps({"agent_id": "alice", "message": "deploy", "created_at": TIME} | fields).encode() + b"\n"
    )


def at(hour: int, **fields: Any) -> bytes:
    """A task given at this hour."""
    return line(created_at=f"2026-05-24T{hour:02}:00:00Z", **fields)


@pytest.fixture
def history(tmp_path: Path) -> Callable[..., str]:
    """Writes a file of these lines and returns its name."""

    def write(*lines: bytes) -> str:
        path = tmp_path / "history.jsonl"
        path.write_bytes(b"".join(lines))
        return str(path)

    return write


async def test_tasks_keep_all_that_they_have(
    memoryd: Commands, connection: asyncpg.Connection, history: Callable[..., str]
) -> None:
    user, session = "5f0c5a4e-0000-4000-8000-000000000001", "telegram:42"
    file = history(
        at(
            9,
            message="build",
            output="done",
            exit_code=0,
            metadata={"build": 512},
            user_id=user,
            session_id=session,
        )
        + at(10, message="deploy", output="no", exit_code=3, finished_at="2026-05-24T10:05:00Z")
        + at(11, message="rest", error="lost")
        + at(12, message="wake")
    )
    done = await memoryd("replay", file)
    assert done.code == 0
    assert done.out.startswith("Loaded 4 tasks in ")
    rows = await connection.fetch(COMMANDS)
    assert [row["status"] for row in rows] == ["completed", "failed", "failed", "completed"]
    assert [row["exit_code"] for row in rows] == [0, 3, None, None]
    assert (str(rows[0]["user_id"]), str(rows[0]["session_id"])) == (user, str(id_of(session)))
    assert json.loads(rows[0]["metadata"]) == {"build": 512}
    assert rows[0]["output"] == "done"
    assert rows[0]["created_at"] == rows[0]["started_at"] == rows[0]["finished_at"]
    assert rows[1]["finished_at"].isoformat() == "2026-05-24T10:05:00+00:00"
    assert rows[2]["error"] == "lost"
    assert await connection.fetchval("select count(*) from memoryd.jobs where topic = 'capture'") == 4


BAD = {
    b"{": "is not JSON",
    b"[1]": "is not a JSON object",
    b"\xff": "is not JSON",
    b"[" * 100_000: "is not JSON",
    line(agent_id=None): "has no agent_id",
    line(agent_id=" "): "has no agent_id",
    line(agent_id="_shared"): "agent_id that no agent can have",
    line(agent_id="a" * 201): "agent_id that no agent can have",
    line(agent_id=7): "has agent_id 7, which is not a text",
    line(message=" \n"): "has no message",
    line(message=["deploy"]): "not a text",
    line(created_at=None): "has no created_at",
    line(created_at="yesterday"): "which is no date",
    line(created_at=1764000000): "which is no date",
    line(finished_at="2026-13-01"): "which is no date",
    line(exit_code="0"): 'has exit_code "0", which is not a 32-bit integer',
    line(exit_code=True): "which is not a 32-bit integer",
    line(exit_code=2**31): "which is not a 32-bit integer",
    line(output=5): "not a text",
    line(user_id="5f0c5a4e-0000-4000-8000-00000000001"): "has a wrong user_id: An id is almost a UUID",
    line(user_id="\ud800"): "has a wrong user_id: An id has a lone surrogate",
    line(session_id=5): "not a text",
    line(metadata="x"): "metadata that is not a JSON object",
    line(metadata={"x": float("inf")}): "metadata that Postgres cannot store",
    # Only the database knows: to its regular expressions this is white space.
    line(message="\u3000"): "has no message",
}


async def test_bad_lines_are_named_and_the_rest_goes_through(
    memoryd: Commands, connection: asyncpg.Connection, history: Callable[..., str]
) -> None:
    lines = [
        part for bad in BAD for part in (line(message=f"before {len(bad)}"), bad.rstrip(b"\n") + b"\n", b"\n")
    ]
    file = history(*lines)
    done = await memoryd("replay", file, "--json")
    assert done.code == 1
    assert done.json["tasks"] == len(BAD)
    assert done.json["skipped"] == len(BAD)
    assert await connection.fetchval("select count(*) from agent_commands") == len(BAD)
    complaints = done.err.splitlines()
    for number, (complaint, reason) in enumerate(zip(complaints, BAD.values(), strict=False)):
        assert complaint.startswith(f"line {3 * number + 2} ")
        assert reason in complaint
    assert len(complaints) == len(BAD)


async def test_of_thousands_of_bad_lines_a_few_are_named(
    memoryd: Commands, history: Callable[..., str]
) -> None:
    file = history(*[b"nonsense\n"] * 20_000)
    done = await memoryd("replay", file)
    assert done.code == 1
    assert done.err.splitlines()[19:] == [
        "line 20 is not JSON",
        "and 19,980 more; --json names all, on stderr",
        "20,000 lines skipped.",
    ]
    assert (await memoryd("replay", file, "--json")).err.count("\n") == 20_000


async def test_a_task_that_the_database_refuses_is_skipped_alone(
    memoryd: Commands, connection: asyncpg.Connection, history: Callable[..., str]
) -> None:
    await connection.execute("alter table agent_commands add check (message <> 'forbidden')")
    tasks = [at(hour, message=f"task {hour}") for hour in range(20)]
    file = history(*tasks[:7], at(7, message="forbidden"), *tasks[7:])
    done = await memoryd("replay", file, "--times", "2")
    assert done.code == 1
    assert done.out.startswith("Loaded 40 tasks")
    assert done.err.startswith("line 8 was refused by the database")
    assert done.err.count("line 8") == 1
    assert "1 line skipped." in done.err


async def test_texts_that_postgres_cannot_store_are_repaired(
    memoryd: Commands, connection: asyncpg.Connection, history: Callable[..., str]
) -> None:
    file = history(
        at(9, message="a\x00b", output="c\ud800d", metadata={"e\x00": ["f\x00", "g\\u0000"]})
        + at(10, message="raw").replace(b"raw", b"r\x00w")
    )
    done = await memoryd("replay", file)
    assert (done.code, done.err) == (0, "")
    first, second = await connection.fetch(COMMANDS)
    assert first["message"] == "a\ufffdb"
    assert first["output"] == "c\ufffdd"
    assert second["message"] == "r\ufffdw"
    assert json.loads(first["metadata"]) == {"e\ufffd": ["f\ufffd", "g\\u0000"]}


async def test_a_file_out_of_order_is_loaded_in_order_of_time(
    memoryd: Commands, connection: asyncpg.Connection, history: Callable[..., str]
) -> None:
    hours = [13, 9, 22, 0, 17, 9]
    file = history(*(at(hour, message=f"task {n}") for n, hour in enumerate(hours)))
    assert (await memoryd("replay", file)).code == 0
    by_job = await connection.fetch(
        "select c.message from memoryd.jobs j join agent_commands c on c.id = j.ref order by j.id"
    )
    assert [row["message"] for row in by_job][:1] == ["task 3"]
    assert [row["message"] for row in by_job][-1:] == ["task 2"]
    assert {row["message"] for row in by_job[1:3]} == {"task 1", "task 5"}


async def test_stdin_can_be_repeated_and_moved_to_now(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    done = await memoryd(
        "replay", "-", "--times", "3", "--shift", stdin=at(9, message="a") + at(11, message="b")
    )
    assert done.code == 0
    rows = await connection.fetch(COMMANDS)
    assert [row["message"] for row in rows] == ["a", "b", "a", "b", "a", "b"]
    ages = await connection.fetch(
        "select extract(epoch from now() - created_at)::float8 as age from agent_commands order by created_at desc"
    )
    newest = ages[0]["age"]
    assert 0 <= newest < 30
    assert [round((row["age"] - newest) / 3600, 1) for row in ages] == [0, 2, 2, 4, 4, 6]


async def test_until_done_waits_for_the_daemon(
    memoryd: Commands, connection: asyncpg.Connection, daemon: DaemonProcess, history: Callable[..., str]
) -> None:
    file = history(b"".join(at(n % 24, message=f"task {n}", agent_id=f"agent {n % 7}") for n in range(600)))
    done = await memoryd("replay", file, "--until-done", "--json")
    assert done.code == 0
    assert daemon.process.returncode is None
    assert done.json["tasks"] == 600
    assert done.json["discarded"] == 0
    assert done.json["remembered_seconds"] >= done.json["load_seconds"] > 0
    assert len(await column(connection, INDEXED_MEMORIES)) == 600
    assert await connection.fetchval("select count(*) from memoryd.jobs") == 0


async def test_until_done_without_a_daemon_is_refused_at_once(
    memoryd: Commands, connection: asyncpg.Connection, history: Callable[..., str]
) -> None:
    file = history(at(9))
    ended = await memoryd("replay", file, "--until-done")
    assert ended.code == 1
    assert "memoryd run" in ended.err
    assert await connection.fetchval("select count(*) from agent_commands") == 0


async def test_an_empty_file_has_no_tasks(memoryd: Commands, history: Callable[..., str]) -> None:
    file = history(b"\n\n")
    assert (await memoryd("replay", file, "--shift")).out.startswith("Loaded 0 tasks")


async def test_a_missing_file_is_reported(memoryd: Commands) -> None:
    ended = await memoryd("replay", "nowhere.jsonl")
    assert ended.code == 1
    assert ended.err == "nowhere.jsonl cannot be read: No such file or directory.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_while_it_waits_for_its_input(
    memoryd: Commands, number: signal.Signals
) -> None:
    waiting = await memoryd.start("replay", "-")
    assert waiting.stdin is not None
    waiting.stdin.write(line(message="x" * 1_000_000))
    await waiting.stdin.drain()  # so it reads
    waiting.send_signal(number)
    # Before there is a server to stop, no signal need be caught.
    assert await asyncio.wait_for(waiting.wait(), STOP_SECONDS) in (128 + number, -number)
