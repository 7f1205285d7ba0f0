"""What a team knows: entries kept right for every writer, found by embedding, archived when they are not used."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.access.refusals import refused
from tests.support.content.index import INDEXED
from tests.support.database.schemas import connected
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import column, embedding, insert, one_row
from tests.support.waiting import BLOCKED, until

NEAR = "select title from search_shared_knowledge($1::text::vector, 0.5, 10{})"


async def know(connection: asyncpg.Connection, title: str = "Deploy on Mondays", **columns: object) -> UUID:
    """An entry, a decision of Saber's unless told otherwise."""
    values: dict[str, object] = {
        "tier": "learning",
        "category": "decision",
        "title": title,
        "content": f"{title}, as we found out",
        "created_by": "saber",
    }
    return await insert(connection, "shared_knowledge", values | columns)


async def entry(connection: asyncpg.Connection, which: UUID) -> asyncpg.Record:
    """A row as it stands."""
    return await one_row(connection, "select * from shared_knowledge where id = $1", which)


# --- What stands in an entry.


@pytest.mark.parametrize(
    ("columns", "state", "said", "hint"),
    [
        ({"tier": "top"}, "23514", "unknown tier 'top'", "Tiers: core, working, learning."),
        ({"tier": None}, "23502", '"tier"', ""),
        ({"category": " "}, "23514", "category is blank", "Such as principle"),
        ({"title": ""}, "23514", "title is blank", "A short title"),
        ({"content": "\n"}, "23514", "content is blank", "Say what is known."),
        ({"created_by": " "}, "23514", "created_by is blank", "which agent wrote it"),
        ({"created_by": None}, "23502", '"created_by"', ""),
        ({"confidence": "sure"}, "23514", "unknown confidence 'sure'", "Confidences: high, medium, low."),
        ({"status": "gone"}, "23514", "unknown status 'gone'", "Statuses: active, resolved, archived."),
        ({"surprise_score": 1.5}, "23514", "surprise_score is 1.5", "From 0 to 1."),
        ({"surprise_score": float("nan")}, "23514", "surprise_score is NaN", "From 0 to 1."),
        ({"accessed_count": -1}, "23514", "accessed_count is -1", "touch_knowledge"),
        ({"related_ids": [UUID(int=1), None]}, "23514", "related_ids holds a null", "Give ids"),
        ({"id": UUID(int=1), "related_ids": [UUID(int=1)]}, "23514", "is related to itself", "other entries"),
        (
            {"created_at": datetime(9999, 12, 31, tzinfo=UTC)},
            "23514",
            "created_at is 9999",
            "from the year 1 to 9999",
        ),
    ],
)
async def test_an_invalid_entry_is_refused_with_advice(
    scratch: asyncpg.Connection, columns: dict[str, object], state: str, said: str, hint: str
) -> None:
    values: dict[str, object] = {
        "tier": "core",
        "category": "team",
        "title": "t",
        "content": "c",
        "created_by": "x",
    }
    values |= columns
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    sql = f"insert into shared_knowledge ({', '.join(values)}) values ({places})"
    found = await refused(scratch, sql, *values.values())
    assert found[0] == state
    assert said in found[1]
    assert hint in found[2]


async def test_a_change_sets_updated_at_and_a_look_does_not(scratch: asyncpg.Connection) -> None:
    which = await know(scratch, updated_at=datetime(2026, 1, 1, tzinfo=UTC))
    for statement in (
        f"select touch_knowledge('{which}')",
        "update shared_knowledge set accessed_count = 5",
        f"update shared_knowledge set embedding = '{embedding(1)}'",
        "update shared_knowledge set title = title",
    ):
        await scratch.execute(statement)
        assert (await entry(scratch, which))["updated_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    for change in (
        "outcome = '{\"success\": true}'",
        "expires_at = now()",
        "created_by_name = 'Saber'",
        "tags = '{a}'",
    ):
        before = (await entry(scratch, which))["updated_at"]
        await scratch.execute(f"update shared_knowledge set {change}")
        assert (await entry(scratch, which))["updated_at"] > before


async def test_a_resolved_entry_has_resolved_at_until_it_is_reopened(scratch: asyncpg.Connection) -> None:
    given = datetime(2026, 5, 1, tzinfo=UTC)
    which = await know(scratch, tier="working", category="thread", status="resolved", resolved_at=given)
    assert (await entry(scratch, which))["resolved_at"] == given
    await scratch.execute("update shared_knowledge set status = 'archived'")
    assert (await entry(scratch, which))["resolved_at"] == given
    await scratch.execute("update shared_knowledge set status = 'resolved', resolved_at = null")
    assert (await entry(scratch, which))["resolved_at"] > given
    await scratch.execute("update shared_knowledge set status = 'active'")
    assert (await entry(scratch, which))["resolved_at"] is None


async def test_references_to_deleted_entries_are_removed(scratch: asyncpg.Connection) -> None:
    one, two, three = [await know(scratch, f"entry {n}") for n in range(3)]
    outcome = await know(scratch, "outcome", related_ids=[two, one, three])
    single = await know(scratch, "single", related_ids=[one])
    await scratch.execute("delete from shared_knowledge where id = any($1)", [one, three])
    assert (await entry(scratch, outcome))["related_ids"] == [two]
    assert (await entry(scratch, single))["related_ids"] == []


# --- Of use, or not.


async def test_looks_of_two_connections_are_all_counted(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    which = await know(connection)
    for _ in range(5):
        await connection.execute("select touch_knowledge($1)", which)
        await second.execute("select touch_knowledge($1)", which)
    row = await entry(connection, which)
    assert row["accessed_count"] == 10
    assert abs(row["last_accessed_at"] - datetime.now(UTC)) < timedelta(minutes=1)
    for unknown in (uuid4(), None):
        state, said, hint = await refused(connection, "select touch_knowledge($1)", unknown)
        assert (state, said) == ("P0002", f"no knowledge {unknown or 'null'}")
        assert "shared_knowledge" in hint


async def test_an_entry_of_low_confidence_expires_after_a_week(scratch: asyncpg.Connection) -> None:
    week = datetime.now(UTC) + timedelta(days=7)
    for columns, expires in (
        ({"confidence": "low"}, week),
        (
            {"confidence": "low", "expires_at": datetime(2030, 1, 1, tzinfo=UTC)},
            datetime(2030, 1, 1, tzinfo=UTC),
        ),
        ({"confidence": "low", "tier": "core"}, None),
        ({"confidence": "medium"}, None),
    ):
        found = (await entry(scratch, await know(scratch, **columns)))["expires_at"]
        assert (found is None) == (expires is None)
        assert expires is None or abs(found - expires) < timedelta(minutes=1)
    doubted = await know(scratch)
    await scratch.execute("update shared_knowledge set confidence = 'low' where id = $1", doubted)
    assert (await entry(scratch, doubted))["expires_at"] > week - timedelta(minutes=1)
    # Who wants it kept says so, and is not contradicted by the next change.
    await scratch.execute("update shared_knowledge set expires_at = null where id = $1", doubted)
    await scratch.execute("update shared_knowledge set title = 'kept' where id = $1", doubted)
    assert (await entry(scratch, doubted))["expires_at"] is None


async def test_an_entry_that_was_not_used_in_time_is_archived(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    low: dict[str, object] = {"confidence": "low", "expires_at": past}
    gone = [
        await know(connection, "unread", **low),
        await know(connection, "unread too", **low, status="resolved"),
    ]
    kept = [
        await know(connection, "used", **low, accessed_count=1),
        await know(connection, "core", **low | {"tier": "core"}),
        await know(connection, "sure", **low | {"confidence": "high"}),
        await know(connection, "not yet", confidence="low"),
    ]
    daemon = await daemons.start(cleanup_seconds=1)
    line = await daemon.event("knowledge_archived")
    assert line["entries"] == 2
    assert "unread" not in daemon.text()
    archived = await column(connection, "select id from shared_knowledge where status = 'archived'")
    assert set(archived) == set(gone)
    assert set(await column(connection, "select id from shared_knowledge where status = 'active'")) == set(
        kept
    )
    assert await connection.fetchval("select expire_low_confidence()") == 0


async def test_an_entry_used_before_its_expiry_stays(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    which = await know(connection, confidence="low", expires_at=datetime(2026, 1, 1, tzinfo=UTC))
    using = second.transaction()
    await using.start()
    await second.execute("select touch_knowledge($1)", which)
    waiting = asyncio.create_task(connection.fetchval("select expire_low_confidence()"))
    async with connected(database_url) as third:
        await until(third, BLOCKED)
    await using.commit()
    assert await waiting == 0
    assert (await entry(connection, which))["status"] == "active"


# --- Found by embedding.


@pytest.fixture
async def known(scratch: asyncpg.Connection) -> asyncpg.Connection:
    """Entries at angles from the first axis."""
    for title, numbers, columns in (
        ("exactly", (1,), {"tags": ["ops", "db"], "created_by_name": "Saber"}),
        ("nearly", (1, 0.5), {"tags": ["ops"], "tier": "core", "category": "principle"}),
        ("archived", (1, 0.1), {"status": "archived"}),
        ("resolved", (1, 0.2), {"status": "resolved", "tier": "working", "category": "thread"}),
        ("off", (0, 1), {}),
        ("opposite", (-1,), {}),
        ("nowhere", (), {}),
        ("not indexed yet", None, {}),
    ):
        given = {} if numbers is None else {"embedding": embedding(*numbers)}
        await know(scratch, title, **given, **columns)
    return scratch


async def test_knowledge_is_found_most_similar_first(known: asyncpg.Connection) -> None:
    rows = await known.fetch("select * from search_shared_knowledge($1::text::vector)", embedding(1))
    assert [row["title"] for row in rows] == ["exactly", "resolved", "nearly"]
    assert list(rows[0].keys()) == [
        "id", "tier", "category", "title", "content", "created_by_name", "confidence", "tags", "similarity",
        "created_at",
    ]  # fmt: skip
    assert rows[0]["similarity"] == 1
    assert rows[0]["created_by_name"] == "Saber"
    assert round(rows[2]["similarity"], 3) == 0.894
    everything = (
        "select title from search_shared_knowledge($1::text::vector, -1, 100, exclude_archived => false)"
    )
    # A similarity is above the threshold, not at it; what points nowhere has none.
    assert await column(known, everything, embedding(1)) == [
        "exactly",
        "archived",
        "resolved",
        "nearly",
        "off",
    ]
    assert await column(known, everything, embedding()) == []


@pytest.mark.parametrize(
    ("filter_", "titles"),
    [
        ("", ["exactly", "resolved", "nearly"]),
        (", filter_tier => 'core'", ["nearly"]),
        (", filter_category => 'thread'", ["resolved"]),
        (", filter_category => 'unheard of'", []),
        (", filter_tags => '{db, web}'", ["exactly"]),
        (", filter_tags => '{ops}', filter_tier => 'learning'", ["exactly"]),
        (", exclude_archived => false", ["exactly", "archived", "resolved", "nearly"]),
        (", exclude_archived => null", ["exactly", "resolved", "nearly"]),
        (", null, null, null, true", ["exactly", "resolved", "nearly"]),
    ],
)
async def test_a_search_can_be_filtered(known: asyncpg.Connection, filter_: str, titles: list[str]) -> None:
    assert await column(known, NEAR.format(filter_), embedding(1)) == titles


async def test_a_search_returns_at_most_the_given_count(known: asyncpg.Connection) -> None:
    sql = "select title from search_shared_knowledge($1::text::vector, 0.5, $2)"
    assert await column(known, sql, embedding(1), 2) == ["exactly", "resolved"]
    assert await column(known, sql, embedding(1), 0) == []


@pytest.mark.parametrize(
    ("arguments", "state", "said", "hint"),
    [
        ("null", "22004", "query_embedding is null", "recall() takes words"),
        ("'[1,2,3]'", "22023", "query_embedding has 3 dimensions, this database 256", "MEMORYD_EMBEDDER"),
        ("$1::text::vector, 1.01", "22023", "match_threshold is 1.01", "from -1 to 1"),
        ("$1::text::vector, 'NaN'", "22023", "match_threshold is NaN", "from -1 to 1"),
        ("$1::text::vector, null", "22023", "match_threshold is null", "from -1 to 1"),
        ("$1::text::vector, 0, -1", "22023", "match_count is -1", "0 or more"),
        ("$1::text::vector, 0, null", "22023", "match_count is null", "0 or more"),
        ("$1::text::vector, 0, 1, 'top'", "22023", "unknown tier 'top'", "Tiers: core, working, learning"),
    ],
)
async def test_an_invalid_search_is_refused_with_advice(
    scratch: asyncpg.Connection, arguments: str, state: str, said: str, hint: str
) -> None:
    given = (embedding(1),) if "$1" in arguments else ()
    found = await refused(scratch, f"select * from search_shared_knowledge({arguments})", *given)
    assert found[:2] == (state, said)
    assert hint in found[2]


async def test_an_entry_gets_its_embedding(connection: asyncpg.Connection, daemon: DaemonProcess) -> None:
    which = await know(connection, "Postgres upgrades happen on Sundays")
    await until(connection, INDEXED, which)
    found = await column(
        connection,
        "select s.title from memoryd.entries k, search_shared_knowledge(k.embedding::vector) s where k.id = $1",
        which,
    )
    assert found == ["Postgres upgrades happen on Sundays"]


async def test_shared_knowledge_is_closed_to_end_users(known: asyncpg.Connection) -> None:
    async with acting_as(known, ANN):
        for sql in (
            "select * from shared_knowledge",
            "insert into shared_knowledge (tier, category, title, content, created_by) values ('core', 'a', 'b', 'c', 'd')",
            f"select * from search_shared_knowledge('{embedding(1)}')",
            "select touch_knowledge(gen_random_uuid())",
            "select expire_low_confidence()",
        ):
            assert (await refused(known, sql))[0] == "42501"
    async with acting_as(known, None, role="memoryd_service"):
        assert await column(known, NEAR.format(""), embedding(1)) == ["exactly", "resolved", "nearly"]
