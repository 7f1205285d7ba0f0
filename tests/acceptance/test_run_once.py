"""memoryd run --once: it works until nothing is left, and ends."""

from __future__ import annotations

import asyncio
import json

import asyncpg

from tests.support.processes.commands import Commands
from tests.support.rows import ask, remember
from tests.support.waiting import IDLE

UNINDEXED = "select count(*) from memoryd.unindexed"
EXPIRED = """
insert into agent_memory (agent_id, kind, content, expires_at)
values ('alice', 'note', 'gone by now', now() - interval '1 hour')
"""
# A row that cannot be indexed, whatever is tried.
FAILING = """
create function refuse() returns trigger language plpgsql as $$ begin raise exception 'never'; end $$;
create trigger refuse before insert on memoryd.entries for each row
when (new.role is null and new.agent_id = 'mallory') execute function refuse();
"""


def events(log: str) -> list[str]:
    """What a daemon has logged, in order."""
    return [json.loads(line)["event"] for line in log.splitlines() if line.startswith("{")]


async def test_it_does_what_is_there_and_ends(memoryd: Commands, connection: asyncpg.Connection) -> None:
    for number in range(20):
        await remember(connection, f"service {number} answers slowly", agent_id="alice")
    await connection.execute(EXPIRED)
    command = await ask(connection, "restart service 7")
    done = await memoryd("run", "--once")
    assert done.code == 0, done.err
    assert await connection.fetchval(UNINDEXED) == 0
    # Follow-up jobs too: links, counts.
    assert await connection.fetchval(IDLE)
    assert await connection.fetchval("select count(*) from memory_associations") > 0
    assert await connection.fetchval("select status from agent_commands where id = $1", command) == "ready"
    # Clean-ups whose time has come.
    assert await connection.fetchval("select count(*) from agent_memory where content = 'gone by now'") == 0
    assert events(done.err)[-3:] == ["nothing_left", "summary", "daemon_stopped"]
    again = await memoryd("run", "--once", http=0)
    assert again.code == 0
    assert "http_listening" not in events(again.err)


async def test_its_executor_ends_with_its_commands(memoryd: Commands, connection: asyncpg.Connection) -> None:
    for number in range(3):
        await ask(connection, f"count to {number}")
    done = await memoryd("run", "--once", executor_command="/bin/cat")
    assert done.code == 0, done.err
    completed = await connection.fetchval("select count(*) from agent_commands where status = 'completed'")
    assert completed == 3, done.err
    assert await connection.fetchval("select count(*) from agent_memory where command_id is not null") == 3


async def test_commands_that_wait_for_another_executor_s_are_left(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    """An agent runs two commands at once at most, and somebody else is at two of its."""
    for number in range(3):
        await ask(connection, f"count to {number}")
    assert (await memoryd("run", "--once")).code == 0
    for _ in range(2):
        await connection.execute("select claim_command('alice')")
    done = await memoryd("run", "--once", executor_command="/bin/cat", executor_parallel=2)
    assert done.code == 0, done.err
    assert await connection.fetchval("select count(*) from agent_commands where status = 'ready'") == 1


async def test_two_at_once_share_the_work(memoryd: Commands, connection: asyncpg.Connection) -> None:
    for number in range(200):
        await remember(connection, f"service {number} answers slowly", agent_id=f"agent{number % 7}")
    ended = await asyncio.gather(*(memoryd("run", "--once") for _ in range(2)))
    assert [one.code for one in ended] == [0, 0]
    assert await connection.fetchval(UNINDEXED) == 0
    assert await connection.fetchval(IDLE)


async def test_what_always_fails_is_left(memoryd: Commands, connection: asyncpg.Connection) -> None:
    await connection.execute(FAILING)
    await remember(connection, "this one is refused", agent_id="mallory")
    await remember(connection, "this one is not", agent_id="alice")
    done = await memoryd("run", "--once")
    assert done.code == 0, done.err
    assert await connection.fetchval(UNINDEXED) == 1
    assert await connection.fetchval("select last_error from memoryd.jobs where topic = 'index'") is not None
