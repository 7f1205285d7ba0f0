"""Anchors and their leaves: what is filled in, what is hashed, who may anchor, and what an erasure leaves."""

from __future__ import annotations

import hashlib
import json
from uuid import UUID, uuid4

import asyncpg
import pytest

from plugins.trail.rules import canonical
from plugins.trail.rules.canonical import cid_of
from plugins.trail.rules.proof import leaf_of
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.rows import insert, remember

ANCHOR = "select memoryd.anchor($1, $2)"
LEAVES = """
select l.*, a.payload::text as payload_text, a.content_hash, a.cid, a.agent_id, a.memory_id as anchored,
       memoryd.anchor_text(a, l.memory_id, l.chained) as said
from memoryd.trail_leaves l left join memory_anchors a on a.id = l.anchor_id
order by l.id
"""


async def test_a_service_anchors_a_memory_and_the_leaf_is_that_of_the_row(
    connection: asyncpg.Connection,
) -> None:
    said = 'we décided: "A"\n\t\x7f\x1f \\ end \U0001f600'
    memory = await remember(connection, said, user_id=ANN)
    async with acting_as(connection, None, role="memoryd_service"):
        anchor = await connection.fetchval(ANCHOR, memory, "decision")
        assert await connection.fetchval(ANCHOR, memory, "decision") == anchor
    [leaf] = await connection.fetch(LEAVES)
    assert (leaf["anchor_id"], leaf["user_id"], leaf["memory_id"], leaf["agent_id"]) == (
        anchor,
        ANN,
        memory,
        "alice",
    )
    payload = json.loads(leaf["payload_text"])
    assert (payload["content"], payload["user_id"], payload["category"]) == (said, str(ANN), "decision")
    assert leaf["content_hash"] == hashlib.sha256(leaf["payload_text"].encode()).digest()
    assert leaf["cid"] == cid_of(leaf["payload_text"].encode())
    assert leaf["leaf"] == leaf_of(leaf["said"], leaf["salt"])
    assert canonical.read(leaf["said"])["payload"]["content"] == said
    assert leaf["position"] is None


async def test_any_json_has_the_canonical_form_that_python_reads(connection: asyncpg.Connection) -> None:
    """And what a writer gives of an anchor is kept as it is."""
    payload = json.dumps(
        {
            "bb": [1, 1.50, -0.0, 1e3, 12345678901234567890.123, True, None, {}],
            "a": "x\u2028\u00e9e\u0301",
            "ä": [],
        }
    )
    given: dict[str, object] = {
        "agent_id": "alice",
        "category": "milestone",
        "payload": payload,
        "content_hash": b"own",
        "previous_hash": b"x",
    }
    await insert(connection, "memory_anchors", given)
    [leaf] = await connection.fetch(LEAVES)
    assert canonical.write(canonical.read(leaf["said"])) == leaf["said"]
    assert (leaf["content_hash"], leaf["cid"], leaf["chained"]) == (b"own", None, True)
    assert leaf["leaf"] == leaf_of(leaf["said"], leaf["salt"])


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_admin"])
async def test_who_may_not_anchor_learns_nothing_of_the_row(
    connection: asyncpg.Connection, role: str
) -> None:
    memories = [await remember(connection, "secret", user_id=user) for user in (ANN, BOB)]
    row = "insert into memory_anchors (memory_id, category) values ($1, 'decision')"
    answers = set()
    async with acting_as(connection, ANN, role=role):
        for memory in (*memories, uuid4()):
            answers.add(await refused(connection, ANCHOR, memory, "decision"))
            answers.add(await refused(connection, row, memory))
    assert {state for state, _, _ in answers} == {"42501"}
    assert len(answers) == 2
    assert await connection.fetchval("select count(*) from memoryd.trail_leaves") == 0


async def test_wrong_ids_and_categories_are_refused_with_advice(connection: asyncpg.Connection) -> None:
    memory = await remember(connection, "x")
    async with acting_as(connection, None, role="memoryd_service"):
        assert (await refused(connection, ANCHOR, uuid4(), "decision"))[:2] == (
            "P0002",
            "there is no memory with this id",
        )
        row = "insert into memory_anchors (memory_id, category) values ($1, 'decision')"
        assert await refused(connection, row, uuid4()) == await refused(
            connection, ANCHOR, uuid4(), "decision"
        )
        assert "milestone, decision, incident" in (await refused(connection, ANCHOR, memory, "party"))[2]
        assert (await refused(connection, "select memoryd.anchor('nonsense', 'decision')"))[0] == "22P02"
        assert (await refused(connection, "select * from memoryd.trail_leaves"))[0] == "42501"
    long = await remember(connection, "é" * 2_500_000)
    await connection.execute(ANCHOR, long, "milestone")
    payload = json.loads((await connection.fetch(LEAVES))[0]["payload_text"])
    assert payload["content_sha256"] == hashlib.sha256(("é" * 2_500_000).encode()).hexdigest()


@pytest.mark.parametrize("how", ["erase", "forget", "forget when expired", "delete", "own hours"])
async def test_what_a_user_deletes_is_gone_from_its_anchors(connection: asyncpg.Connection, how: str) -> None:
    others = await remember(connection, "stays", user_id=BOB)
    memory = await remember(connection, "the secret launch", user_id=ANN)
    for one in (others, memory):
        await connection.execute(ANCHOR, one, "milestone")
    before = [leaf["leaf"] for leaf in await connection.fetch(LEAVES)]
    if how == "erase":
        await connection.execute("select erase_user_memory($1)", ANN)
    elif how.startswith("forget"):
        if how == "forget when expired":
            await connection.execute(
                "update agent_memory set expires_at = now() - interval '1 s' where id = $1", memory
            )
        async with acting_as(connection, ANN):
            await connection.execute("select forget(array[$1::uuid])", memory)
    elif how == "own hours":
        await connection.execute(
            "insert into memory_settings (user_id, memory_ttl_hours) values ($1, 5)", ANN
        )
        await connection.execute(
            "update agent_memory set expires_at = now() - interval '1 s' where id = $1", memory
        )
        await connection.execute("select cleanup_expired_memory()")
    else:
        await connection.execute("delete from agent_memory where id = $1", memory)
    kept, sealed = await connection.fetch(LEAVES)
    assert [kept["leaf"], sealed["leaf"]] == before
    assert kept["leaf"] == leaf_of(kept["said"], kept["salt"])
    assert json.loads(sealed["payload_text"]) == {"erased": True}
    assert (sealed["salt"], sealed["user_id"], sealed["memory_id"], sealed["anchored"]) == (None,) * 4


async def test_what_only_expires_stays_anchored(connection: asyncpg.Connection) -> None:
    mine, agents = await remember(connection, "a", user_id=ANN), await remember(connection, "b")
    for memory in (mine, agents):
        await connection.execute(ANCHOR, memory, "incident")
    await connection.execute(
        "update agent_memory set expires_at = now() - interval '1 s' where id = $1", mine
    )
    await connection.execute("select cleanup_expired_memory()")
    await connection.execute("delete from agent_memory")
    for leaf in await connection.fetch(LEAVES):
        assert leaf["anchored"] is None
        assert leaf["leaf"] == leaf_of(leaf["said"], leaf["salt"])
    # The user's data still, so it is exported and erased.
    exported = json.loads(await connection.fetchval("select export_user_memory($1)", ANN))
    assert [UUID(row["id"]) for row in exported["tables"]["memory_anchors"]] == [
        (await connection.fetch(LEAVES))[0]["anchor_id"]
    ]
    assert json.loads(await connection.fetchval("select erase_user_memory($1)", ANN))["memory_anchors"] == 1
    assert [leaf["salt"] is None for leaf in await connection.fetch(LEAVES)] == [True, False]


async def test_what_support_reads_of_an_anchor_is_on_record_when_its_memory_has_expired(
    connection: asyncpg.Connection,
) -> None:
    memory = await remember(connection, "said in confidence", user_id=ANN)
    await connection.execute(ANCHOR, memory, "incident")
    await connection.execute("update agent_memory set expires_at = now() - interval '1 s'")
    await connection.execute("select cleanup_expired_memory()")
    async with acting_as(connection, None, role="memoryd_admin"):
        assert len(await connection.fetch("select payload from memory_anchors")) == 1
    assert (
        await connection.fetchval("select user_id from agent_execution_logs where action_type = 'admin_read'")
        == ANN
    )


async def test_the_hash_of_an_erased_payload_cannot_be_guessed(connection: asyncpg.Connection) -> None:
    memory = await remember(connection, "m", user_id=ANN)
    await connection.execute(
        "insert into memory_anchors (memory_id, category, agent_id, payload) values ($1, 'decision', 'alice', $2)",
        memory,
        '{"pin": "4711"}',
    )
    await connection.execute("select erase_user_memory($1)", ANN)
    [leaf] = await connection.fetch(LEAVES)
    assert json.loads(leaf["payload_text"]) == {"erased": True}
    assert leaf["content_hash"] != hashlib.sha256(b'{"pin": "4711"}').digest()
