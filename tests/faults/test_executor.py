"""The built-in executor with programs that misbehave: what they write is kept, what they leave behind is ended."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import UUID

import asyncpg
import psutil
import pytest

from tests.support.processes.daemons import Daemons
from tests.support.rows import ask
from tests.support.waiting import FINISHED, IDLE, until

MEMORY = "select * from agent_memory where command_id = $1"

# Until the test removes the file; half a minute at most.
WAIT = "for i in $(seq 1500); do [ -e {go} ] && break; sleep 0.02; done"

MAX_PER_AGENT = """
select agent_id, max(at_once) as most
from (
    select c.agent_id, (
        select count(*) from agent_commands o
        where o.agent_id = c.agent_id and o.started_at <= c.started_at and o.finished_at > c.started_at) as at_once
    from agent_commands c
) o
group by agent_id
"""

MAX_AT_ONCE = """
select max(at_once)
from (
    select (select count(*) from agent_commands o
            where o.started_at <= c.started_at and o.finished_at > c.started_at) as at_once
    from agent_commands c
) o
"""


def shell(folder: Path, script: str) -> str:
    """A setting that runs this script; `{go}` stands for a file that lets it go on."""
    path = folder / "program.sh"
    path.write_text(script.replace("{wait}", WAIT).replace("{go}", str(folder / "go")) + "\n")
    return f"sh {path}"


async def finished(connection: asyncpg.Connection, command: UUID) -> asyncpg.Record:
    """The command once it has ended and is remembered, exactly once."""
    await until(connection, FINISHED, command)
    await until(connection, IDLE)
    rows = await connection.fetch(MEMORY, command)
    assert len(rows) == 1
    assert await connection.fetchval("select count(*) from memoryd.executions") == 0
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    row = await connection.fetchrow("select * from agent_commands where id = $1", command)
    assert row is not None
    assert rows[0]["kind"] == ("outcome" if row["status"] == "completed" else "error")
    return row


async def gone(pid: int) -> bool:
    """Whether the process has ended."""
    try:
        psutil.Process(pid).wait(timeout=30)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


async def test_output_of_any_bytes_is_kept(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await daemons.start(
        executor_command=shell(tmp_path, r"cat; printf 'a\000b\377c\n'; printf 'trouble\n' >&2")
    )
    command = await ask(connection, "café 日本")
    row = await finished(connection, command)
    assert (row["status"], row["exit_code"]) == ("completed", 0)
    assert row["output"] == "café 日本\na�b�c\ntrouble\n"


@pytest.mark.parametrize("limit", [16_000_000, 100_000])
async def test_five_megabytes_of_output_are_kept_up_to_the_limit(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path, limit: int
) -> None:
    written = "".join(f"line {n}\n" for n in range(500_000)) + "deployed build 512\n"
    assert len(written) > 5_000_000
    program = tmp_path / "chatty.py"
    program.write_text("print(''.join(f'line {n}\\n' for n in range(500_000)) + 'deployed build 512')")
    await daemons.start(executor_command=f"{sys.executable} {program}", executor_output_bytes=limit)
    row = await finished(connection, await ask(connection, "do it"))
    if limit > len(written):
        assert row["output"] == written
    else:
        head, gap, tail = row["output"].partition("\n… ")
        assert gap
        assert written.startswith(head)
        assert written.endswith(tail.partition(" …\n")[2])
        assert 0.9 * limit < len(row["output"].encode()) < limit + 100
    memory = await connection.fetchrow(MEMORY, row["id"])
    assert memory is not None
    assert "deployed build 512" in memory["content"]
    assert len(memory["content"]) < 5_000


async def test_a_program_may_ignore_its_message(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await daemons.start(executor_command="true")
    row = await finished(connection, await ask(connection, "word " * 400_000))
    assert (row["status"], row["output"]) == ("completed", "")


async def test_the_time_limit_ends_the_program_and_all_it_started(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    script = "(trap '' TERM; echo ready; exec sleep 300) & echo $!; echo half done; wait"
    await daemons.start(executor_command=shell(tmp_path, script), executor_timeout_seconds=1.5)
    row = await finished(connection, await ask(connection, "do it"))
    assert (row["status"], row["exit_code"]) == ("failed", 124)
    assert "MEMORYD_EXECUTOR_TIMEOUT_SECONDS" in row["error"]
    said = set(row["output"].splitlines())
    assert said > {"ready", "half done"}
    (stubborn,) = said - {"ready", "half done"}
    assert await gone(int(stubborn))


async def test_processes_that_a_program_leaves_behind_do_not_delay_its_command(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """Both children keep the output open: one stays in the program's group, one leaves it."""
    leave = "import os; os.setsid(); print(os.getpid(), flush=True); os.execlp('sleep', 'sleep', '300')"
    script = f'sleep 300 & echo $!; {sys.executable} -c "{leave}" & while [ ! -e {{go}} ]; do sleep 0.02; done; echo all done'
    daemon = await daemons.start(executor_command=shell(tmp_path, script))
    command = await ask(connection, "do it")
    stayed, left = await until(
        connection,
        "select string_to_array(rtrim(output, e'\\n'), e'\\n') from agent_commands where id = $1 and output ~ '\\n.+\\n'",
        command,
    )
    (tmp_path / "go").touch()
    try:
        row = await finished(connection, command)
        assert (row["status"], row["exit_code"]) == ("completed", 0)
        assert row["output"] == f"{stayed}\n{left}\nall done\n"
        assert await gone(int(stayed))
        assert await daemon.stop() == 0
    finally:
        psutil.Process(int(left)).kill()


async def test_a_missing_program_fails_its_command_with_the_reason(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    await daemons.start(executor_command=program)
    program.unlink()
    row = await finished(connection, await ask(connection, "do it"))
    assert (row["status"], row["exit_code"]) == ("failed", 127)
    assert "could not be started" in row["error"]
    assert "MEMORYD_EXECUTOR_COMMAND" in row["error"]


@pytest.mark.parametrize("program", ["/nowhere/to/be/found --now", "/dev/null"])
async def test_a_daemon_whose_executor_command_names_no_program_refuses_to_start(
    daemons: Daemons, program: str
) -> None:
    daemon = await daemons.start(executor_command=program, wait=False)
    assert await daemon.process.wait() == 1
    assert "MEMORYD_EXECUTOR_COMMAND names" in daemon.text()


async def test_one_daemon_runs_at_most_executor_total_programs(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """Agents are invented freely: a limit for each of them is none."""
    await connection.execute(
        "insert into agent_commands (agent_id, message) select 'agent ' || n, 'x' from generate_series(1, 12) n"
    )
    await daemons.start(executor_command=shell(tmp_path, "{wait}"), executor_total=3)
    await until(connection, "select count(*) = 3 from agent_commands where status = 'running'")
    (tmp_path / "go").touch()
    await until(connection, "select bool_and(status = 'completed') from agent_commands")
    assert await connection.fetchval(MAX_AT_ONCE) == 3


async def test_the_program_is_not_given_the_database_url(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await daemons.start(executor_command=shell(tmp_path, "env"), openai_api_key="very-secret")
    row = await finished(connection, await ask(connection, "do it"))
    assert "MEMORYD_AGENT_ID=" in row["output"]
    assert "DATABASE_URL" not in row["output"]
    assert "very-secret" not in row["output"]


async def test_the_limit_of_running_commands_per_agent_holds_across_daemons(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    program = shell(tmp_path, "{wait}")
    for _ in range(2):
        await daemons.start(executor_command=program, executor_parallel=2, poll_seconds=0.1)
    await connection.execute(
        """
        insert into agent_commands (agent_id, message)
        select a, 'task ' || n from unnest('{alice,bob,carol}'::text[]) a, generate_series(1, 5) n
        """
    )
    await until(connection, "select count(*) = 9 from agent_commands where status = 'ready'")
    await until(connection, "select count(*) = 6 from agent_commands where status = 'running'")
    (tmp_path / "go").touch()
    await until(connection, "select bool_and(status = 'completed') from agent_commands")
    assert {r["agent_id"]: r["most"] for r in await connection.fetch(MAX_PER_AGENT)} == {
        "alice": 2,
        "bob": 2,
        "carol": 2,
    }


async def test_output_is_seen_while_the_program_runs(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await daemons.start(executor_command=shell(tmp_path, "echo first; {wait}; echo second"))
    command = await ask(connection, "do it")
    await until(
        connection,
        "select output = e'first\\n' and status = 'running' from agent_commands where id = $1",
        command,
    )
    (tmp_path / "go").touch()
    assert (await finished(connection, command))["output"] == "first\nsecond\n"


async def test_a_command_whose_daemon_died_is_run_again_and_remembered_once(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    program = shell(tmp_path, 'echo "$$" >> {go}.runs; {wait}; echo "run by $$"')
    first = await daemons.start(executor_command=program, claim_seconds=1)
    command = await ask(connection, "do it")
    await until(connection, "select exists (select from memoryd.executions)")
    await first.kill()
    second = await daemons.start(executor_command=program, claim_seconds=1)
    await until(connection, "select tries = 2 from memoryd.executions")
    assert (await second.event("commands_taken_over"))["again"] == 1
    (tmp_path / "go").touch()
    row = await finished(connection, command)
    # The first run may have died before its first line, since nothing but the daemon's lease tells of it.
    assert row["output"] == f"run by {(tmp_path / 'go.runs').read_text().split()[-1]}\n"
    assert row["status"] == "completed"


async def test_a_command_whose_daemons_keep_dying_fails_with_the_reason(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    program = shell(tmp_path, "{wait}")
    command = await ask(connection, "do it")
    for tries in (1, 2, 3):
        daemon = await daemons.start(executor_command=program, claim_seconds=1)
        await until(
            connection, "select tries = $1 from memoryd.executions where lease_until <> 'infinity'", tries
        )
        await daemon.kill()
    await daemons.start(executor_command=program, claim_seconds=1)
    row = await finished(connection, command)
    assert (row["status"], row["exit_code"]) == ("failed", None)
    assert row["error"] == "its executor died, 3 times over"
    (tmp_path / "go").touch()


async def test_a_daemon_whose_claim_was_taken_over_stops_its_program_and_writes_nothing(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    program = shell(tmp_path, 'echo "$$"; {wait}; echo "run by $$"')
    slow = await daemons.start(executor_command=program, claim_seconds=30)
    command = await ask(connection, "do it")
    pid = await until(connection, "select rtrim(output, e'\\n') from agent_commands where id = $1", command)
    other = await daemons.start(executor_command=program, claim_seconds=1)
    slow.process.send_signal(19)
    await connection.execute("update memoryd.executions set lease_until = now() - interval '1 second'")
    await other.event("commands_taken_over")
    await until(connection, "select tries = 2 from memoryd.executions")
    slow.process.send_signal(18)
    (tmp_path / "go").touch()
    row = await finished(connection, command)
    assert row["output"].splitlines()[0] != pid
    assert await slow.stop() == 0
    assert await gone(int(pid))
