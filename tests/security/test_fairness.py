"""One user's work does not delay the others': users take turns, pending work is limited, big answers are not kept."""

from __future__ import annotations

import asyncio
import itertools
import json
from uuid import UUID

import asyncpg
import pytest

from daemon.queue import queue
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.processes.daemons import Daemons
from tests.support.processes.workers import open_database
from tests.support.rows import column, insert, one_row
from tests.support.waiting import IDLE, until

RECALLS = "insert into memory_requests (kind, user_id, query) select 'recall', $1, 'deploy ' || n from generate_series(1, $2) n"
COMMANDS = "insert into agent_commands (agent_id, user_id, message) select 'alice', $1, 'go' from generate_series(1, $2)"
MANY = 200
"""More than a user may have pending: agents insert them."""
A_FEW_BATCHES = 100
"""Of 16 each, two at once, one of which may overtake the other."""
LIMIT = "53400"


async def ask(connection: asyncpg.Connection, sql: str, user: UUID, count: int) -> None:
    """Inserts so many rows in one statement, as the user."""
    async with acting_as(connection, user):
        await connection.execute(sql, user, count)


async def test_one_request_does_not_wait_for_all_that_another_user_asked_before(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await connection.execute(RECALLS, ANN, MANY)
    await ask(connection, RECALLS, BOB, 1)
    await daemons.start()
    await until(connection, IDLE)
    [theirs] = await column(connection, "select finished_at from memory_requests where user_id = $1", BOB)
    before = (
        "select count(*) from memory_requests where user_id = $1 and finished_at < $2 and status = 'done'"
    )
    assert await connection.fetchval(before, ANN, theirs) <= A_FEW_BATCHES
    assert await connection.fetchval("select count(*) from memory_requests where status = 'done'") == MANY + 1


async def test_one_row_is_not_indexed_after_all_that_a_user_wrote_before(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    async with acting_as(connection, ANN):
        await connection.execute(
            "insert into agent_memory (agent_id, user_id, content) "
            "select 'alice', $1, 'boat number ' || n from generate_series(1, 2500) n",
            ANN,
        )
    theirs = await insert(connection, "agent_memory", {"agent_id": "alice", "content": "a ship"})
    await daemons.start()
    left = await until(
        connection,
        "select (select count(*) from memoryd.unindexed) from memoryd.entries where id = $1",
        theirs,
    )
    assert left > 500


async def test_one_command_does_not_wait_for_all_that_another_user_gave_before(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await connection.execute("insert into agents (agent_id, open_to_users) values ('alice', true)")
    await connection.execute(COMMANDS, ANN, MANY)
    await ask(connection, COMMANDS, BOB, 1)
    await daemons.start()
    await until(connection, IDLE)
    [theirs] = await column(connection, "select ready_at from agent_commands where user_id = $1", BOB)
    before = "select count(*) from agent_commands where user_id = $1 and ready_at < $2"
    assert await connection.fetchval(before, ANN, theirs) <= A_FEW_BATCHES
    assert await connection.fetchval("select count(*) from agent_commands where status = 'ready'") == MANY + 1


async def test_one_users_command_does_not_wait_for_the_agents_own_backlog(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await connection.execute(
        "insert into memory_requests (kind, query) select 'recall', 'deploy ' || n from generate_series(1, $1) n",
        MANY,
    )
    await ask(connection, RECALLS, BOB, 1)
    await daemons.start()
    await until(connection, IDLE)
    [theirs] = await column(connection, "select finished_at from memory_requests where user_id = $1", BOB)
    before = "select count(*) from memory_requests where user_id is null and finished_at < $1"
    assert await connection.fetchval(before, theirs) <= A_FEW_BATCHES


async def test_two_users_with_many_requests_are_answered_alternately(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await connection.execute(RECALLS, ANN, MANY)
    await ask(connection, RECALLS, BOB, 50)
    await daemons.start()
    await until(connection, IDLE)
    order = await column(connection, "select user_id from memory_requests order by finished_at, id")
    last = max(place for place, user in enumerate(order) if user == BOB)
    assert last <= 2 * 50 + A_FEW_BATCHES


async def test_a_user_with_many_requests_is_not_starved_by_new_users(
    connection: asyncpg.Connection, database_url: str
) -> None:
    await ask(connection, RECALLS, ANN, 4)
    mine = "select count(*) from memoryd.jobs j join memory_requests r on r.id = j.ref where r.user_id = $1"
    newcomers = (UUID(int=number) for number in itertools.count(1))
    # One more arrives than is done: the queue never empties.
    await ask(connection, RECALLS, next(newcomers), 1)
    async with open_database(database_url) as database, asyncio.timeout(60):
        while await connection.fetchval(mine, ANN):
            for _ in range(2):
                await ask(connection, RECALLS, next(newcomers), 1)
            jobs = await queue.claim(database, "request", limit=2, seconds=30)
            async with database.transaction() as transaction:
                assert await queue.complete(transaction, jobs) == jobs
    assert await connection.fetchval("select count(*) from memoryd.jobs") > 0


async def test_a_users_requests_are_claimed_in_order(
    connection: asyncpg.Connection, database_url: str
) -> None:
    for count in (3, 1, 2):
        await ask(connection, RECALLS, ANN, count)
        await ask(connection, RECALLS, BOB, 1)
    whose = "select user_id from memory_requests where id = $1"
    claimed: list[int] = []
    async with open_database(database_url) as database:
        for _ in range(9):
            [job] = await queue.claim(database, "request", limit=1, seconds=30)
            if await connection.fetchval(whose, job.ref) == ANN:
                claimed.append(job.id)
    assert len(claimed) == 6
    assert claimed == sorted(claimed)


@pytest.mark.parametrize("kind", ["export", "erase"])
async def test_a_recall_is_answered_during_another_users_long_export_or_erasure(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, kind: str
) -> None:
    async with acting_as(connection, ANN):
        await connection.execute(
            "insert into memory_requests (kind, user_id) select $2, $1 from generate_series(1, 5) n",
            ANN,
            kind,
        )
    await ask(connection, RECALLS, BOB, 20)
    async with second.transaction():
        # What exports and erasures read, and recalls do not.
        await second.execute("lock table memory_anchors in access exclusive mode")
        await daemons.start()
        done = "select count(*) = 20 from memory_requests where user_id = $1 and status = 'done'"
        await until(connection, done, BOB)
        waiting = "select count(*) from memory_requests where user_id = $1 and status = 'pending'"
        assert await connection.fetchval(waiting, ANN) == 5
    await until(connection, "select count(*) = 0 from memory_requests where status = 'pending'")


async def test_a_statement_beyond_the_limit_of_pending_requests_is_refused_whole(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute("insert into agents (agent_id, open_to_users) values ('alice', true)")
    async with acting_as(connection, ANN):
        await connection.execute(RECALLS, ANN, 60)
        await connection.execute(COMMANDS, ANN, 40)
        for sql in (RECALLS, COMMANDS):
            state, message, hint = await refused(connection, sql, ANN, 1)
            assert (state, message) == (
                LIMIT,
                "at most 100 requests and commands of a user may be pending, and this would make 101",
            )
            assert "Wait for answers" in hint
    # Another user, and who works for the agents, go on.
    async with acting_as(connection, BOB):
        state, message, _ = await refused(connection, RECALLS, BOB, 101)
        assert state == LIMIT
        await connection.execute(RECALLS, BOB, 100)
    async with acting_as(connection, None, role="memoryd_service"):
        await connection.execute(RECALLS, ANN, 200)
    assert await connection.fetchval("select count(*) from memory_requests where user_id = $1", BOB) == 100
    assert (
        await connection.fetchval("select count(*) from memoryd.jobs where topic in ('request', 'context')")
        == 400
    )


async def test_answered_requests_free_the_limit(connection: asyncpg.Connection, daemons: Daemons) -> None:
    await connection.execute("insert into agents (agent_id, open_to_users) values ('alice', true)")
    async with acting_as(connection, ANN):
        await connection.execute(RECALLS, ANN, 97)
        await connection.execute(COMMANDS, ANN, 3)
        _, message, _ = await refused(connection, RECALLS, ANN, 1)
        assert (
            message == "at most 100 requests and commands of a user may be pending, and this would make 101"
        )
    await daemons.start()
    await until(connection, IDLE)
    await ask(connection, RECALLS, ANN, 3)
    await until(connection, "select count(*) = 100 from memory_requests where status = 'done'")


async def test_the_result_of_an_export_is_kept_for_an_hour(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    async def answered(kind: str, minutes: int) -> UUID:
        row = {
            "kind": kind,
            "user_id": ANN,
            "query": "q",
            "status": "done",
            "result": json.dumps({"said": kind}),
        }
        asked = await insert(connection, "memory_requests", row)
        await connection.execute(
            "update memory_requests set finished_at = now() - make_interval(mins => $2) where id = $1",
            asked,
            minutes,
        )
        return asked

    old = [await answered(kind, 61) for kind in ("export", "erase", *["export"] * 120)]
    kept = [
        await answered(kind, minutes) for kind, minutes in (("export", 55), ("erase", 55), ("recall", 5000))
    ]
    daemon = await daemons.start(cleanup_seconds=1)
    said = await daemon.event("answers_expired")
    assert said["requests"] == len(old)
    row = await one_row(
        connection,
        "select count(*), count(result), min(status) as status from memory_requests where id = any($1)",
        old,
    )
    assert tuple(row) == (len(old), 0, "done")
    left = "select count(result) from memory_requests where id = any($1)"
    assert await connection.fetchval(left, kept) == len(kept)


async def test_two_concurrent_statements_share_one_limit(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    async with acting_as(connection, ANN):
        await connection.execute(RECALLS, ANN, 100)
        async with asyncio.timeout(90):
            # Neither waits for the other: the limit is no lock.
            async with acting_as(second, ANN):
                await second.execute(RECALLS, ANN, 100)
    async with acting_as(connection, ANN):
        state, message, _ = await refused(connection, RECALLS, ANN, 1)
    # Counted is no further than the limit.
    assert (state, message[-3:]) == (LIMIT, "101")
