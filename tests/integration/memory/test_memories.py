"""A memory's life: indexed and associated for every writer, indexed anew when its words change, forgotten in time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.content.index import INDEXED_MEMORIES, UNINDEXED
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import associate, column, embedding, one_row, remember
from tests.support.waiting import IDLE, RESCHEDULED, until

HOURS_LEFT = "select round(extract(epoch from expires_at - now()) / 3600) from agent_memory where id = $1"
LINKS = "select related_memory_id from memory_associations where memory_id = $1 order by strength desc"
SAME_EMBEDDING = """
select (select array_agg(embedding order by passage) from memoryd.entries where id = $1)
     = (select array_agg(embedding order by passage) from memoryd.entries where id = $2)
"""


@pytest.mark.parametrize("role", ["none", "memoryd_service", "memoryd_user"])
async def test_a_memory_is_indexed_and_linked_whatever_role_wrote_it(
    connection: asyncpg.Connection, daemon: DaemonProcess, role: str
) -> None:
    user = ANN if role == "memoryd_user" else None
    async with acting_as(connection, ANN, role=role):
        first = await remember(connection, "the espresso machine leaks water", user_id=user)
    async with acting_as(connection, ANN, role=role):
        second = await remember(connection, "the espresso machine was repaired", user_id=user)
    await until(connection, IDLE)
    rows = await connection.fetch(
        f"select keywords, id in ({INDEXED_MEMORIES}) as indexed from agent_memory order by created_at"
    )
    assert [tuple(row) for row in rows] == [
        (["espresso", "machine", "leaks", "water"], True),
        (["espresso", "machine", "repaired"], True),
    ]
    assert await column(connection, LINKS, second) == [first]


async def test_a_statement_over_many_memories_indexes_each(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await connection.execute(
        "insert into agent_memory (agent_id, content) select 'agent ' || n % 7, 'topic ' || n from generate_series(1, 500) n"
    )
    await until(connection, IDLE)
    assert await column(connection, UNINDEXED, "memory") == []
    assert await connection.fetchval("select count(*) from agents") == 7


async def test_changed_content_is_indexed_and_linked_again(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    coffee = await remember(connection, "coffee beans roasted in Ethiopia", agent_id="barista")
    boats = await remember(connection, "sailing boats anchored in the harbour", agent_id="barista")
    later = datetime.now(UTC) + timedelta(days=2)
    changing = await remember(
        connection, "coffee beans roasted in Kenya", agent_id="barista", created_at=later
    )
    newest = await remember(
        connection, "Kenya exports coffee beans", agent_id="barista", created_at=later + timedelta(hours=1)
    )
    await until(connection, IDLE)
    assert await column(connection, LINKS, changing) == [coffee]
    assert changing in await column(connection, LINKS, newest)

    await connection.execute(
        "update agent_memory set content = 'sailing boats anchored in the bay' where id = $1", changing
    )
    await until(connection, IDLE)
    twin = await remember(connection, "sailing boats anchored in the bay", agent_id="twin")
    await until(connection, IDLE)
    assert await connection.fetchval(SAME_EMBEDDING, changing, twin)
    row = await one_row(
        connection,
        "select keywords, updated_at > created_at - interval '3 days' from agent_memory where id = $1",
        changing,
    )
    assert row["keywords"] == ["sailing", "boats", "anchored", "bay"]
    assert await column(connection, LINKS, changing) == [boats]


async def test_changes_of_other_columns_keep_the_embedding(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    memory = await remember(connection, "the office is closed on Mondays", embedding=embedding(1))
    await connection.execute(
        "update agent_memory set kind = 'fact', metadata = '{\"a\": 1}', content = content"
    )
    await until(connection, IDLE)
    kept = await connection.fetchval(
        "select embedding = $2::text::vector from agent_memory where id = $1", memory, embedding(1)
    )
    assert kept


async def test_the_last_of_two_quick_updates_is_indexed(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    memories = [await remember(connection, f"draft {n} of the letter") for n in range(12)]
    for memory in memories:
        await connection.execute(
            "update agent_memory set content = 'a first version of it' where id = $1", memory
        )
        await connection.execute(
            "update agent_memory set content = 'the final words, sealed' where id = $1", memory
        )
    twin = await remember(connection, "the final words, sealed", agent_id="twin")
    await until(connection, IDLE)
    for memory in memories:
        assert await connection.fetchval(SAME_EMBEDDING, memory, twin)


async def test_an_embedding_of_outdated_content_is_not_written(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    memory = await remember(connection, "the old words")
    change = second.transaction()
    await change.start()
    await second.execute(
        "update agent_memory set content = 'new and quite different text' where id = $1", memory
    )
    # It reads the old words, embeds them, and gives way to the writer.
    await daemons.start(poll_seconds=0.2)
    await until(connection, RESCHEDULED)
    await change.commit()
    twin = await remember(connection, "new and quite different text", agent_id="twin")
    await until(connection, IDLE)
    assert await connection.fetchval(SAME_EMBEDDING, memory, twin)


async def test_deleting_a_memory_deletes_its_links(scratch: asyncpg.Connection) -> None:
    one, two, three = [await remember(scratch, f"memory number {n}") for n in "abc"]
    for pair in ((one, two), (two, three), (three, one)):
        await associate(scratch, *pair, 0.5)
    await scratch.execute("delete from agent_memory where id = $1", one)
    rows = await scratch.fetch("select memory_id, related_memory_id from memory_associations")
    assert [tuple(row) for row in rows] == [(two, three)]


async def test_a_given_embedding_is_kept(connection: asyncpg.Connection, daemon: DaemonProcess) -> None:
    given = await remember(connection, "words of no consequence", embedding=embedding(3, 4))
    near = await remember(connection, "altogether unrelated", embedding=embedding(4, 3), kind="fact")
    await until(connection, IDLE)
    kept = await connection.fetchval(
        "select embedding = $2::text::vector from agent_memory where id = $1", given, embedding(3, 4)
    )
    assert kept
    assert await column(connection, LINKS, near) == [given]


@pytest.mark.parametrize(
    ("columns", "hours"),
    [
        ({}, None),
        ({"kind": "note"}, None),
        ({"kind": "fact"}, None),
        ({"kind": "goal"}, None),
        ({"kind": "outcome"}, 72),
        ({"kind": "error"}, 72),
        ({"kind": "observation"}, 72),
        ({"memory_type": "task_memory"}, 2160),
        ({"memory_type": "task_memory", "kind": "outcome"}, 2160),
        ({"memory_type": "user_preferences"}, None),
        ({"memory_type": "user_preferences", "kind": "outcome"}, 72),
        ({"kind": "outcome", "ttl_hours": None}, None),
        ({"kind": "fact", "ttl_hours": 5}, 5),
        ({"kind": "outcome", "ttl_hours": 5}, 5),
        ({"kind": "outcome", "ttl_hours": 69_000_000}, 69_000_000),
    ],
)
async def test_each_kind_expires_after_its_default_ttl(
    scratch: asyncpg.Connection, columns: dict[str, object], hours: int | None
) -> None:
    memory = await remember(scratch, "something", **columns)
    assert await scratch.fetchval("select ttl_hours from agent_memory where id = $1", memory) == hours
    assert await scratch.fetchval(HOURS_LEFT, memory) == hours


async def test_a_given_expires_at_wins_over_ttl_hours(scratch: asyncpg.Connection) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for columns in ({"kind": "outcome"}, {"ttl_hours": 5}, {"ttl_hours": None}, {"kind": "fact"}):
        memory = await remember(scratch, "something", expires_at=tomorrow, **columns)
        assert await scratch.fetchval("select expires_at from agent_memory where id = $1", memory) == tomorrow


async def test_a_changed_ttl_moves_the_expiry(scratch: asyncpg.Connection) -> None:
    memory = await remember(scratch, "something", kind="outcome")
    change = "update agent_memory set ttl_hours = {} where id = $1"
    await scratch.execute(change.format(200), memory)
    assert await scratch.fetchval(HOURS_LEFT, memory) == 200
    await scratch.execute(change.format("null"), memory)
    assert await scratch.fetchval("select expires_at from agent_memory where id = $1", memory) is None
    await scratch.execute(change.format("default"), memory)
    assert await scratch.fetchval("select ttl_hours from agent_memory where id = $1", memory) == 72
    assert await scratch.fetchval(HOURS_LEFT, memory) == 72
    await scratch.execute(
        "update agent_memory set ttl_hours = 9, expires_at = now() + interval '4 hours' where id = $1", memory
    )
    assert await scratch.fetchval(HOURS_LEFT, memory) == 4
    await scratch.execute("update agent_memory set metadata = '{}' where id = $1", memory)
    assert await scratch.fetchval(HOURS_LEFT, memory) == 4


async def test_the_daemons_settings_decide_on_the_defaults(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start(outcome_ttl_hours=5, task_memory_ttl_hours=7)
    for columns, hours in (
        ({"kind": "outcome"}, 5),
        ({"kind": "error"}, 5),
        ({"kind": "observation"}, 5),
        ({"kind": "fact"}, None),
        ({"memory_type": "task_memory"}, 7),
    ):
        memory = await remember(connection, "something", **columns)
        assert await connection.fetchval(HOURS_LEFT, memory) == hours


async def test_expired_memories_are_not_found_before_they_are_deleted(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    short = await remember(connection, "the walrus password is tusk", expires_at=soon)
    long = await remember(connection, "the walrus password is whisker")
    await until(connection, "select expires_at < clock_timestamp() from agent_memory where id = $1", short)
    assert await column(connection, "select id from recall('walrus password')") == [long]
    assert await column(connection, "select id from recall('walrus password', 'alice')") == [long]
    context = await connection.fetchval("select build_context('alice', 'walrus password')")
    assert "whisker" in context
    assert "tusk" not in context
    assert await connection.fetchval("select count(*) from agent_memory") == 2

    await until(connection, IDLE)
    linked = await column(connection, "select memory_id from memory_associations")
    assert linked == [long]
    assert await connection.fetchval("select cleanup_expired_memory()") == 1
    assert await column(connection, "select id from agent_memory") == [long]
    assert await connection.fetchval("select count(*) from memory_associations") == 0


async def test_cleaning_up_is_bounded_on_request(scratch: asyncpg.Connection) -> None:
    await scratch.execute(
        "insert into agent_memory (agent_id, content, expires_at) "
        "select 'alice', 'expired ' || n, now() - make_interval(hours => n) from generate_series(1, 10) n"
    )
    await remember(scratch, "permanent")
    assert await scratch.fetchval("select cleanup_expired_memory(4)") == 4
    left = await column(
        scratch, "select content from agent_memory where expires_at is not null order by expires_at desc"
    )
    assert left == [f"expired {n}" for n in range(1, 7)]
    assert await scratch.fetchval("select cleanup_expired_memory()") == 6
    assert await scratch.fetchval("select cleanup_expired_memory()") == 0
    assert await column(scratch, "select content from agent_memory") == ["permanent"]


async def test_two_concurrent_cleanups_do_not_wait_for_each_other(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into agent_memory (agent_id, content, expires_at) "
        "select 'alice', 'expired ' || n, now() - make_interval(hours => n) from generate_series(1, 10) n"
    )
    transaction = connection.transaction()
    await transaction.start()
    assert await connection.fetchval("select cleanup_expired_memory(3)") == 3
    assert await asyncio.wait_for(second.fetchval("select cleanup_expired_memory()"), 90) == 7
    await transaction.commit()


async def test_the_daemon_deletes_expired_memories_on_schedule(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    daemon = await daemons.start(cleanup_seconds=1)
    await remember(connection, "expired", expires_at=datetime.now(UTC) - timedelta(hours=1))
    kept = await remember(connection, "permanent")
    assert (await daemon.event("memories_expired"))["memories"] == 1
    assert await column(connection, "select id from agent_memory") == [kept]


async def test_view_shared_memory_holds_only_shared_memories(scratch: asyncpg.Connection) -> None:
    now = datetime.now(UTC)
    await remember(scratch, "alice's own")
    older = await remember(scratch, "for all, older", agent_id="_shared", created_at=now - timedelta(hours=1))
    newer = await remember(scratch, "for all, newer", agent_id="_shared", created_at=now)
    assert await column(scratch, "select id from shared_memory") == [newer, older]
    assert await scratch.fetchval("select count(*) from agents where agent_id = '_shared'") == 0
    inserted = (
        "insert into shared_memory (agent_id, content) values ('_shared', 'through the view') returning id"
    )
    assert await scratch.fetchval(inserted) in await column(scratch, "select id from shared_memory")
