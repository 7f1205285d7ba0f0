"""The graph: which links a picture and its list have, for whom, and where they are cut."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.rows import associate, remember
from tests.support.services.browser import Browser
from tests.support.services.web_pages import Reader, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()
CHAIN = """
with made as (
    insert into agent_memory (agent_id, content) select $1, 'link ' || n from generate_series(1, $2::integer) n returning id
), numbered as (select id, row_number() over (order by id) as nth from made)
insert into memory_associations (memory_id, related_memory_id, association_type, strength)
select a.id, b.id, 'similar', 0.5 from numbered a join numbered b on b.nth = a.nth + 1
"""


async def picture(reader: Reader, query: str) -> dict[str, Any]:
    """What /graph/data answers."""
    found: dict[str, Any] = json.loads(await reader.get(f"/graph/data?{query}"))
    return found


def texts(found: dict[str, Any]) -> set[str]:
    return {memory["text"] for memory in found["memories"]}


async def test_a_memory_is_shown_with_two_steps_of_links(pages: Reader, db: asyncpg.Connection) -> None:
    a, b, c, d = [await remember(db, text) for text in ("anchor", "bollard", "capstan", "dinghy")]
    await associate(db, b, a, 0.9)
    await associate(db, c, b, 0.4)
    await associate(db, d, c, 0.8)
    await db.execute(
        "update memory_associations set association_type = 'causal' where memory_id = $1 and related_memory_id = $2",
        b,
        a,
    )
    found = await picture(pages, f"memory={a}")
    assert texts(found) == {"anchor", "bollard", "capstan"}
    assert [(link["kind"], link["strength"]) for link in found["links"]] == [
        ("causal", 0.9),
        ("related", 0.4),
    ]
    assert found["cut"] is False
    said = await pages.read(f"/graph?memory={a}")
    assert "0.90 causal bollard with anchor" in said
    assert "dinghy" not in said
    assert texts(await picture(pages, f"memory={a}&least=0.5")) == {"anchor", "bollard"}
    assert texts(await picture(pages, f"memory={b}&kind=related")) == {"bollard", "capstan", "dinghy"}


async def test_a_picture_is_cut_where_it_would_be_slow_and_says_so(
    pages: Reader, db: asyncpg.Connection
) -> None:
    await db.execute(CHAIN, "chain", 2050)
    found = await picture(pages, "agent=chain")
    assert len(found["memories"]) <= 2000
    assert found["cut"] is True
    ends = {link[end] for link in found["links"] for end in ("from", "to")}
    assert ends == set(range(len(found["memories"])))
    first = await pages.read("/graph?agent=chain")
    assert first.count("similar link") == 100
    assert "there are more" in first


async def test_an_end_user_sees_links_between_their_own_memories_alone(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    own = [await remember(db, text, user_id=ANN) for text in ("ann's boat", "ann's oar")]
    other, agents = await remember(db, "bob's canoe", user_id=BOB), await remember(db, "the agents' raft")
    await associate(db, own[1], own[0], 0.5)
    await associate(db, own[1], other, 0.9)
    await associate(db, own[1], agents, 0.9)
    async with served(url, tmp_path, "--as-user", str(ANN)) as ann:
        for query in ("", f"user={ANN}", f"memory={own[1]}"):
            assert texts(await picture(ann, query)) == {"ann's boat", "ann's oar"}, query
        assert "canoe" not in await ann.read("/graph")
        for query in (f"user={BOB}", "agent=alice&user=" + str(BOB)):
            assert texts(await picture(ann, query)) == set(), query
        for row in (other, agents, uuid.uuid4()):
            await ann.get(f"/graph?memory={row}", status=404)
            await ann.get(f"/graph/data?memory={row}", status=404)


async def test_whose_links_support_has_seen_is_on_record(pages: Reader, db: asyncpg.Connection) -> None:
    seen, unseen = uuid.uuid4(), uuid.uuid4()
    for user in (seen, unseen):
        rows = [await remember(db, text, user_id=user) for text in ("one", "two")]
        await associate(db, rows[1], rows[0], 0.6)
    assert len((await picture(pages, f"user={seen}"))["links"]) == 1
    on_record = await db.fetch(
        "select user_id, input_data ->> 'table' as name from agent_execution_logs "
        "where action_type = 'admin_read' and user_id = any($1)",
        [seen, unseen],
    )
    assert {tuple(row) for row in on_record} == {(seen, "agent_memory"), (seen, "memory_associations")}


async def test_the_most_linked_memories_are_labelled(
    pages: Reader, db: asyncpg.Connection, browser: Browser
) -> None:
    hub = await remember(db, "the harbour", agent_id="painter")
    for n in range(4):
        await associate(db, await remember(db, f"quay {n}", agent_id="painter"), hub, 0.5)
    browser.sign_in(pages)
    browser.open("/graph?agent=painter")
    browser.until("return document.querySelector('#picture').dataset.settled")
    assert int(browser.run("return document.querySelector('#picture').dataset.labels")) >= 1
