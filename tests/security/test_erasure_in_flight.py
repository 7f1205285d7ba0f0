"""An erasure also covers everything that is under way: of whatever a daemon or an agent was writing nothing comes back."""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB
from tests.support.access.users import ERASE, found
from tests.support.processes.daemons import Daemons
from tests.support.processes.paused import gate_closed, meanwhile, paused, pausing
from tests.support.rows import ask, column, embedding, insert, remember
from tests.support.waiting import ANSWERED, FINISHED, IDLE, READY, awaited, until

SECRET = "quokkazephyr"

Act = Callable[[asyncpg.Connection], Awaitable[object]]


async def nothing_left(connection: asyncpg.Connection, of: str = "") -> None:
    """Once the daemons are done nothing of the user is anywhere, and nothing went wrong."""
    await until(connection, IDLE)
    assert await found(connection, SECRET) == {}, of
    assert await found(connection, str(ANN)) == {}, of
    assert await connection.fetch("select topic, error from memoryd.dead_letters") == [], of


async def command(connection: asyncpg.Connection) -> object:
    return await ask(connection, f"find the {SECRET}", user_id=ANN, metadata=json.dumps({"why": SECRET}))


async def outcome(connection: asyncpg.Connection) -> object:
    return await ask(connection, f"find {SECRET}", user_id=ANN, status="completed", output=f"found {SECRET}")


async def memory(connection: asyncpg.Connection) -> object:
    return await remember(
        connection, f"the {SECRET} is a secret", user_id=ANN, metadata=json.dumps({"a": SECRET})
    )


async def message(connection: asyncpg.Connection) -> object:
    return await connection.execute(
        "insert into conversation_messages (session_id, user_id, role, speaker, content) "
        "select $1, $2, 'user', $3, $3 || ' said so ' || n from generate_series(1, 5) n", uuid4(), ANN, SECRET,
    )  # fmt: skip


async def document(connection: asyncpg.Connection) -> object:
    owner = await insert(connection, "documents", {"user_id": ANN, "title": SECRET, "content": SECRET})
    return await insert(
        connection,
        "memory_chunks",
        {"document_id": owner, "chunk_index": 0, "chunk_text": f"part of {SECRET}", "context": SECRET},
    )


async def knowledge(connection: asyncpg.Connection) -> object:
    return await insert(connection, "shared_knowledge", {"tier": "working", "category": "decision", "title": SECRET,
                                                         "content": f"use {SECRET}", "created_by": str(ANN)})  # fmt: skip


async def insight(connection: asyncpg.Connection) -> object:
    return await insert(connection, "dream_insights", {"user_id": ANN, "agent_id": "alice", "insight": f"always {SECRET}",
                                                       "source_memories": [], "category": "pattern",
                                                       "confidence": 0.6})  # fmt: skip


async def linked(connection: asyncpg.Connection) -> object:
    """Memories that have their embedding: associated at once."""
    for n in range(4):
        await remember(connection, f"{SECRET} take {n}", user_id=ANN, embedding=embedding(1))
    return None


async def recalled(connection: asyncpg.Connection) -> object:
    await remember(connection, f"the {SECRET} is here", user_id=ANN)
    asked: dict[str, object] = {"kind": "recall", "user_id": ANN, "query": f"where is {SECRET}?"}
    return await insert(connection, "memory_requests", asked)


async def told(connection: asyncpg.Connection) -> object:
    asked: dict[str, object] = {
        "kind": "context",
        "user_id": ANN,
        "agent_id": "alice",
        "query": f"find {SECRET}",
    }
    return await insert(connection, "memory_requests", asked)


async def exported(connection: asyncpg.Connection) -> object:
    await remember(connection, f"the {SECRET} is here", user_id=ANN)
    return await insert(connection, "memory_requests", {"kind": "export", "user_id": ANN})


ACTS: tuple[Act, ...] = (
    command, outcome, memory, message, document, knowledge, insight, linked, recalled, told, exported,
)  # fmt: skip


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_what_a_daemon_is_processing_is_erased(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    third: asyncpg.Connection,
    daemons: Daemons,
    moment: str,
) -> None:
    """Whatever it was about to write (before), or had written and not committed (after)."""
    await pausing(connection, moment)
    daemon = await daemons.start()
    for act in ACTS:
        async with gate_closed(second):
            await act(connection)
            await paused(connection)
            erasing = await meanwhile(third, connection, ERASE, ANN)
        await erasing
        await nothing_left(connection, act.__name__)
    # Words, too, while they are counted or compared.
    for topic, lane in (("statistics", "lexemes"), ("lexicon", "words")):
        await remember(connection, "the wombat sleeps", user_id=BOB)
        await remember(connection, f"the {SECRET} sleeps", user_id=ANN)
        await until(connection, IDLE)
        # As if its words were new.
        await connection.execute("update memoryd.lexicon set embedding = null")
        retried = len(daemon.events("job_retried"))
        async with gate_closed(second):
            await connection.execute("insert into memoryd.jobs (topic, lane) values ($1, $2)", topic, lane)
            await connection.execute("select pg_notify('memoryd', $1)", topic)
            await paused(connection)
            erasing = await meanwhile(third, connection, ERASE, ANN)
        await erasing
        await nothing_left(connection, topic)
        assert len(daemon.events("job_retried")) == retried
        assert "wombat" in await column(connection, "select word from memoryd.lexicon")


async def test_the_outcome_of_a_command_that_ends_during_an_erasure_is_not_remembered(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection, daemons: Daemons
) -> None:
    """An agent completes the command in a transaction that is open when the erasure begins."""
    daemon = await daemons.start()
    asked = await ask(connection, f"find {SECRET}", user_id=ANN)
    await until(connection, READY, asked)
    await until(connection, IDLE)
    await pausing(connection, "after")
    # The erasure, too, is stopped: after the commands, before the jobs that are left.
    await connection.execute(
        "create function public.stop_here() returns trigger language plpgsql as "
        "$$ begin perform pg_advisory_xact_lock_shared(4712); return null; end $$; "
        "create trigger stop_here before delete on documents for each statement execute function public.stop_here()"
    )
    await connection.execute("select pg_advisory_lock(4712)")
    try:
        async with gate_closed(connection):
            # A daemon that locks the command before the erasure does would hold it up until the gate is open.
            daemon.process.send_signal(signal.SIGSTOP)
            async with second.transaction():
                await second.execute("select claim_command('alice')")
                await second.execute("select complete_command($1, $2)", asked, f"found {SECRET}")
                erasing = await meanwhile(third, connection, ERASE, ANN)
            await until(connection, awaited("l.locktype = 'advisory' and l.objid = 4712"))
            daemon.process.send_signal(signal.SIGCONT)
            # The daemon has the outcome in hand, or cannot get it.
            await until(
                connection,
                "with free as (select from memoryd.jobs where topic = 'capture' for update skip locked) "
                "select not exists (select from free)",
            )
            await connection.execute("select pg_advisory_unlock(4712)")
            await erasing
    finally:
        await connection.execute("select pg_advisory_unlock_all()")
    await nothing_left(connection)


async def test_a_dream_under_way_writes_nothing_of_erased_memories(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection, daemons: Daemons
) -> None:
    await pausing(
        connection,
        "create trigger pause before insert on dream_insights for each statement execute function public.pause()",
    )
    await daemons.start()
    for n in range(6):
        await remember(connection, f"{SECRET} sings at noon, take {n}", user_id=ANN)
    await until(connection, IDLE)
    async with gate_closed(second):
        dream = await insert(connection, "memory_requests", {"kind": "dream"})
        await paused(connection)
        erasing = await meanwhile(third, connection, ERASE, ANN)
    await erasing
    await until(connection, ANSWERED, dream)
    await nothing_left(connection)


async def test_erased_rows_are_removed_from_answers_to_others(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection, daemons: Daemons
) -> None:
    """A recall by the service finds rows of all users: one that was answered, and one that is being answered."""
    await pausing(
        connection,
        "create trigger pause before update on memory_requests for each row execute function public.pause()",
    )
    await daemons.start()
    await remember(connection, f"the {SECRET} and the wombat sleep", user_id=ANN)
    kept = await remember(connection, "the wombat sleeps", user_id=BOB)
    await message(connection)
    await until(connection, IDLE)
    asked: dict[str, object] = {"kind": "recall", "query": f"who sleeps, the {SECRET} or the wombat?"}
    answered = await insert(connection, "memory_requests", asked)
    await until(connection, ANSWERED, answered)
    assert SECRET in await connection.fetchval(
        "select result::text from memory_requests where id = $1", answered
    )
    async with gate_closed(second):
        asked["query"] = "who sleeps?"
        being_answered = await insert(connection, "memory_requests", asked)
        await paused(connection)
        erasing = await meanwhile(third, connection, ERASE, ANN)
        # In flight it cannot be seen yet, so the erasure waits for it.
        assert not erasing.done()
    await erasing
    await until(connection, ANSWERED, being_answered)
    # What was asked is the asker's.
    await connection.execute("update memory_requests set query = null, kind = 'dream'")
    await connection.execute("update memory_queries set task_keywords = '{}'")
    await nothing_left(connection)
    for request in (answered, being_answered):
        result = json.loads(
            await connection.fetchval("select result from memory_requests where id = $1", request)
        )
        assert [r["id"] for r in result] == [str(kept)]


async def test_an_answer_does_not_wait_for_an_erasure_that_is_left_open(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """Somebody's own, in a transaction of theirs. What the answer shows of the rows goes once that ends."""
    await remember(connection, f"the {SECRET} and the wombat sleep", user_id=ANN)
    kept = await remember(connection, "the wombat sleeps", user_id=BOB)
    await daemons.start()
    await until(connection, IDLE)
    left_open = second.transaction()
    await left_open.start()
    await second.execute(ERASE, ANN)
    request = await insert(connection, "memory_requests", {"kind": "recall", "query": "who sleeps?"})
    await until(connection, ANSWERED, request)
    await left_open.commit()
    await connection.execute("update memoryd.outdated_rows set look_at = clock_timestamp()")
    await until(connection, IDLE)
    await until(
        connection, "select strpos(result::text, $2) = 0 from memory_requests where id = $1", request, SECRET
    )
    [shown] = json.loads(
        await connection.fetchval("select result from memory_requests where id = $1", request)
    )
    assert shown["id"] == str(kept)
    assert await found(connection, SECRET) == {}


# Waits for it, or has been told to come later.
MET_A_LOCK = """
select exists (select from memoryd.jobs where topic = 'request' and snoozes > 0)
    or exists (select from pg_stat_activity where datname = current_database() and application_name = 'memoryd'
               and wait_event_type = 'Lock')
"""
WRITES_ANSWER = """
create trigger pause after update on memory_requests for each statement execute function public.pause()
"""
FROZEN = """
select exists (select from pg_stat_activity
               where datname = current_database() and application_name = 'memoryd' and state = 'idle in transaction')
"""


async def test_an_erasure_does_not_wait_long_for_a_daemon_that_is_frozen(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """A machine that is paused, in the middle of an answer: the server undoes it, and it is written later."""
    await pausing(connection, WRITES_ANSWER)
    daemon = await daemons.start()
    async with gate_closed(second):
        request = await insert(connection, "memory_requests", {"kind": "recall", "query": "who sleeps?"})
        await paused(connection)
        daemon.process.send_signal(signal.SIGSTOP)
    await until(connection, FROZEN)
    await connection.execute("set lock_timeout = '15s'")
    await connection.execute(ERASE, ANN)
    daemon.process.send_signal(signal.SIGCONT)
    await until(connection, ANSWERED, request)
    assert await connection.fetchval("select result from memory_requests where id = $1", request) == "[]"


async def test_an_erasure_does_not_wait_for_who_has_locked_a_request(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """The request that is locked waits, with no attempt counted, and those beside it are answered."""
    asked: dict[str, object] = {"kind": "recall", "query": "who sleeps?"}
    requests = [await insert(connection, "memory_requests", asked) for _ in range(3)]
    async with second.transaction():
        await second.execute("select from memory_requests where id = $1 for update", requests[1])
        daemon = await daemons.start(max_attempts=1)
        await until(connection, MET_A_LOCK)
        await connection.execute("set lock_timeout = '15s'")
        await connection.execute(ERASE, ANN)
        for request in (requests[0], requests[2]):
            await until(connection, ANSWERED, request)
    await until(connection, ANSWERED, requests[1])
    assert daemon.events("job_discarded") == daemon.events("job_retried") == []


def program(folder: Path) -> str:
    """A program that ends once it is let go."""
    path = folder / "program.sh"
    path.write_text(
        f"for i in $(seq 1500); do [ -e {folder / 'go'} ] && break; sleep 0.02; done; echo done\n"
    )
    return f"sh {path}"


async def test_a_transaction_that_locks_a_command_can_end_its_execution(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    """As an erasure does. The completion waits for the command with nothing in its hand that the other needs."""
    daemon = await daemons.start(executor_command=program(tmp_path))
    asked = await ask(connection, "do it")
    await until(connection, "select exists (select from memoryd.executions)")
    undone = second.transaction()
    await undone.start()
    await second.execute("select from agent_commands where id = $1 for update", asked)
    (tmp_path / "go").touch()
    await until(
        connection,
        "select exists (select from pg_stat_activity "
        "where datname = current_database() and application_name = 'memoryd' "
        "and query ~ 'delete from memoryd.executions' and wait_event_type = 'Lock')",
    )
    await second.execute("delete from memoryd.executions where command_id = $1", asked)
    await undone.rollback()
    await until(connection, FINISHED, asked)
    assert await connection.fetchval("select output from agent_commands where id = $1", asked) == "done\n"
    assert daemon.events("executor_failed") == []


async def test_an_outcome_that_cannot_be_written_yet_is_retried(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    """However often the lock is not got: the program is not run a second time."""
    # The daemon's own 10 s are a setting of its sessions, which comes before one of the database.
    await connection.execute(
        "create function public.hurry() returns trigger language plpgsql as "
        "$$ begin perform set_config('lock_timeout', '100ms', true); return null; end $$; "
        "create trigger hurry before update on agent_commands for each statement execute function public.hurry()"
    )
    daemon = await daemons.start(executor_command=program(tmp_path))
    asked = await ask(connection, "do it")
    await until(connection, "select exists (select from memoryd.executions)")
    async with second.transaction():
        await second.execute("select from agent_commands where id = $1 for update", asked)
        (tmp_path / "go").touch()
        for _ in range(2):
            await daemon.event("outcome_delayed", after=len(daemon.lines))
        assert await connection.fetchval("select tries from memoryd.executions") == 1
    await until(connection, FINISHED, asked)
    assert daemon.events("executor_failed") == []


async def test_words_deleted_while_they_are_compared_cause_no_error(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection, daemons: Daemons
) -> None:
    """The lexicon's statement has begun when their last row goes: neither of the two fails, and nothing stays."""
    await pausing(
        connection,
        "create trigger pause before insert on memoryd.lexeme_neighbours "
        "for each statement execute function public.pause()",
    )
    daemon = await daemons.start()
    async with gate_closed(second):
        gone = await remember(connection, "boat ship vessel sailor harbour", user_id=ANN)
        await paused(connection)
        await until(connection, "select count(*) > 4 from memoryd.lexeme_statistics")
        erasing = await meanwhile(third, connection, ERASE, ANN)
    await erasing
    await until(connection, IDLE)
    assert daemon.events("job_retried") == daemon.events("batch_split") == []
    assert await connection.fetchval("select count(*) from agent_memory where id = $1", gone) == 0
    assert await connection.fetchval("select count(*) from memoryd.lexicon") == 0
    assert await connection.fetchval("select count(*) from memoryd.lexeme_neighbours") == 0
