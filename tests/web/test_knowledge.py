"""The page of knowledge: the list, decisions that need a look, one entry with its history, and how it is changed."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import asyncpg
import pytest

from tests.support.rows import insert
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def know(db: asyncpg.Connection, title: str, category: str, tier: str, **columns: object) -> uuid.UUID:
    """An entry that sage wrote, whose text is its title unless told otherwise."""
    values = {"title": title, "category": category, "tier": tier, "content": title, "created_by": "sage"}
    return await insert(db, "shared_knowledge", values | columns)


def version_of(page: str) -> str:
    return page.partition('name="version" value="')[2].partition('"')[0]


async def test_the_list_is_filtered_and_shows_what_became_of_entries(
    pages: Reader, db: asyncpg.Connection
) -> None:
    org = uuid.uuid4()
    wrong = await know(
        db, "Masts are steel", "insight", "learning", confidence="low", tags=["masts"], said_again=3
    )
    await know(db, "Masts are spruce", "correction", "learning", related_ids=[wrong])
    await know(db, "Ask before you sail", "principle", "core", org_id=org, created_by="ines")
    await know(db, "An old habit", "insight", "learning", status="archived")
    said = await pages.read("/knowledge")
    assert "Masts are steel corrected learning insight low 3 sage" in said
    assert "An old habit" not in said
    assert "An old habit archived" in await pages.read("/knowledge?status=archived")
    for query in ("tier=core", "category=principle", "by=ines", f"org={org}"):
        assert "Masts" not in await pages.read(f"/knowledge?{query}"), query
    assert "Ask before" not in await pages.read("/knowledge?tag=masts")


async def test_decisions_that_need_a_look_come_with_the_reason(pages: Reader, db: asyncpg.Connection) -> None:
    late = {"review_by": "2020-01-01"}
    await know(db, "Paint in May", "decision", "learning", decision_context=json.dumps(late))
    wrong = await know(db, "Moor at the north pier", "decision", "learning")
    await know(db, "The north pier is closed", "correction", "learning", related_ids=[wrong])
    other = {"org_id": uuid.uuid4(), "decision_context": json.dumps(late)}
    await know(db, "Paint of another team", "decision", "learning", **other)
    said = await pages.read("/knowledge/decisions")
    assert "contradicted Moor at the north pier sage because of The north pier is closed" in said
    assert "overdue Paint in May" in said
    assert "another team" not in said
    theirs = await pages.read(f"/knowledge/decisions?org={other['org_id']}")
    assert "overdue Paint of another team" in theirs
    assert "Paint in May" not in theirs


async def test_an_entry_shows_its_reasons_its_history_and_hostile_texts_as_texts(
    pages: Reader, db: asyncpg.Connection
) -> None:
    reasons = {"reasoning": "<b>wind</b>", "kill_criteria": ["no wind", "ice"]}
    made = await know(
        db, "<img src=x onerror=alert(1)>", "decision", "learning", decision_context=json.dumps(reasons)
    )
    outcome = {"success": False, "result": "we drifted"}
    await know(
        db,
        "We drifted",
        "outcome",
        "learning",
        related_ids=[made],
        outcome=json.dumps(outcome),
        created_by="ines",
    )
    page = await pages.get(f"/knowledge/{made}")
    assert "<img" not in page
    assert "<b>" not in page
    said = text_of(page)
    assert "reasoning <b>wind</b> kill criteria no wind ice" in said
    assert "did not come out well we drifted" in said
    history = said.partition(" History ")[2]
    assert history.index("noted") < history.index("outcome did not come out well We drifted ines")
    await pages.get(f"/knowledge/{uuid.uuid4()}", status=404)


async def test_an_entry_is_changed_unless_somebody_else_has(pages: Reader, db: asyncpg.Connection) -> None:
    org = uuid.uuid4()
    made = await know(db, "Reef at six knots", "decision", "learning", org_id=org)
    path = f"/knowledge/{made}"
    stale = version_of(await pages.get(path))
    # A use is no change: agents use an entry while its form is open.
    await db.execute("select touch_knowledge($1)", made)
    words = {"title": "Reef at five knots", "content": "Always.", "confidence": "medium"}
    assert (await pages.send(path, words | {"do": "reword", "version": stale})).status_code == 303
    told = await pages.send(path, {"do": "correct", "content": "Reef at four knots.", "version": stale})
    assert told.status_code == 409
    assert "Reef at four knots." in text_of(told.text)
    assert "Reef at five knots" in text_of(told.text)

    async def send(**form: str) -> str:
        answer = await pages.send(path, form | {"version": version_of(await pages.get(path))})
        assert answer.status_code == 303, text_of(answer.text)
        return answer.headers["location"]

    await send(do="score", success="no", result="the sail tore")
    assert "did not come out well the sail tore" in await pages.read(path)
    correction = await send(do="correct", title="Reef early", content="Reef as soon as you think of it.")
    assert "What it corrects decision Reef at five knots" in await pages.read(correction)
    assert (
        await db.fetchval("select org_id from shared_knowledge where id = $1", uuid.UUID(correction[11:]))
        == org
    )
    assert "Corrected: Reef early" in await pages.read(path)
    await send(do="archive")
    assert await db.fetchval("select status from shared_knowledge where id = $1", made) == "archived"
    await send(do="activate")
    assert await db.fetchval("select status from shared_knowledge where id = $1", made) == "active"


async def test_a_project_is_resolved_with_what_belongs_to_it(pages: Reader, db: asyncpg.Connection) -> None:
    project = await know(db, "Refit", "project", "working")
    thread = await know(db, "Refit: the keel", "thread", "working", related_ids=[project])
    path = f"/knowledge/{project}"
    await pages.send(path, {"do": "resolve", "version": version_of(await pages.get(path))})
    assert "resolved" in await pages.read(path)
    assert await db.fetchval("select status from shared_knowledge where id = $1", thread) == "resolved"


async def test_end_users_see_none_and_are_told_so(url: str, db: asyncpg.Connection, tmp_path: Path) -> None:
    made = await know(db, "The team's own", "principle", "core")
    async with served(url, tmp_path, "--edit", "--as-user", str(uuid.uuid4())) as user:
        for path in ("/knowledge", "/knowledge/decisions"):
            said = await user.read(path)
            assert "End users do not see it" in said
            assert "The team's own" not in said
        await user.get(f"/knowledge/{made}", status=404)
        sent = await user.send(f"/knowledge/{made}", {"do": "archive", "version": "x"}, on="/knowledge")
        assert sent.status_code == 404
    assert await db.fetchval("select status from shared_knowledge where id = $1", made) == "active"
