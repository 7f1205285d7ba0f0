"""memoryd_client.sync: the same calls without async, from many threads, after a fork, and when a client is killed."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from uuid import UUID, uuid4

import asyncpg
import memoryd_client
import pytest
from memoryd_client import Command, Refused, sync

from tests.support.processes.daemons import DaemonProcess
from tests.support.repository import ROOT
from tests.support.rows import ask
from tests.support.waiting import FINISHED, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

T = TypeVar("T")

SESSIONS = """
select array(select pid from pg_stat_activity where application_name = 'memoryd-client' and datname = current_database())
"""


async def apart(work: Callable[[], T]) -> T:
    """Does it in a thread, as a program without async would in its own."""
    return await asyncio.to_thread(work)


async def test_every_call_of_the_async_classes_is_there() -> None:
    for name in ("Database", "Memory", "ChatMemory", "Knowledge", "Executor"):
        one, other = getattr(memoryd_client, name), getattr(sync, name)
        public = {n for n, _ in inspect.getmembers(one, inspect.isfunction) if not n.startswith("_")}
        here = {n for n, _ in inspect.getmembers(other, inspect.isfunction) if not n.startswith("_")}
        assert public - here <= {"read", "write", "listen", "stop_soon"}, name
        assert str(inspect.signature(one.__init__)) == str(inspect.signature(other.__init__)), name


async def test_memories_and_conversations(
    client_url: str, client_daemon: DaemonProcess, agent: str, user: UUID
) -> None:
    def work() -> None:
        with sync.Database(client_url, size=3) as database:
            memory = sync.Memory(database, agent=agent)
            with ThreadPoolExecutor(6) as threads:
                stored = list(threads.map(lambda n: memory.remember(f"heron {n}"), range(12)))
            memory.wait_indexed([s.id for s in stored], timeout=60)
            found = memory.recall("heron", count=20)
            assert {f.id for f in found} == {s.id for s in stored}
            memory.feedback(found, useful=False)
            assert memory.forget([s.id for s in stored]) == 12

            chat = sync.ChatMemory(database, user=user)
            session = uuid4()
            assert chat.prompt(session, "Hello")[-1] == {"role": "user", "content": "Hello"}
            with chat.ai_message(session) as said:
                for piece in ("Good ", "day"):
                    said.add(piece)
            assert [m.content for m in chat.load_context(session)] == ["Hello", "Good day"]
            assert said.id == chat.get_messages(session)[-1].id
            with pytest.raises(Refused, match="content is blank"):
                chat.add_user_message(session, " ")

    await apart(work)


async def test_an_executor_beside_other_work(
    client_url: str, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    begun = threading.Event()

    def work(_context: str, message: str, _command: Command) -> str:
        begun.set()
        return message.upper()

    executor = sync.Executor(client_url, agent, work)
    await apart(executor.__enter__)
    key = await ask(owner, "deploy", agent_id=agent)
    await until(owner, FINISHED, key)
    await apart(executor.stop)
    assert begun.is_set()
    assert await owner.fetchval("select output from agent_commands where id = $1", key) == "DEPLOY"


async def test_a_call_from_its_own_loop_says_so_instead_of_waiting_for_itself(
    client_url: str, agent: str
) -> None:
    async def wrong() -> None:
        with sync.Memory(client_url, agent=agent) as memory:
            memory.recall("heron")

    with pytest.raises(RuntimeError, match="in async code use the classes of memoryd_client"):
        await apart(lambda: sync._LOOP.run(wrong()))


PROGRAM = """
import os, sys
from uuid import UUID
from memoryd_client.sync import Memory

memory = Memory(sys.argv[1], agent=sys.argv[2])
memory.remember("heron of the parent")
if sys.argv[3] == "close":
    print("open", flush=True)
    sys.stdin.readline()
    if not (child := os.fork()):
        memory.close()  # as a `with` block does that the child leaves
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    memory.remember("heron of the parent alone")
    print("still open", flush=True)
    sys.stdin.readline()
elif sys.argv[3] == "fork":
    child = os.fork()
    memory.remember("heron of both, the parent" if child else "heron of both, the child")
    assert len(memory.recall("heron")) >= 2
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    memory.remember("heron at the end")
else:
    print("waits", flush=True)
    memory.wait_indexed(UUID(sys.argv[3]), timeout=3600)
"""


async def program(url: str, agent: str, what: str) -> asyncio.subprocess.Process:
    """A client in a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error::ResourceWarning", "-c", PROGRAM, url, agent, what,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "clients/python/src")},
    )  # fmt: skip


async def test_parent_and_child_both_go_on_after_a_fork(
    client_url: str, owner: asyncpg.Connection, agent: str
) -> None:
    process = await program(client_url, agent, "fork")
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    stored = await owner.fetch("select content from agent_memory where agent_id = $1 order by 1", agent)
    assert [r["content"] for r in stored] == [
        "heron at the end",
        "heron of both, the child",
        "heron of both, the parent",
        "heron of the parent",
    ]


async def test_a_child_that_closes_what_it_inherited_leaves_the_parent_s_connections_alone(
    client_url: str, owner: asyncpg.Connection, agent: str
) -> None:
    others = set(await owner.fetchval(SESSIONS))
    process = await program(client_url, agent, "close")
    assert process.stdout is not None
    assert process.stdin is not None
    its = []
    for said in b"open\n", b"still open\n":
        assert await process.stdout.readline() == said
        its.append(set(await owner.fetchval(SESSIONS)) - others)
        process.stdin.write(b"\n")
    assert await process.wait() == 0
    assert len(its[0]) == 1
    assert its[0] == its[1]


LOOPS = """
import asyncio, sys
from memoryd_client import Database, Memory

database = Database(sys.argv[1])
memory = Memory(database, agent=sys.argv[2])

async def twice(number):
    await asyncio.gather(memory.remember(f"one {number}"), memory.remember(f"two {number}"))

for number in range(3):
    asyncio.run(twice(number))
print("done", flush=True)
sys.stdin.readline()
asyncio.run(database.close())
print("closed", flush=True)
sys.stdin.readline()
"""


async def test_one_database_in_several_event_loops_keeps_the_connections_of_the_last_alone(
    client_url: str, owner: asyncpg.Connection, agent: str
) -> None:
    others = await owner.fetchval(SESSIONS)
    left = (
        "select count(*) <= $2 from pg_stat_activity where application_name = 'memoryd-client' "
        "and datname = current_database() and pid <> all($1)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LOOPS, client_url, agent,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "clients/python/src")},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    for said, most in (b"done\n", 2), (b"closed\n", 0):
        assert await process.stdout.readline() == said
        await until(owner, left, others, most)
        process.stdin.write(b"\n")
    assert await process.wait() == 0
    assert await owner.fetchval("select count(*) from agent_memory where agent_id = $1", agent) == 6


async def test_a_client_that_is_killed_while_it_waits_leaves_nothing_behind(
    client_url: str, owner: asyncpg.Connection, agent: str
) -> None:
    async with owner.transaction():
        key = await owner.fetchval(
            "insert into agent_memory (agent_id, content) values ($1, 'bees') returning id", agent
        )
        await owner.execute("delete from memoryd.jobs where ref = $1", key)
    before = await owner.fetchval(SESSIONS)
    process = await program(client_url, agent, str(key))
    assert process.stdout is not None
    assert await process.stdout.readline() == b"waits\n"
    [its] = set(await owner.fetchval(SESSIONS)) - set(before)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await until(owner, "select not exists (select from pg_stat_activity where pid = $1)", its)
    assert await owner.fetchval("select count(*) from agent_memory where agent_id = $1", agent) == 2
