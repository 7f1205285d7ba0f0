"""What the daemon has indexed: compared with what is new, kept apart by organisation, and ranked below its corrections."""

from __future__ import annotations

import json
from uuid import uuid4

import asyncpg

from tests.integration.knowledge.test_surprise import note, row
from tests.support.content.index import INDEXED
from tests.support.rows import column, insert
from tests.support.waiting import until


async def test_what_is_indexed_is_compared_too(served: asyncpg.Connection) -> None:
    which = await insert(
        served, "shared_knowledge", row("Upgrades", "Postgres upgrades happen on Sundays at noon.")
    )
    await until(served, INDEXED, which)
    told = await note(served, "Upgrades of Postgres happen at noon on Sundays.")
    assert (told["what"], told["id"]) == ("strengthened", which)
    assert (await note(served, "Upgrades of Postgres never happen on Sundays."))["what"] == "stored"


async def test_indexed_knowledge_of_another_organisation_is_not_found(served: asyncpg.Connection) -> None:
    made = {}
    for org in (uuid4(), uuid4(), None):
        made[org] = await insert(
            served, "shared_knowledge", row("Puffins", f"Puffins nest on the roof of {org}", org_id=org)
        )
        await until(served, INDEXED, made[org])
    for org, which in made.items():
        async with served.transaction():
            await served.execute("select set_config('memoryd.org_id', $1, true)", str(org or ""))
            for agent in ("null", "'sybil'"):
                sql = f"select id from recall('puffins on the roof', {agent}, sources => '{{knowledge}}')"
                assert await column(served, sql) == [which]
    # It moves with its organisation.
    [first, second, _] = made
    await served.execute("update shared_knowledge set org_id = $2 where id = $1", made[first], second)
    async with served.transaction():
        await served.execute("select set_config('memoryd.org_id', $1, true)", str(second))
        found = await column(served, "select id from recall('puffins on the roof', sources => '{knowledge}')")
    assert set(found) == {made[first], made[second]}


async def test_a_correction_outranks_what_it_corrects_and_says_so(served: asyncpg.Connection) -> None:
    wrong = (await note(served, "The gecko feed arrives on Tuesday. The gecko feed is in the gecko house."))[
        "id"
    ]
    right = (
        await note(served, "Gecko feed comes by truck, any day but one.", "correction", related_ids=[wrong])
    )["id"]
    for which in (wrong, right):
        await until(served, INDEXED, which)
    question = "when does the gecko feed arrive in the gecko house"
    sql = "select id, metadata from recall($1, sources => '{knowledge}')"
    found = await served.fetch(sql, question)
    found = [r for r in found if r["id"] in {right, wrong}]
    assert [r["id"] for r in found] == [right, wrong]
    assert json.loads(found[0]["metadata"])["corrects"] == [str(wrong)]
    assert json.loads(found[1]["metadata"])["corrected_by"] == str(right)
    # Without the correction it counts as before.
    await served.execute("update shared_knowledge set status = 'archived' where id = $1", right)
    assert await served.fetchval("select weight from memoryd.entries where id = $1", wrong) == 1
    await served.execute("update shared_knowledge set status = 'active' where id = $1", right)
    assert await served.fetchval("select weight < 0.5 from memoryd.entries where id = $1", wrong)
    await served.execute("delete from shared_knowledge where id = $1", right)
    assert await served.fetchval("select weight from memoryd.entries where id = $1", wrong) == 1
