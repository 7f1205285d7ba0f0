"""A memory may be replaced by a newer one: the newer one is found, the older one stays as history, and never are both gone."""

from __future__ import annotations

import asyncio
import itertools
import json
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.content.index import index_rows
from tests.support.rows import column, conclude, embedding, remember

ROWS_READ = (
    "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relid = 'agent_memory'::regclass"
)
SUPERSEDE = "update agent_memory set superseded_by = $2 where id = $1"


async def pair(connection: asyncpg.Connection, user: UUID = ANN) -> tuple[UUID, UUID]:
    """Two memories of a user that contradict each other."""
    older = await remember(connection, "The standup is on Monday", user_id=user)
    return older, await remember(connection, "The standup is on Friday", user_id=user)


async def found(connection: asyncpg.Connection, user: UUID = ANN) -> set[UUID]:
    await index_rows(connection, "memory")
    rows = await connection.fetch("select id from recall('When is the standup?', user_id => $1)", user)
    return {row["id"] for row in rows}


async def context(connection: asyncpg.Connection) -> str:
    async with acting_as(connection, ANN):
        return str(await connection.fetchval("select build_context('alice', 'When is the standup?')"))


async def test_recall_and_context_leave_out_what_was_replaced(scratch: asyncpg.Connection) -> None:
    older, newer = await pair(scratch)
    assert await found(scratch) == {older, newer}
    await scratch.execute(SUPERSEDE, older, newer)
    assert await found(scratch) == {newer}
    lines = await context(scratch)
    assert "Friday" in lines
    assert "Monday" not in lines
    row = await scratch.fetchrow("select * from agent_memory where id = $1", older)
    assert row is not None
    assert row["valid_to"] == await scratch.fetchval(
        "select created_at from agent_memory where id = $1", newer
    )
    shown = await column(scratch, "select id from memoryd.replica_entries where source = 'memory'")
    assert shown == [newer]
    entry = await scratch.fetchval("select is_current from memoryd.entries where id = $1", older)
    assert entry is False


async def test_the_older_one_stays_replaced_when_the_newer_one_is_forgotten(
    scratch: asyncpg.Connection,
) -> None:
    older, newer = await pair(scratch)
    await scratch.execute(SUPERSEDE, older, newer)
    assert await scratch.fetchval("select forget(array[$1]::uuid[])", newer) == 1
    assert await found(scratch) == set()
    # It stands again where somebody says so.
    await scratch.execute(
        "update agent_memory set superseded_by = null, valid_to = null where id = $1", older
    )
    assert await found(scratch) == {older}


async def test_what_has_ended_without_a_successor_is_not_found(scratch: asyncpg.Connection) -> None:
    older, newer = await pair(scratch)
    await scratch.execute(
        "update agent_memory set valid_to = now() - interval '1 second' where id = $1", older
    )
    assert await found(scratch) == {newer}
    lines = await context(scratch)
    assert "Monday" not in lines


async def test_what_was_true_at_a_time_can_be_asked_for(scratch: asyncpg.Connection) -> None:
    older, newer = await pair(scratch)
    await scratch.execute(
        "update agent_memory set valid_from = now() - make_interval(days => case id when $1 then 20 else 10 end)",
        older,
    )
    await scratch.execute(SUPERSEDE, older, newer)
    asked = "select id from memory_as_of(now() - make_interval(days => $2), user_id => $1)"
    assert [r["id"] for r in await scratch.fetch(asked, ANN, 30)] == []
    assert [r["id"] for r in await scratch.fetch(asked, ANN, 15)] == [older]
    assert [r["id"] for r in await scratch.fetch(asked, ANN, 0)] == [newer]
    assert await scratch.fetch(asked, BOB, 15) == []
    async with acting_as(scratch, BOB):
        assert await scratch.fetch(asked, ANN, 15) == []


@pytest.mark.parametrize("through", [0, 1, 3])
async def test_no_memory_replaces_itself_over_others(scratch: asyncpg.Connection, through: int) -> None:
    chain = [await remember(scratch, f"note {n}", user_id=ANN) for n in range(through + 1)]
    for older, newer in itertools.pairwise(chain):
        await scratch.execute(SUPERSEDE, older, newer)
    code, message, _ = await refused(scratch, SUPERSEDE, chain[-1], chain[0])
    assert code == "23514"
    assert "superseded" in message


async def test_a_memory_of_another_user_is_refused_like_one_that_does_not_exist(
    scratch: asyncpg.Connection,
) -> None:
    mine = await remember(scratch, "mine", user_id=ANN)
    theirs = await remember(scratch, "theirs", user_id=BOB)
    unowned = await remember(scratch, "the agent's")
    nowhere = uuid4()
    answers = set()
    async with acting_as(scratch, ANN):
        for other in (theirs, unowned, nowhere):
            code, message, _ = await refused(scratch, SUPERSEDE, mine, other)
            answers.add((code, message.replace(str(other), "X")))
            code, message, _ = await refused(scratch, "select supersede_memory($1, 'x')", other)
            answers.add((code, message.replace(str(other), "X")))
            # Written for the other user: refused by the policy, whatever it names.
            order = "insert into agent_memory (agent_id, user_id, content, superseded_by) values ('a', $1, 'x', $2)"
            answers.add((await refused(scratch, order, BOB, other))[:2])
    assert len(answers) == 3
    # The service may not join what belongs to two users either.
    assert (await refused(scratch, SUPERSEDE, mine, theirs))[0] == "23503"
    assert (await refused(scratch, SUPERSEDE, theirs, unowned))[0] == "23503"


async def test_of_two_that_replace_each_other_at_the_same_moment_one_stands(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    for isolation in ("read_committed", "repeatable_read"):
        a, b = await pair(connection)
        mine, other = connection.transaction(isolation=isolation), second.transaction(isolation=isolation)
        await mine.start()
        await other.start()
        await second.fetchval("select 1 from agent_memory limit 1")
        await connection.execute(SUPERSEDE, a, b)
        waiting = asyncio.create_task(second.execute(SUPERSEDE, b, a))
        await asyncio.sleep(0)
        await mine.commit()
        with pytest.raises(asyncpg.PostgresError):
            await waiting
        await other.rollback()
        current = "select id from agent_memory where id = any($1) and superseded_by is null"
        assert [r["id"] for r in await connection.fetch(current, [a, b])] == [b]


async def test_nobody_waits_for_somebody_elses_open_transaction(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """Of a thousand users, so that no lock is left that some of them share."""
    older = await remember(connection, "The standup is on Monday", user_id=ANN)
    await second.execute(
        "insert into agent_memory (agent_id, user_id, content) "
        "select 'alice', md5((n / 2)::text)::uuid, 'note ' || n from generate_series(0, 1999) n"
    )
    async with connection.transaction():
        await connection.fetchval("select supersede_memory($1, 'The standup is on Friday')", older)
        done = await second.execute(
            "update agent_memory m set superseded_by = n.id from agent_memory n "
            "where n.user_id = m.user_id and n.id < m.id and m.user_id <> $1",
            ANN,
            timeout=90,
        )
    assert done == "UPDATE 1000"


async def test_a_statement_that_replaces_many_costs_as_much_as_its_rows(scratch: asyncpg.Connection) -> None:
    """A chain of a user's own, written from its end; counted in rows that are read, not in time."""
    read: list[int] = []
    for rows in (150, 600):
        owner = uuid4()
        await scratch.execute(
            "insert into agent_memory (id, agent_id, user_id, content, metadata) "
            "select md5($1::text || n)::uuid, 'alice', $1::text::uuid, 'note ' || n, "
            "       jsonb_build_object('next', md5($1::text || n - 1)::uuid) from generate_series(1, $2::integer) n",
            str(owner), rows,
        )  # fmt: skip
        before = await scratch.fetchval(ROWS_READ)
        last = "content <> 'note 1'"
        done = await scratch.execute(
            f"update agent_memory set superseded_by = (metadata ->> 'next')::uuid where user_id = $1 and {last}",
            owner,
        )
        assert done == f"UPDATE {rows - 1}"
        read.append(await scratch.fetchval(ROWS_READ) - before)
    assert read[1] < 8 * read[0], read


async def test_supersede_memory_writes_the_newer_one(scratch: asyncpg.Connection) -> None:
    older = await remember(
        scratch, "The standup is on Monday", user_id=ANN, kind="fact", metadata='{"room": 7}'
    )
    async with acting_as(scratch, ANN):
        newer = await scratch.fetchval("select supersede_memory($1, 'The standup is on Friday')", older)
    row = await scratch.fetchrow("select * from agent_memory where id = $1", newer)
    assert row is not None
    assert (row["user_id"], row["kind"], row["agent_id"], row["ttl_hours"]) == (ANN, "fact", "alice", None)
    assert row["metadata"] == '{"room": 7}'
    assert await found(scratch) == {newer}
    assert (await refused(scratch, "select supersede_memory($1, 'x')", older))[0] == "23514"
    assert (await refused(scratch, "select supersede_memory(null, 'x')"))[0] == "P0002"
    # In a chain the newest alone is found.
    newest = await scratch.fetchval("select supersede_memory($1, 'The standup is on Sunday')", newer)
    assert await found(scratch) == {newest}


async def test_times_are_checked(scratch: asyncpg.Connection) -> None:
    columns = "agent_id, content, valid_from, valid_to"
    values = "'a', 'x', $1::text::timestamptz, $2::text::timestamptz"
    order = f"insert into agent_memory ({columns}) values ({values})"
    assert (await refused(scratch, order, "2026-02-01", "2026-01-01"))[0] == "23514"
    assert (await refused(scratch, order, "infinity", None))[0] == "23514"
    await scratch.execute(order, "2026-02-01", "2026-02-01")


async def test_an_export_and_an_import_keep_what_was_replaced(scratch: asyncpg.Connection) -> None:
    older, newer = await pair(scratch)
    await scratch.execute(SUPERSEDE, older, newer)
    file = await scratch.fetchval("select export_user_memory($1)", ANN)
    before = await scratch.fetch("select id, valid_to, superseded_by from agent_memory order by id")
    await scratch.execute("select erase_user_memory($1)", ANN)
    assert await scratch.fetchval("select count(*) from agent_memory") == 0
    await scratch.execute(
        "select memoryd.import_rows($1, $1, 'agent_memory', $2::jsonb -> 'tables' -> 'agent_memory')",
        ANN,
        file,
    )
    assert await scratch.fetch("select id, valid_to, superseded_by from agent_memory order by id") == before


async def test_a_search_by_embedding_leaves_out_what_was_replaced(scratch: asyncpg.Connection) -> None:
    older, newer = [
        await remember(scratch, text, user_id=ANN, embedding=embedding(1.0)) for text in ("Monday", "Friday")
    ]
    alike = "select id from match_memory($1::text::vector, 0, 5, null, $2)"
    for replaced in (False, True):
        if replaced:
            await scratch.execute(SUPERSEDE, older, newer)
        await index_rows(scratch, "memory")
        found = set(await column(scratch, alike, embedding(1.0), ANN))
        assert found == ({newer} if replaced else {older, newer})


async def test_an_insight_of_what_was_replaced_is_drawn_again(scratch: asyncpg.Connection) -> None:
    """Until then nobody finds it, and its text is gone."""
    older, newer = await pair(scratch)
    insight = await conclude(scratch, "Standups are on Mondays", 0.8, source_memories=[older], user_id=ANN)
    await scratch.execute(SUPERSEDE, older, newer)
    row = await scratch.fetchrow("select stale, insight from dream_insights where id = $1", insight)
    assert row is not None
    assert row["stale"]
    assert "Monday" not in row["insight"]


async def test_what_has_expired_is_shown_of_no_time(scratch: asyncpg.Connection) -> None:
    """Also before it is deleted."""
    await scratch.execute(
        "insert into agent_memory (agent_id, user_id, content, created_at, expires_at) "
        "values ('a', $1, 'gone', now() - interval '9 days', now() - interval '1 hour')",
        ANN,
    )
    asked = "select content from memory_as_of(now() - interval '1 day', $1)"
    assert await column(scratch, asked, ANN) == []


async def test_a_fact_that_is_said_very_often_does_not_fill_its_metadata(scratch: asyncpg.Connection) -> None:
    """Otherwise one of its messages could not be deleted."""
    memory = await remember(scratch, "The user lives in Bonn", user_id=ANN)
    await scratch.execute(
        "insert into memoryd.fact_sources select gen_random_uuid(), $1, now() from generate_series(1, 30000)",
        memory,
    )
    said = await scratch.fetchval("select message_id from memoryd.fact_sources limit 1")
    await scratch.execute("select memoryd.forget_facts(array[$1::uuid])", said)
    metadata = json.loads(await scratch.fetchval("select metadata from agent_memory where id = $1", memory))
    assert (metadata["count"], len(metadata["message_ids"])) == (29999, 20)


async def test_metadata_of_any_kind_can_be_imported(scratch: asyncpg.Connection) -> None:
    fact = {"from": "conversation"}
    for more in (
        {"message_ids": "x"},
        {"message_ids": ["x", 5, None, {}]},
    ):
        memory = await remember(scratch, "x", user_id=ANN, metadata=json.dumps(fact | more))
        await scratch.execute("select memoryd.register_facts(array[$1::uuid])", memory)
