"""The page Audit: findings by rule, repairs, and what came from one thing, forgotten as a whole."""

from __future__ import annotations

import asyncio
import re
import uuid
from pathlib import Path

import asyncpg
import httpx2
import pytest

from tests.support.rows import remember
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()
HOSTILE = "the spare key is <img src=x onerror=alert(1)> under the third stone"


async def twice(
    db: asyncpg.Connection, text: str, agent: str, user: uuid.UUID | None = None
) -> list[uuid.UUID]:
    """The same text, remembered two times."""
    return [
        await remember(db, each, agent_id=agent, kind="note", user_id=user) for each in (text, text.upper())
    ]


async def audited(pages: Reader, **form: str) -> str:
    """The overview, when the audit has ended."""
    assert (await pages.send("/audit", form)).status_code == 303
    return await pages.read_done("/audit", "audit", lacks="It is looking:")


def chosen(page: str) -> dict[str, str]:
    """The form of a rule's findings, with all of them chosen."""
    began = page.partition('name="began" value="')[2].partition('"')[0]
    return {"began": began} | dict.fromkeys(re.findall(r'name="(finding_\w+)"', page), "yes")


async def left(db: asyncpg.Connection, ids: list[uuid.UUID]) -> int:
    return int(await db.fetchval("select count(*) from agent_memory where id = any($1)", ids))


async def test_a_repair_is_said_then_done(pages: Reader, db: asyncpg.Connection) -> None:
    rows = await twice(db, HOSTILE, "tidy", ANN)
    said = await audited(pages, agent="tidy")
    assert "looked at 2 memories" in said
    assert "duplicates 1 1" in said
    page = await pages.get("/audit/rules/duplicates")
    assert "<img" not in page
    assert HOSTILE in text_of(page) or HOSTILE.upper() in text_of(page)
    form = chosen(page)
    assert "forget it; " in text_of(page), "what the repair does is said before"
    done = await pages.send("/audit/rules/duplicates", form)
    assert done.status_code == 303
    assert await left(db, rows) == 1
    assert "1 row was repaired" in await pages.read("/audit/rules/duplicates")
    on_record = await db.fetchval(
        "select count(*) from agent_execution_logs where user_id = $1 and action_type = 'memory_write' "
        "and input_data::jsonb ->> 'operation' = 'delete' and input_data::jsonb ->> 'caller' = 'admin'",
        ANN,
    )
    assert on_record == 1


async def test_no_more_than_two_audits_run_at_once(pages: Reader, db: asyncpg.Connection) -> None:
    row = await remember(db, "the ferry waits for the bus", agent_id="queue")
    others = [httpx2.AsyncClient(base_url=pages.address, timeout=60) for _ in range(2)]
    sessions = [
        pages,
        *(Reader(pages.address, pages.sign_in, http, asyncio.StreamReader()) for http in others),
    ]
    for http in others:
        await http.get(pages.sign_in)
    async with db.transaction():
        await db.execute("lock table agent_memory in access exclusive mode")
        answers = [await each.send("/audit", {}) for each in (*sessions, *sessions)]
        assert [answer.status_code for answer in answers] == [303, 303, 429, 303, 303, 429]
        assert "2 audits run already" in text_of(answers[2].text)
        assert "audits run" in await pages.read(f"/audit/derived?kind=memory&id={row}", status=429)
    for each in (pages, sessions[1]):
        while "It is looking:" in await each.read("/audit"):
            await asyncio.sleep(0.02)
    assert (await sessions[2].send("/audit", {"agent": "queue"})).status_code == 303
    for http in others:
        await http.aclose()


async def test_what_does_not_stand_any_more_is_not_repaired(pages: Reader, db: asyncpg.Connection) -> None:
    rows = await twice(db, "the bus leaves at nine from the old market", "late")
    await audited(pages, agent="late")
    form = chosen(await pages.get("/audit/rules/duplicates"))
    await db.execute("update agent_memory set content = 'the bus was cancelled' where id = $1", rows[1])
    await pages.send("/audit/rules/duplicates", form)
    assert await left(db, rows) == 2
    assert "1 finding did not stand any more" in await pages.read("/audit/rules/duplicates")


async def test_a_form_of_an_earlier_audit_repairs_nothing(pages: Reader, db: asyncpg.Connection) -> None:
    rows = await twice(db, "the window on the left does not close", "early")
    await audited(pages, agent="early")
    form = chosen(await pages.get("/audit/rules/duplicates"))
    await audited(pages, agent="early")
    refused = await pages.send("/audit/rules/duplicates", form)
    assert refused.status_code == 400
    assert "has run again" in text_of(refused.text)
    nothing = {"began": chosen(await pages.get("/audit/rules/duplicates"))["began"]}
    assert (await pages.send("/audit/rules/duplicates", nothing)).status_code == 400
    assert await left(db, rows) == 2


async def test_another_tab_repairs_what_it_shows_or_nothing(pages: Reader, db: asyncpg.Connection) -> None:
    rows = [
        await twice(db, f"the {tree} in the yard is a hundred years old", "tabs")
        for tree in ("oak", "elm", "ash")
    ]
    await audited(pages, agent="tabs")
    form = chosen(await pages.get("/audit/rules/duplicates"))
    one, other, third = [name for name in form if name.startswith("finding")]
    begun = {"began": form["began"]}
    # Two at once, of which neither brings back what the other has done; then a tab that shows what it showed before.
    await asyncio.gather(
        *(pages.send("/audit/rules/duplicates", begun | {name: "yes"}) for name in (one, other))
    )
    assert sum([await left(db, pair) for pair in rows]) == 4
    assert "duplicates 1 1" in await pages.read("/audit")
    late = await pages.send("/audit/rules/duplicates", begun | {one: "yes", third: "yes"})
    assert late.status_code == 400
    assert "are repaired already" in text_of(late.text)
    assert sum([await left(db, pair) for pair in rows]) == 4


async def test_secrets_are_looked_for_when_asked_and_never_shown(
    pages: Reader, db: asyncpg.Connection
) -> None:
    value = "ghp_" + "a1B2c3D4e5F6" * 3
    await remember(db, f"the token is {value}", agent_id="leaky")
    assert "secrets" not in (await audited(pages, agent="leaky")).partition("What it is")[2]
    assert "secrets 1 1" in await audited(pages, agent="leaky", secrets="yes")
    page = await pages.get("/audit/rules/secrets")
    assert "GitHub token" in text_of(page)
    assert value not in page


async def test_a_text_with_a_secret_is_not_shown_beside_another_finding(
    pages: Reader, db: asyncpg.Connection
) -> None:
    value = "ghp_" + "z9Y8x7W6v5U4" * 3
    for _ in range(2):
        await remember(db, f"log in with {value} at the gate", agent_id="copied", kind="note")
    assert "duplicates 1 1" in await audited(pages, agent="copied")
    assert value not in await pages.get("/audit/rules/duplicates")


async def derived_of(db: asyncpg.Connection, user: uuid.UUID) -> tuple[uuid.UUID, uuid.UUID]:
    """A memory, and an insight that was drawn from it."""
    memory = await remember(db, "she will move to Oslo", agent_id="helper", user_id=user)
    insight = await db.fetchval(
        "insert into dream_insights (user_id, insight, source_memories, category, confidence) "
        "values ($1, 'moves are planned', array[$2::uuid], 'pattern', 0.5) returning id",
        user,
        memory,
    )
    return memory, insight


async def test_a_thing_is_forgotten_with_what_came_from_it(pages: Reader, db: asyncpg.Connection) -> None:
    memory, insight = await derived_of(db, BOB)
    path = f"/audit/derived?kind=memory&id={memory}"
    page = await pages.get(path)
    assert f'href="/dreams/insights/{insight}"' in page
    assert "drawn from it" in text_of(page)
    assert "memory 1 insight 1" in text_of(page)
    form = {"kind": "memory", "id": str(memory)}
    old = form | {"version": page.partition('name="version" value="')[2].partition('"')[0]}
    await db.execute(
        "insert into dream_insights (user_id, insight, source_memories, category, confidence) "
        "values ($1, 'Oslo is north', array[$2::uuid], 'summary', 0.5)",
        BOB,
        memory,
    )
    refused = await pages.send("/audit/derived", old, on=path)
    assert refused.status_code == 409
    assert "memory 1 insight 2" in text_of(refused.text)
    assert await left(db, [memory]) == 1
    now = form | {"version": refused.text.partition('name="version" value="')[2].partition('"')[0]}
    gone = await pages.send("/audit/derived", now, on=path)
    assert (gone.status_code, gone.headers["location"]) == (303, "/audit")
    assert "forgotten memory 1, insight 2" in await pages.read("/audit")
    assert await left(db, [memory]) == 0
    assert await db.fetchval("select count(*) from dream_insights where user_id = $1", BOB) == 0
    assert await db.fetchval(
        "select count(*) from agent_execution_logs where user_id = $1 and input_data::jsonb ->> 'operation' = 'delete'", BOB
    )  # fmt: skip


async def test_an_end_user_audits_their_own_only(url: str, db: asyncpg.Connection, tmp_path: Path) -> None:
    cat, dog = uuid.uuid4(), uuid.uuid4()
    own = await twice(db, "the cat sleeps on the warm piano", "helper", cat)
    others = await twice(db, "the dog sleeps below the cold piano", "helper", dog)
    memory, _ = await derived_of(db, dog)
    async with served(url, tmp_path, "--edit", "--as-user", str(cat)) as reader:
        assert "duplicates 1 1" in await audited(reader)
        page = await reader.get("/audit/rules/duplicates")
        assert "dog" not in page.lower().partition("<main")[2]
        await reader.send("/audit/rules/duplicates", chosen(page))
        await reader.read(f"/audit/derived?kind=memory&id={memory}", status=404)
        form = {"kind": "memory", "id": str(memory), "version": "x"}
        assert (await reader.send("/audit/derived", form, on="/audit")).status_code == 404
    assert await left(db, own) == 1
    assert await left(db, [*others, memory]) == 3


async def test_pages_without_edit_only_show(url: str, db: asyncpg.Connection, tmp_path: Path) -> None:
    rows = await twice(db, "look at this row and leave it as it is", "shown")
    async with served(url, tmp_path) as reader:
        await audited(reader, agent="shown")
        page = await reader.get("/audit/rules/duplicates")
        began = page.partition('name="began" value="')[2].partition('"')[0]
        assert "Repair the chosen" not in page
        sent = [
            await reader.send("/audit/rules/duplicates", {"began": began, "finding_0": "yes"}),
            await reader.send("/audit/derived", {"kind": "memory", "id": str(rows[0])}, on="/audit"),
        ]
        for refused in sent:
            assert refused.status_code == 400
            assert "--edit" in text_of(refused.text)
    assert await left(db, rows) == 2
