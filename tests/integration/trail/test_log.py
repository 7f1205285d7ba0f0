"""The log of a database: places, checkpoints and proofs; and each thing that somebody can do to it is found and named."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from daemon.db.pool import Database
from daemon.logs import get_logger
from plugins.trail.log import BrokenTrailError, Pace, Trail, origin_of
from plugins.trail.reading import MissingSignatureError, Verification, prove, read_keys, verify_all
from plugins.trail.rules.note import BadNote, Checkpoint, Signature, sign, verifier_of
from plugins.trail.rules.proof import Proof, check
from tests.support.access.acting import ANN, BOB
from tests.support.rows import column, insert, remember
from tests.support.waiting import BLOCKED, until

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
PLACES = "select anchor_id from memoryd.trail_leaves where position is not null order by position"


def trail_of(database: Database, *, key: Ed25519PrivateKey | None = KEY, leaves: int = 1) -> Trail:
    return Trail(database, key=key, pace=Pace(leaves, 300), ledgers=[], logger=get_logger())


async def anchored(connection: asyncpg.Connection, count: int, user: UUID | None = None) -> list[UUID]:
    """Anchors, each of a memory of its own."""
    return [
        await connection.fetchval(
            "select memoryd.anchor($1, 'decision')", await remember(connection, f"step {n}", user_id=user)
        )
        for n in range(count)
    ]


async def verified(database: Database) -> Verification:
    return await verify_all(database, await read_keys(database))


def named(found: Verification) -> set[tuple[str, int | None]]:
    return {(one.how, one.position) for one in found.breaks}


@pytest.fixture
async def signed(connection: asyncpg.Connection, database: Database) -> list[UUID]:
    """Seven anchors of a user in two checkpoints, and two that are not signed."""
    trail = trail_of(database)
    anchors = await anchored(connection, 4, ANN)
    await trail.advance()
    anchors += await anchored(connection, 3, ANN)
    await trail.advance()
    return anchors


async def test_from_a_row_to_a_proof_that_holds_without_a_database(
    connection: asyncpg.Connection, database: Database
) -> None:
    [anchor] = await anchored(connection, 1)
    with pytest.raises(MissingSignatureError):
        await prove(connection, anchor, with_row=True)
    await trail_of(database).advance()
    memory = await connection.fetchval("select memory_id from memory_anchors where id = $1", anchor)
    trail = await connection.fetchval("select id from memoryd.trail")
    for asked in (anchor, memory):
        read = Proof.parse(str(await prove(connection, asked, with_row=True)))
        shown = check(read, [verifier_of(KEY, origin_of(trail))])
        assert (shown.row["id"], shown.row["payload"]["content"]) == (str(anchor), "step 0")
    proof = await prove(connection, anchor, with_row=True)
    hidden = await prove(connection, anchor, with_row=False)
    assert (hidden.row, hidden.salt) == (None, None)
    with pytest.raises(BadNote, match="of another database"):
        check(proof, [verifier_of(KEY, origin_of(uuid4()))])
    with pytest.raises(BadNote, match="none of the given keys"):
        check(proof, [verifier_of(OTHER, origin_of(trail))])
    found = await verified(database)
    assert (found.leaves, found.checkpoints, found.unsigned, found.breaks, found.changed) == (1, 1, 0, [], [])
    facts = await connection.fetch("select content, ttl_hours, source from agent_memory where kind = 'fact'")
    cid = await connection.fetchval("select cid from memory_anchors")
    assert [tuple(one) for one in facts] == [
        (f"A decision was anchored: CID {cid}, leaf 0 of the trail.", None, "anchor")
    ]
    await trail_of(database).advance()
    assert await connection.fetchval("select count(*) from agent_memory where kind = 'fact'") == 1


async def test_what_has_no_place_yet_is_counted_and_compared(
    connection: asyncpg.Connection, database: Database
) -> None:
    await anchored(connection, 1)
    await trail_of(database).advance()
    whole, altered, removed = await anchored(connection, 3)
    assert (found := await verified(database)).breaks == []
    assert (found.leaves, found.unsigned, found.waiting) == (1, 0, 3)
    await connection.execute("update memory_anchors set category = 'incident' where id = $1", altered)
    await connection.execute("delete from memory_anchors where id = $1", removed)
    found = await verified(database)
    assert {(one.how, one.anchor) for one in found.breaks} == {
        ("altered", str(altered)),
        ("removed", str(removed)),
    }
    # Carried over from before the log: without leaves as yet.
    await connection.execute("update memoryd.trail set carried = false")
    await connection.execute("delete from memoryd.trail_leaves where anchor_id = $1", whole)
    assert (await verified(database)).waiting == 3


async def test_a_context_counts_the_anchors_of_its_user_and_of_the_agent(
    connection: asyncpg.Connection, database: Database
) -> None:
    """What is anchored or erased of others changes nothing."""
    line = "select substring(build_context('alice', 'step 0 of what we decided', user_id => $1) from 'Anchors: .*?[.,]')"
    await anchored(connection, 1)
    await anchored(connection, 1, BOB)
    anchors = await anchored(connection, 3, ANN)
    await connection.execute("update memory_anchors set category = 'incident' where id = any($1)", anchors)
    await trail_of(database).advance()
    for erased in (None, ANN):
        if erased:
            await connection.execute("select erase_user_memory($1)", erased)
        said = [await connection.fetchval(line, user) for user in (None, BOB)]
        assert said == ["Anchors: 1,", "Anchors: 2,"]
        whole = await connection.fetchval(
            "select build_context('alice', 'step 0 of what we decided', user_id => $1)", BOB
        )
        assert "incident" not in whole


async def test_places_are_dense_whatever_order_transactions_commit_in(
    connection: asyncpg.Connection, second: asyncpg.Connection, database: Database
) -> None:
    trails = [trail_of(database, leaves=1000) for _ in range(3)]
    transaction = second.transaction()
    await transaction.start()
    late = await anchored(second, 1)
    early = await anchored(connection, 1)
    await trails[0].advance()
    assert await column(connection, PLACES) == early
    await transaction.commit()
    undone = second.transaction()
    await undone.start()
    await anchored(second, 1)
    await undone.rollback()
    # Locked by somebody: it gets its place the next time, and delays nobody.
    async with second.transaction():
        await second.execute("update memory_anchors set chain_tx = 'x' where id = $1", late[0])
        next_ones = await anchored(connection, 2)
        await asyncio.gather(*(trail.advance() for trail in trails))
        assert await column(connection, PLACES) == early + next_ones
    await asyncio.gather(*(trail.advance() for trail in trails))
    assert await column(connection, PLACES) == early + next_ones + late
    assert await column(connection, "select position from memoryd.trail_leaves order by 1") == [0, 1, 2, 3]
    chain = await connection.fetch(
        "select a.content_hash, a.previous_hash from memory_anchors a join memoryd.trail_leaves l on l.anchor_id = a.id "
        "order by l.position"
    )
    assert [row["previous_hash"] for row in chain] == [None, *(row["content_hash"] for row in chain[:-1])]
    assert named(await verified(database)) == set()


TAMPERED = {
    "payload": ("update memory_anchors set payload = payload || '{\"content\": \"x\"}' where id = $1", "altered"),
    "category": ("update memory_anchors set category = 'incident' where id = $1", "altered"),
    "agent": ("update memory_anchors set agent_id = 'bob' where id = $1", "altered"),
    "time": ("update memory_anchors set created_at = created_at + interval '1 microsecond' where id = $1", "altered"),
    "memory": (
        "update memory_anchors set memory_id = (select id from agent_memory where content = 'other') where id = $1",
        "altered",
    ),
    "chain": ("update memory_anchors set previous_hash = 'x' where id = $1", "altered"),
    "row deleted": ("delete from memory_anchors where id = $1", "removed"),
    "leaf": ("update memoryd.trail_leaves set leaf = sha256('x'), salt = null where anchor_id = $1", "altered"),
}  # fmt: skip


@pytest.mark.parametrize("how", TAMPERED)
async def test_a_tampered_row_is_found_at_each_position(
    connection: asyncpg.Connection, database: Database, signed: list[UUID], how: str
) -> None:
    await remember(connection, "other")
    sql, break_ = TAMPERED[how]
    for position, anchor in enumerate(signed):
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(sql, anchor)
        # Read in the transaction that is undone.
        found = await verified(_Within(connection))  # type: ignore[arg-type]
        await transaction.rollback()
        assert (break_, position) in named(found)
        assert str(anchor) in {one.anchor for one in found.breaks}
        assert {one.how for one in found.breaks} == {break_}
    assert named(await verified(database)) == set()


class _Within:
    """A database that reads through one connection."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.fetch = connection.fetch


async def test_what_is_done_to_the_log_itself_is_found(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    """By somebody who may write every table, but has not the key."""
    swap = (
        "update memoryd.trail_leaves set position = case position when 1 then -2 when 2 then -1 else position end; "
        "update memoryd.trail_leaves set position = -position - 0 where position < 0"
    )
    close = (
        "delete from memoryd.trail_leaves where position = 3; delete from memory_anchors where id = $$"
        + str(signed[3])
        + "$$; "
        "update memoryd.trail_leaves set position = position - 1 + 100 where position > 3; "
        "update memoryd.trail_leaves set position = position - 100 where position > 50"
    )
    cases = {
        swap: {"reordered"},
        close: {"removed"},
        "delete from memoryd.trail_leaves where position >= 5": {"truncated", "inserted"},
        "update memoryd.trail_tiles set hashes = substr(hashes, 33)": {"copy"},
        "alter table memory_anchors disable trigger user; "
        "insert into memory_anchors (agent_id, category, payload, content_hash) "
        "values ('a', 'decision', '{}', 'x')": {"inserted"},
        # The line of the size: other lines may end with the same digit.
        r"update memoryd.trail_checkpoints set note = regexp_replace(note, '\n\d+\n', E'\n' || size + 1 || E'\n')": {"forged"},
        "update memoryd.trail set id = gen_random_uuid()": {"foreign"},
        "update memoryd.trail_checkpoints set size = size + 1": {"forged"},
    }  # fmt: skip
    for sql, kinds in cases.items():
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(sql)
        found = await verified(_Within(connection))  # type: ignore[arg-type]
        await transaction.rollback()
        assert {one.how for one in found.breaks} == kinds, sql


async def test_a_history_that_its_owner_wrote_anew_is_found_by_a_checkpoint_kept_elsewhere(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    """The owner has the key, and makes leaf, tiles and checkpoints anew: only what others keep speaks against it."""
    keys = await read_keys(database)
    kept = check(await prove(connection, signed[0], with_row=True), keys).checkpoint
    await connection.execute(
        "truncate memoryd.trail_tiles, memoryd.trail_checkpoints, memoryd.trail_leaves, memoryd.trail_agents"
    )
    await connection.execute("update memory_anchors set payload = '{}' where id = $1", signed[0])
    await connection.execute("update memoryd.trail set size = 0, carried = false")
    await trail_of(database).advance()
    assert named(await verified(database)) == set()
    assert {one.how for one in (await verify_all(database, keys, known=[kept])).breaks} == {"rewritten"}


async def test_no_checkpoint_is_signed_over_a_log_that_was_changed(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    await anchored(connection, 1)
    await connection.execute(
        "update memoryd.trail_tiles set hashes = set_byte(hashes, 4, 255 - get_byte(hashes, 4))"
    )
    with pytest.raises(BrokenTrailError, match="does not begin with what the last checkpoint says"):
        await trail_of(database).advance()
    assert await column(connection, "select size from memoryd.trail_checkpoints order by 1") == [4, 7]
    await connection.execute("delete from memoryd.trail_tiles")
    await anchored(connection, 1)
    with pytest.raises(BrokenTrailError, match="missing or too short"):
        await trail_of(database).advance()


async def test_a_signature_of_somebody_else_is_counted_and_not_checked(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    """As in the proofs that an earlier memoryd wrote, with the signature of a witness."""
    line = Signature("witness.example", b"abcd", b"x" * 72).line()
    made = Proof.parse(str(await prove(connection, signed[0], with_row=True)) + line)
    assert check(made, await read_keys(database)).unchecked == 1


async def test_another_key_follows_and_the_old_one_stays_valid(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    old = await prove(connection, signed[0], with_row=True)
    await anchored(connection, 2)
    await trail_of(database, key=None).advance(sign_now=True)
    assert await column(connection, "select size from memoryd.trail_checkpoints order by 1") == [4, 7]
    await asyncio.gather(*(trail_of(database, key=key).advance() for key in (OTHER, OTHER)))
    keys = await read_keys(database)
    assert len(keys) == 2
    for proof in (old, await prove(connection, signed[6], with_row=True)):
        assert check(proof, keys).row is not None
    assert named(await verified(database)) == set()


async def test_a_signature_that_is_not_stored_leaves_nothing(
    connection: asyncpg.Connection, database: Database
) -> None:
    """The disk is full, or the daemon dies, at the last statement: the next one begins anew."""
    anchors = await anchored(connection, 2)
    await connection.execute(
        "create function fail() returns trigger language plpgsql as "
        "$$ begin raise exception 'no space left on device' using errcode = 'disk_full'; end $$; "
        "create trigger fail before insert on memoryd.trail_checkpoints for each row execute function fail()"
    )
    with pytest.raises(asyncpg.DiskFullError):
        await trail_of(database).advance()
    assert await connection.fetchval("select count(*) from memoryd.trail_checkpoints") == 0
    await connection.execute("drop trigger fail on memoryd.trail_checkpoints")
    await trail_of(database).advance()
    assert await column(connection, PLACES) == anchors
    assert named(await verified(database)) == set()


async def test_a_clock_that_was_set_back_delays_no_checkpoint(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    await connection.execute("update memoryd.trail_checkpoints set signed_at = now() + interval '1 year'")
    await anchored(connection, 1)
    await trail_of(database, leaves=1000).advance()
    assert await connection.fetchval("select max(size) from memoryd.trail_checkpoints") == 8


async def test_an_erased_user_leaves_the_proofs_of_all_others(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    [bobs] = await anchored(connection, 1, BOB)
    waiting = await anchored(connection, 1, ANN)
    await connection.execute("select erase_user_memory($1)", ANN)
    await trail_of(database).advance()
    found = await verified(database)
    assert (found.leaves, found.sealed, found.breaks, found.changed) == (9, 8, [], [])
    assert check(await prove(connection, bobs, with_row=True), await read_keys(database)).row["id"] == str(
        bobs
    )
    for gone in (signed[0], waiting[0]):
        assert (await prove(connection, gone, with_row=True)).row is None
    assert await connection.fetchval("select count(*) from agent_memory where user_id = $1", ANN) == 0


async def test_a_memory_that_was_changed_later_is_named(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    await connection.execute("update agent_memory set content = 'changed' where content = 'step 2' and user_id = $1 "
                             "and id in (select memory_id from memory_anchors where id = $2)", ANN, signed[2])  # fmt: skip
    found = await verified(database)
    assert found.breaks == []
    assert [one["anchor"] for one in found.changed] == [str(signed[2])]


async def test_anchors_from_before_the_log_are_carried_in(
    connection: asyncpg.Connection, database: Database
) -> None:
    memory = await remember(connection, "old", user_id=ANN)
    rows = [{"agent_id": "alice", "category": "decision", "payload": "{}", "content_hash": bytes([n]) * n, "created_at": when}
            for n, when in ((3, timedelta(0)), (2, timedelta(days=1)), (1, timedelta(days=2)))]  # fmt: skip
    now = await connection.fetchval("select now()")
    for row in rows:
        await insert(
            connection, "memory_anchors", row | {"created_at": now - row["created_at"], "memory_id": memory}
        )
    erased: dict[str, object] = {
        "agent_id": "x",
        "category": "decision",
        "payload": '{"erased": true}',
        "content_hash": b"e",
    }
    await insert(connection, "memory_anchors", erased)
    await connection.execute("truncate memoryd.trail_leaves")
    await connection.execute("update memoryd.trail set carried = false")
    await trail_of(database).advance()
    found = await verified(database)
    assert (found.leaves, found.sealed, found.breaks) == (4, 1, [])
    # What is old gets no fact of today.
    assert await connection.fetchval("select count(*) from agent_memory") == 1
    carried = await connection.fetch(
        "select a.content_hash from memory_anchors a join memoryd.trail_leaves l on l.anchor_id = a.id "
        "where a.agent_id = 'alice' order by l.position"
    )
    assert [len(row["content_hash"]) for row in carried] == [1, 2, 3]


async def test_a_checkpoint_of_another_database_is_refused(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    forged = sign(Checkpoint(origin_of(uuid4()), 7, bytes(32)), KEY)
    await connection.execute("update memoryd.trail_checkpoints set note = $1 where size = 7", str(forged))
    assert {one.how for one in (await verified(database)).breaks} == {"foreign"}
    await anchored(connection, 1)
    with pytest.raises(BrokenTrailError, match="of another database"):
        await trail_of(database).advance()


async def test_what_fills_an_erased_anchor_again_and_a_place_far_away_are_named(
    connection: asyncpg.Connection, database: Database, signed: list[UUID]
) -> None:
    await connection.execute("select erase_user_memory($1)", ANN)
    await connection.execute(
        "update memory_anchors set payload = jsonb_build_object('content', 'the opposite'), category = 'decision', "
        "created_at = now() where id = $1",
        signed[2],
    )
    assert named(await verified(database)) == {("altered", 2)}
    await connection.execute(
        "update memoryd.trail_leaves set position = 300000000000 where anchor_id = $1", signed[6]
    )
    assert ("reordered", 300_000_000_000) in named(await verified(database))


async def test_a_daemon_signs_nothing_that_does_not_continue_what_it_signed(
    connection: asyncpg.Connection, database: Database
) -> None:
    trail = trail_of(database)
    await anchored(connection, 3)
    await trail.advance()
    # Somebody without the key writes the history anew, and deletes what could tell.
    await connection.execute("delete from memoryd.trail_checkpoints")
    await connection.execute("update memoryd.trail_leaves set leaf = sha256(leaf) where position = 1")
    await connection.execute(
        "update memoryd.trail_tiles set hashes = overlay(hashes placing sha256(hashes) from 33) where level = 0"
    )
    await anchored(connection, 1)
    with pytest.raises(BrokenTrailError, match="does not begin"):
        await trail.advance()
    assert await connection.fetchval("select count(*) from memoryd.trail_checkpoints") == 0


async def test_an_erasure_that_ends_while_old_anchors_are_carried_in_leaves_no_salt(
    connection: asyncpg.Connection, second: asyncpg.Connection, database: Database
) -> None:
    await anchored(connection, 2, ANN)
    await connection.execute("delete from memoryd.trail_leaves")
    await connection.execute("update memoryd.trail set carried = false")
    async with second.transaction():
        await second.execute("select erase_user_memory($1)", ANN)
        carrying = asyncio.create_task(trail_of(database).advance())
        await until(connection, BLOCKED)
    await carrying
    assert (await verified(database)).breaks == []
    assert await column(connection, "select salt from memoryd.trail_leaves") == [None, None]
