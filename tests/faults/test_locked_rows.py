"""A transaction that a client leaves open on a row delays only that row, not its batch."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB
from tests.support.content.index import UNINDEXED
from tests.support.content.sources import TABLES, one_of_each
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, column, remember, say
from tests.support.waiting import IDLE, READY, until

LINKED = "select related_memory_id from memory_associations where memory_id = $1"
INDEXED = """
not exists (
    select from unnest($1::uuid[]) as r(id)
    where not exists (select from memoryd.entries e where e.id = r.id and e.code is not null))
"""


@pytest.mark.parametrize("lock", ["select from {} where id = $1 for update", "delete from {} where id = $1"])
async def test_a_locked_row_is_indexed_later_and_the_others_now(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, lock: str
) -> None:
    locked = await one_of_each(connection, "boats in May")
    free = await one_of_each(connection, "blue fish")
    async with second.transaction():
        for source, (table, _) in TABLES.items():
            await second.execute(lock.format(table), locked[source])
        await daemons.start(poll_seconds=0.2)
        await until(connection, f"select {INDEXED}", list(free.values()))
        assert await connection.fetchval(f"select not ({INDEXED})", list(locked.values()))
    await until(connection, IDLE)
    if "delete" not in lock:
        assert await connection.fetchval(f"select {INDEXED}", list(locked.values()))
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0


async def test_a_locked_session_does_not_keep_the_daemon_busy(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """A new message is indexed at once; each locked one is asked for again, and no other; in the end it needs no poll."""
    session = await connection.fetchval("insert into conversation_sessions default values returning id")
    for n in range(30):
        await say(connection, session, f"fish {n}")
    async with second.transaction():
        await second.execute("update conversation_messages set metadata = '{\"a\": 1}'")
        daemon = await daemons.start(poll_seconds=3600)
        new = await say(connection, session, "boats in May")
        await until(connection, f"select {INDEXED}", [new])
        for _ in range(3):
            last = await connection.fetchval("select coalesce(max(id), 0) from memoryd.jobs")
            await until(connection, "select min(id) > $1 from memoryd.jobs where topic = 'index'", last)
        assert await connection.fetchval("select count(*) from memoryd.jobs where topic = 'index'") <= 30
        assert len(await column(connection, UNINDEXED, "conversation")) == 30
    await until(connection, IDLE)
    assert await column(connection, UNINDEXED, "conversation") == []
    assert daemon.events("job_discarded") == []


@pytest.mark.parametrize("lock", ["select from {} where id = $1 for update", "delete from {} where id = $1"])
async def test_other_memories_are_linked_while_one_is_locked(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, lock: str
) -> None:
    daemon = await daemons.start(poll_seconds=3600)
    locked, _, other = [
        await remember(connection, f"boats in {month}", agent_id=agent)
        for month, agent in (("May", "alice"), ("June", "alice"), ("May", "bob"))
    ]
    await until(connection, IDLE)
    async with second.transaction():
        await second.execute(lock.format("agent_memory"), locked)
        hers = await remember(connection, "boats in July", agent_id="alice")
        await daemon.event("jobs_wait_for_lock")
        his = await remember(connection, "boats in July", agent_id="bob")
        await until(connection, "select exists (select from memory_associations where memory_id = $1)", his)
        assert await column(connection, LINKED, his) == [other]
        assert await column(connection, LINKED, hers) == []
    await until(connection, IDLE)
    assert (locked in await column(connection, LINKED, hers)) == ("delete" not in lock)
    assert len(await column(connection, LINKED, hers)) == 2 - ("delete" in lock)


WAITS = """
select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'transactionid')
"""


@pytest.mark.parametrize("long", [False, True])
async def test_a_link_that_somebody_makes_meanwhile_stands_once(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, *, long: bool
) -> None:
    """Ended while the daemon waits for it, or only later: somebody's link stays as it is, and the others are made."""
    first, other, new = [await remember(connection, f"boats in {month}") for month in ("May", "June", "July")]
    async with second.transaction():
        await second.execute(
            "insert into memory_associations (memory_id, related_memory_id, association_type, strength) "
            "values ($1, $2, 'causal', 0.25)",
            new,
            first,
        )
        daemon = await daemons.start(poll_seconds=3600)
        await (daemon.event("jobs_wait_for_lock") if long else until(connection, WAITS))
    await until(connection, IDLE)
    links = "select related_memory_id, association_type from memory_associations where memory_id = $1"
    found = {row["related_memory_id"]: row["association_type"] for row in await connection.fetch(links, new)}
    assert set(found) == {first, other}
    assert found[first] == "causal"
    assert daemon.events("job_discarded") == daemon.events("job_retried") == []


async def test_locked_commands_do_not_delay_other_agents_contexts(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """More of them than go into one batch; those are tried again by themselves, no attempt counted."""
    locked = [await ask(connection, f"sail to island {n}", agent_id="alice") for n in range(17)]
    ready = READY
    async with second.transaction():
        await second.execute("select from agent_commands where id = any($1) for update", locked)
        daemon = await daemons.start(poll_seconds=3600, max_attempts=1)
        for n in range(3):
            await until(connection, ready, await ask(connection, f"row to island {n}", agent_id="bob"))
        # Tried again, and rescheduled again.
        last = await connection.fetchval("select max(id) from memoryd.jobs")
        await until(connection, "select min(id) > $1 from memoryd.jobs", last)
        waiting = "select count(*) = 17 and max(attempt - snoozes) <= 1 from memoryd.jobs"
        await until(connection, waiting)
    for command in locked:
        await until(connection, ready, command)
    await until(connection, IDLE)
    assert daemon.events("job_discarded") == daemon.events("job_retried") == []


async def test_an_agents_name_in_an_open_transaction_delays_no_other_command(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """Whether the transaction ends well or is undone, the agent is known in the end."""
    await daemons.start(poll_seconds=3600)
    for agent, ends_well in (("carol", True), ("dave", False)):
        transaction = second.transaction()
        await transaction.start()
        await ask(second, "sail first", agent_id=agent)
        await connection.execute("set statement_timeout = '5s'")
        command = await ask(connection, "sail to the island", agent_id=agent)
        await remember(connection, "boats in May", agent_id=agent)
        await connection.execute("reset statement_timeout")
        claimed = await until(connection, "select id from claim_command($1)", agent)
        assert claimed == command
        # It is known by its commands, also with none to claim.
        assert await connection.fetch("select * from claim_command($1)", agent) == []
        await (transaction.commit() if ends_well else transaction.rollback())
        await until(connection, "select exists (select from agents where agent_id = $1)", agent)
    await until(connection, IDLE)
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await connection.execute("select claim_command('nobody')")


async def test_one_users_locked_memories_do_not_delay_another_users_links(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    daemon = await daemons.start(poll_seconds=3600)
    locked = await remember(connection, "boats in May", user_id=ANN)
    other = await remember(connection, "boats in May", user_id=BOB)
    await until(connection, IDLE)
    async with second.transaction():
        await second.execute("select from agent_memory where id = $1 for update", locked)
        hers = await remember(connection, "boats in July", user_id=ANN)
        await daemon.event("jobs_wait_for_lock")
        his = await remember(connection, "boats in July", user_id=BOB)
        await until(connection, "select exists (select from memory_associations where memory_id = $1)", his)
        assert await column(connection, LINKED, his) == [other]
        assert await column(connection, LINKED, hers) == []
    await until(connection, IDLE)
    assert await column(connection, LINKED, hers) == [locked]
    lanes = await column(connection, "select lane from memoryd.lanes where topic = 'associate'")
    assert len(lanes) == 2
    assert not any(str(user) in str(lane) or user.hex in str(lane) for user in (ANN, BOB) for lane in lanes)


# What waited for a row in vain, or failed otherwise, by its SQLSTATE.
REFUSE = """
create function public.refuse() returns trigger language plpgsql as $$
begin
    raise exception 'refused' using errcode = tg_argv[0];
end $$;
create trigger refuse before insert on memoryd.lanes for each row when (new.topic = 'tick')
    execute function public.refuse('{0}');
create trigger refuse before insert on memoryd.executions for each statement execute function public.refuse('{0}');
"""


@pytest.mark.parametrize(("sqlstate", "level"), [("55P03", "info"), ("23514", "error")])
async def test_a_row_that_somebody_has_locked_is_no_error_in_the_log(
    connection: asyncpg.Connection, daemons: Daemons, sqlstate: str, level: str
) -> None:
    await connection.execute(REFUSE.format(sqlstate))
    daemon = await daemons.start(executor_command="cat")
    await ask(connection, "sail to the island")
    for event in ("tick_failed", "executor_claim_failed"):
        assert (await daemon.event(event))["level"] == level
