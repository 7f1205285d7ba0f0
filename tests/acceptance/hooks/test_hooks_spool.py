"""What `memoryd hook` keeps in its folder while the database is away, refuses, or takes no rows, and loses to no kill."""

from __future__ import annotations

import asyncio
import json
import os
import random
from contextlib import suppress
from uuid import uuid4

import asyncpg
import psutil
import pytest

from tests.support.database.schemas import connected
from tests.support.processes.coding_agent import CONCLUDED, OF, CodingAgent
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

BLOCKED = (
    "from pg_stat_activity where query ~ 'update agent_memory old' and cardinality(pg_blocking_pids(pid)) > 0"
)
ENDING, CUT = f"select exists (select {BLOCKED})", f"select pg_terminate_backend(pid, 5000) {BLOCKED}"
ASKING = (
    "select query from pg_stat_activity "
    "where query ~ 'insert into memory_requests' and cardinality(pg_blocking_pids(pid)) > 0"
)
NOWHERE = "postgresql://nobody@/none?host=/nowhere/at/all"


async def test_while_the_database_is_away_all_is_kept_and_stored_once_later(
    claude: CodingAgent, url: str, db: asyncpg.Connection, agent: str
) -> None:
    claude.configure(NOWHERE, agent)
    assert await claude.tell("UserPromptSubmit", prompt="deploy the server") is None
    for session in ("a", "b"):
        await claude.work(f"task {session}", CONCLUDED, session=session)
    assert len(claude.spooled) == 2
    claude.configure(url, agent)
    (claude.state / "away").unlink()
    # Two hosts find it back at once.
    await asyncio.gather(*(claude.work("task c", CONCLUDED, session=s) for s in ("c", "d")))
    assert not claude.spooled
    contents = [r["content"].splitlines()[0] for r in await db.fetch(OF, agent)]
    assert contents == ["Asked: task a", "Asked: task b", "Asked: task c", "Asked: task c"]


async def test_what_the_database_refuses_is_put_aside_alone(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    (claude.state / "spool").mkdir(parents=True)
    wrong = {
        "id": str(uuid4()),
        "kind": "a kind of its own",
        "content": "x",
        "metadata": {},
        "created_at": "2026-03-01",
    }
    (claude.state / "spool" / f"0-{wrong['id']}.json").write_text(json.dumps(wrong))
    (claude.state / "spool" / "1-torn.json").write_text('{"id": ')
    (claude.state / "spool" / "2-odd.json").mkdir()
    (claude.state / "spool" / "3-odd.json").write_text("[1]")
    await claude.work("a good one", CONCLUDED)
    assert len(await db.fetch(OF, agent)) == 1
    assert not claude.spooled
    assert len(list((claude.state / "refused").iterdir())) == 4


async def test_a_full_spool_keeps_the_oldest(claude: CodingAgent) -> None:
    claude.configure(NOWHERE)
    spool = claude.state / "spool"
    spool.mkdir(parents=True)
    for number in range(2000):
        (spool / f"{number:020d}-x.json").touch()
    await claude.work("one more", CONCLUDED)
    assert len(claude.spooled) == 2000
    assert (claude.state / "dropped").stat().st_size == 1


async def test_a_hook_that_is_killed_loses_nothing_of_those_before(
    claude: CodingAgent, url: str, db: asyncpg.Connection, agent: str
) -> None:
    done = 0
    for number in range(10):
        await claude.work(f"task {number}", CONCLUDED, session=f"s{number}")
        said = json.dumps({"session_id": "broken", "cwd": str(claude.project), "prompt": f"go {number}"})
        process = await claude.start("UserPromptSubmit", said.encode())
        await asyncio.sleep(random.uniform(0, 0.1))
        with suppress(ProcessLookupError):  # it was quicker
            process.kill()
        await process.wait()
        done += 1
    assert await db.fetchval("select count(*) from agent_memory where agent_id = $1", agent) == done
    running = [p.info for p in psutil.process_iter(["cmdline", "ppid"])]
    assert not [p for p in running if p["ppid"] == 1 and "daemon hook" in " ".join(p["cmdline"] or ())]


SECRETS = "Always use pnpm. Remember: the password is sunflower. Fix the build."


async def kept_of(claude: CodingAgent, db: asyncpg.Connection, agent: str) -> str:
    """All that is kept, in files and in the database."""
    files = [path.read_text() for path in claude.state.rglob("*") if path.is_file()]
    rows = await db.fetch("select m::text from agent_memory m where agent_id = $1", agent)
    asked = await db.fetch("select q::text from memory_queries q where agent_id = $1", agent)
    waiting = await db.fetch("select r::text from memory_requests r where agent_id = $1", agent)
    return "\n".join([*files, *(row[0] for row in (*rows, *asked, *waiting))])


async def test_a_hook_that_is_killed_with_a_refused_rule_keeps_nothing_of_it(
    claude: CodingAgent, url: str, db: asyncpg.Connection, agent: str
) -> None:
    connected = asyncio.Event()

    async def answer_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await _reader.read()
        writer.close()

    said = json.dumps({"session_id": "s1", "cwd": str(claude.project), "prompt": SECRETS}).encode()
    async with await asyncio.start_server(answer_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        claude.configure(f"postgresql://nobody@127.0.0.1:{port}/none", agent)
        process = await claude.start("UserPromptSubmit", said)
        await asyncio.wait_for(connected.wait(), 15)
        process.kill()
        await process.wait()
    claude.configure(url, agent)
    for _ in range(2):
        await claude.tell("Stop", last_assistant_message=CONCLUDED)
    assert "sunflower" not in await kept_of(claude, db, agent)
    turn, rule = sorted((row["content"] for row in await db.fetch(OF, agent)), reverse=True)
    assert rule == "Always use pnpm"
    assert turn.startswith("Asked: Always use pnpm. Remember: [secret]. Fix the build.")


async def test_a_hook_that_is_killed_at_any_time_keeps_nothing_of_a_refused_rule(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    for number in range(10):
        session = f"s{number}"
        said = json.dumps({"session_id": session, "cwd": str(claude.project), "prompt": SECRETS})
        process = await claude.start("UserPromptSubmit", said.encode())
        await asyncio.sleep(random.uniform(0, 0.2))
        with suppress(ProcessLookupError):  # it was quicker
            process.kill()
        await process.wait()
        for _ in range(2):
            await claude.tell("Stop", session_id=session, last_assistant_message=CONCLUDED)
        turns = await db.fetch(
            "select content from agent_memory where agent_id = $1 and metadata ->> 'session' = $2"
            " and kind = 'outcome'",
            agent,
            session,
        )
        assert len(turns) <= 1  # none of a hook that was killed before it had read its prompt
    assert "sunflower" not in await kept_of(claude, db, agent)


async def test_a_rule_whose_hook_is_killed_before_it_ends_another_ends_it_later(
    claude: CodingAgent, url: str, db: asyncpg.Connection, agent: str
) -> None:
    await claude.tell("UserPromptSubmit", session_id="s1", prompt="always use pnpm")
    said = {"session_id": "s2", "cwd": str(claude.project), "prompt": "never use pnpm"}
    async with connected(url) as other, other.transaction():
        # The older rule cannot be ended now.
        await other.execute("select from agent_memory where agent_id = $1 for update", agent)
        process = await claude.start("UserPromptSubmit", json.dumps(said).encode())
        await until(db, ENDING)
        process.kill()
        await process.wait()
        await db.execute(CUT)
    await claude.tell("Stop", session_id="s2", last_assistant_message=CONCLUDED)
    rules = (
        "select content from agent_memory where agent_id = $1 and superseded_by is null and metadata ? 'rule'"
    )
    assert [row[0] for row in await db.fetch(rules, agent)] == ["never use pnpm"]
    assert not claude.spooled


async def test_what_a_prompt_says_stands_in_no_statement(
    claude: CodingAgent, url: str, db: asyncpg.Connection
) -> None:
    """Else the server would log it with a statement that fails or takes long, and others would see it in pg_stat_activity."""
    said = {"session_id": "s1", "cwd": str(claude.project), "prompt": "where do the quaggas live"}
    async with connected(url) as other, other.transaction():
        await other.execute("lock table memory_requests in share mode")
        process = await claude.start("UserPromptSubmit", json.dumps(said).encode())
        statement = await until(db, ASKING)
    await process.wait()
    assert "quaggas" not in statement


async def test_a_database_that_takes_no_rows_now_refuses_none(
    claude: CodingAgent, url: str, db: asyncpg.Connection, agent: str
) -> None:
    claude.configure(url + "&options=-c%20default_transaction_read_only%3Don", agent)
    await claude.work("a good one", CONCLUDED)
    assert len(claude.spooled) == 1
    claude.configure(url, agent)
    (claude.state / "away").unlink()
    await claude.work("another", CONCLUDED, session="s2")
    assert len(await db.fetch(OF, agent)) == 2


async def test_the_folder_of_the_hooks_is_the_owners_alone(claude: CodingAgent) -> None:
    before = os.umask(0)
    try:
        await claude.tell("UserPromptSubmit", prompt="deploy")
    finally:
        os.umask(before)
    for path in (claude.state, claude.state.parent, claude.state / "spool", *claude.state.glob("*.jsonl")):
        assert path.stat().st_mode & 0o077 == 0, path
