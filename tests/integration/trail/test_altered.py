"""Whatever column of the trail is altered, `memoryd verify --all` says so: a break, or that it cannot be verified."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from tests.integration.trail.test_log import _Within, anchored, named, trail_of, verified
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.database.schemas import NO_TRIGGERS
from tests.support.rows import column, insert, remember

COLUMNS = """
select c.oid::regclass::text as name, a.attname, t.typname
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
where c.relkind = 'r' and c.relnamespace in ('memoryd'::regnamespace, 'public'::regnamespace)
  and (c.relname = 'trail' or c.relname like 'trail\\_%' or c.relname = 'memory_anchors')
order by 1, a.attnum
"""
OTHER = {
    "uuid": ["gen_random_uuid()", f"'{ANN}'", "(select id from agent_memory where content = 'other')"],
    "text": ["'x'", "'incident'", "'bob'", "'{0}' || {0}"],
    "jsonb": ['\'{"erased": true}\'', '\'{"content": "x"}\'', "'{}'", "{0} || '{\"content\": \"the opposite\"}'"],
    "bytea": ["sha256('x')", "{0} || '\\x00'", "''"],
    "int8": ["{0} + 1", "{0} - 1", "{0} + 1000", "-1"],
    "int2": ["{0} + 1"],
    "bool": ["not {0}"],
    "timestamptz": ["{0} + interval '1 microsecond'", "'infinity'", "now()"],
}  # fmt: skip
# What says nothing of an anchor and of no checkpoint: docs/trail.md says so.
WORK = {
    ("memoryd.trail_leaves", "id"),
    ("memoryd.trail_leaves", "fact_written"),
    ("memoryd.trail_checkpoints", "signed_at"),
    ("memoryd.trail", "only_one"),
}
ASKED = {"memoryd.trail_ledgers", "memoryd.trail_receipts"}
"""What ledgers have said: `verify --all --ledgers` asks them."""
OF_ANCHOR = {"memory_anchors": "id", "memoryd.trail_leaves": "anchor_id"}


async def test_each_column_that_is_altered_is_named(
    connection: asyncpg.Connection, database: Database
) -> None:
    """Of an anchor that is whole, of one that was erased, and of one that an import has put back."""
    await remember(connection, "other")
    [_, back, _] = await anchored(connection, 3, BOB)
    [_, gone] = await anchored(connection, 2, ANN)
    [_, whole] = await anchored(connection, 2)
    await trail_of(database).advance()
    exported = json.loads(await connection.fetchval("select export_user_memory($1)", BOB))["tables"]
    await connection.execute("select erase_user_memory($1)", ANN)
    await connection.execute("select erase_user_memory($1)", BOB)
    await give_back(connection, exported)
    # Another one of the agent, and a second checkpoint.
    await anchored(connection, 2)
    await trail_of(database).advance()
    found = await verified(database)
    assert (found.breaks, found.unverifiable, found.changed, found.sealed) == ([], [], [], 2)

    altered = set()
    transaction = connection.transaction()
    await transaction.start()
    # As the owner, who can also switch off foreign keys.
    await connection.execute(NO_TRIGGERS)
    for name, attribute, kind in await connection.fetch(COLUMNS):
        if name in ASKED or (name, attribute) in WORK:
            continue
        rows = (
            [f"{OF_ANCHOR[name]} = '{one}'" for one in (whole, gone, back)] if name in OF_ANCHOR else ["true"]
        )
        for row in rows:
            for value in ("null", *OTHER[kind]):
                what = f"update {name} set {attribute} = {value.replace('{0}', attribute)} where {row}"
                if await is_altered(connection, what, name):
                    altered.add((name, attribute))
    await connection.execute("delete from memoryd.trail")
    with pytest.raises(ValueError, match=r"memoryd\.trail has no row"):
        await verified(_Within(connection))  # type: ignore[arg-type]
    await transaction.rollback()
    every = {(name, attribute) for name, attribute, _ in await connection.fetch(COLUMNS)}
    assert {one for one in every - altered if one[0] not in ASKED} == WORK


async def is_altered(connection: asyncpg.Connection, what: str, name: str) -> bool:
    """Whether the statement could change something; then it is found."""
    count = f"select md5(string_agg(t::text, '' order by t::text)) from {name} t"
    before = await connection.fetchval(count)
    step = connection.transaction()
    await step.start()
    try:
        await connection.execute(what)
    except (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError):
        await step.rollback()
        return False
    changed: bool = await connection.fetchval(count) != before
    if changed:
        found = await verified(_Within(connection))  # type: ignore[arg-type]
        assert found.breaks or found.unverifiable, what
    await step.rollback()
    return changed


async def give_back(connection: asyncpg.Connection, tables: dict[str, Any], to: UUID = BOB) -> int:
    """Imports the memories and the anchors of Bob's export; how many anchors came back."""
    put = "select memoryd.import_rows($1, $2, $3, $4)"
    await connection.execute(put, BOB, to, "agent_memory", json.dumps(tables["agent_memory"]))
    count: int = await connection.fetchval(
        put, BOB, to, "memory_anchors", json.dumps(tables["memory_anchors"])
    )
    return count


async def test_an_import_puts_back_only_what_was_anchored(
    connection: asyncpg.Connection, database: Database
) -> None:
    """A service that anchors, exports, erases and has imported what it likes changes nothing unseen."""
    anchors = await anchored(connection, 3, BOB)
    await connection.execute(
        "update agent_memory set expires_at = now() - interval '1 s' where content = 'step 2'"
    )
    await connection.execute("select cleanup_expired_memory()")
    await trail_of(database).advance()
    tables = json.loads(await connection.fetchval("select export_user_memory($1)", BOB))["tables"]
    await connection.execute("select erase_user_memory($1)", BOB)
    shown = await column(connection, "select to_jsonb(a) - array['id', 'agent_id', 'content_hash', 'previous_hash'] "
                                     "from memory_anchors a")  # fmt: skip
    assert [{k: v for k, v in json.loads(str(one)).items() if v is not None} for one in shown] == [
        {"payload": {"erased": True}}
    ] * 3
    changed = json.loads(json.dumps(tables))
    for row, how in zip(
        changed["memory_anchors"],
        (
            {"category": "incident"},
            {"created_at": "2020-01-01T00:00:00Z"},
            {"leaf": {"salt": "00" * 32, "memory_id": "x"}},
        ),
        strict=True,
    ):
        row.update(how)
    assert await give_back(connection, changed) == 0
    assert (await verified(database)).sealed == 3
    for row in changed["memory_anchors"]:
        del row["leaf"]  # of an older memoryd
    assert await give_back(connection, changed) == 0
    assert await give_back(connection, tables) == 3
    found = await verified(database)
    assert (found.breaks, found.unverifiable, found.changed, found.sealed) == ([], [], [], 0)
    assert (
        await column(
            connection, "select anchor_id from memoryd.trail_leaves where user_id = $1 order by id", BOB
        )
        == anchors
    )
    async with acting_as(connection, None, role="memoryd_service"):
        await connection.execute("update memory_anchors set category = 'incident' where id = $1", anchors[1])
        await connection.execute("update memory_anchors set memory_id = null where id = $1", anchors[0])
    assert named(await verified(database)) == {("altered", 0), ("altered", 1)}


async def test_the_change_of_a_memory_is_not_hidden_by_taking_its_anchor_away(
    connection: asyncpg.Connection, database: Database
) -> None:
    [anchor] = await anchored(connection, 1)
    await trail_of(database).advance()
    async with acting_as(connection, None, role="memoryd_service"):
        await connection.execute("update memory_anchors set memory_id = null")
        await connection.execute("update agent_memory set content = 'the opposite' where kind <> 'fact'")
    found = await verified(database)
    assert named(found) == {("altered", 0)}
    assert [one["anchor"] for one in found.changed] == [str(anchor)]


async def test_the_agent_of_an_erased_user_keeps_one_chain_when_its_anchors_come_back(
    connection: asyncpg.Connection, database: Database
) -> None:
    """Its name was erased with the user, and others have begun a chain of that name meanwhile."""
    mine = await insert(
        connection, "agent_memory", {"agent_id": "bobs own", "content": "x", "kind": "note", "user_id": BOB}
    )
    for memory in (mine, mine):
        await insert(
            connection,
            "memory_anchors",
            {"memory_id": memory, "agent_id": "bobs own", "category": "decision"},
        )
    await trail_of(database).advance()
    tables = json.loads(await connection.fetchval("select export_user_memory($1)", BOB))["tables"]
    await connection.execute("select erase_user_memory($1)", BOB)
    assert "bobs own" not in await column(connection, "select agent_id from memory_anchors")
    await insert(
        connection, "memory_anchors", {"agent_id": "bobs own", "category": "decision", "payload": "{}"}
    )
    await trail_of(database).advance()
    assert await give_back(connection, tables) == 2
    found = await verified(database)
    assert (found.breaks, found.unverifiable, found.sealed, found.leaves) == ([], [], 0, 3)


async def test_a_long_memory_is_compared_by_its_hash(
    connection: asyncpg.Connection, database: Database
) -> None:
    memory = await remember(connection, "word " * 40_000)
    anchors = {await connection.fetchval("select memoryd.anchor($1, 'decision')", memory) for _ in range(2)}
    await trail_of(database).advance()
    assert (await verified(database)).changed == []
    async with acting_as(connection, None, role="memoryd_service"):
        await connection.execute("update agent_memory set content = 'the opposite' where id = $1", memory)
    assert [one["anchor"] for one in (await verified(database)).changed] == [str(one) for one in anchors]


async def test_a_service_forges_no_hash_of_an_erased_anchor(
    connection: asyncpg.Connection, database: Database
) -> None:
    """In the middle of a chain the next row could be made to fit, since no leaf has its previous_hash."""
    await anchored(connection, 1)
    [gone, after] = [*await anchored(connection, 1, ANN), *await anchored(connection, 1)]
    await trail_of(database).advance()
    await connection.execute("select erase_user_memory($1)", ANN)
    whole = await connection.fetchval("select to_jsonb(a) from memory_anchors a where id = $1", after)
    made = "insert into memory_anchors (id, agent_id, payload, content_hash) values ($1, 'x', '{\"erased\": true}', $2)"
    async with acting_as(connection, None, role="memoryd_service"):
        for what in (
            "update memory_anchors set content_hash = '\\x00' where id = $1",
            "update memory_anchors set agent_id = 'another' where id = $1",
            "delete from memory_anchors where id = $1",
        ):
            assert (await connection.execute(what, gone)).endswith(" 0")
        # One that is whole, turned into an erased one.
        await connection.execute("delete from memory_anchors where id = $1", after)
        assert (await refused(connection, made, after, bytes(32)))[0] == "42501"
        put_back = "insert into memory_anchors select * from jsonb_populate_record(null::memory_anchors, $1)"
        await connection.execute(put_back, whole)
    found = await verified(database)
    assert (found.breaks, found.unverifiable, found.sealed) == ([], [], 1)
