"""The page of contexts: what an agent would be given, line by line, and that to look writes nothing but that."""

from __future__ import annotations

import html
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import asyncpg
import pytest

from tests.support.content.chat_groups import join
from tests.support.content.index import index_rows
from tests.support.content.knowledge import know
from tests.support.rows import ask, column, insert, remember, say
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()
STATE = """
select (select count(*) from memory_queries), (select count(*) from memoryd.memory_uses),
       (select count(*) from agent_commands), (select count(*) from memoryd.jobs),
       (select sum(accessed_count) from shared_knowledge), (select count(*) from agent_memory)
"""


async def remembered(db: asyncpg.Connection, text: str, **columns: object) -> uuid.UUID:
    """A memory that contexts show."""
    row = await remember(db, text, **columns)
    await index_rows(db, "memory", [row])
    return row


def block_of(page: str) -> list[str]:
    """The lines of the block, with what stands beside each."""
    block = page.partition('<ol class="block">')[2].partition("</ol>")[0]
    return [text_of(line) for line in block.split("<li")[1:]]


async def reads(db: asyncpg.Connection, user: uuid.UUID) -> Sequence[object]:
    """What support has read of a user, as the audit trail has it."""
    return await column(
        db,
        "select input_data::jsonb ->> 'table' from agent_execution_logs where user_id = $1 and action_type = 'admin_read'",
        user,
    )


async def test_each_line_says_where_it_came_from(pages: Reader, db: asyncpg.Connection) -> None:
    await ask(db, "hello", agent_id="deployer")
    row = await remembered(
        db, "the staging deploy needs the blue token <img src=x onerror=alert(1)>", agent_id="deployer"
    )
    await remembered(
        db, "the staging deploy needs the blue token <img src=x onerror=alert(1)>!", agent_id="deployer"
    )
    page = await pages.get("/context?agent=deployer&message=deploy+staging+with+the+blue+token")
    assert "<img" not in page
    lines = block_of(page)
    assert "CONTEXT" in lines[0]
    [shown] = [line for line in lines if "blue token" in line]
    assert "memory" in shown
    assert "own" in shown
    assert f'href="/memories/{row}"' in page
    said = text_of(page)
    assert "said above" in said.partition("Left out, and why")[2]
    assert "What the message shows task" in said
    assert "of the agent and of all agents" in said


async def test_each_line_says_why_it_has_its_score(pages: Reader, db: asyncpg.Connection) -> None:
    await ask(db, "hello", agent_id="joiner")
    for text in (
        "the oak worktop of Bergen is oiled",
        "oil the oak twice",
        "the oak worktop was sawn on Monday",
    ):
        await remembered(db, text, agent_id="joiner", kind="outcome" if "sawn" in text else "fact")
    await remembered(db, "the oak worktop of Bergen is oiled!", agent_id="joiner", kind="fact")
    old = datetime(2025, 1, 1, tzinfo=UTC)
    await know(db, "Torfinn", "The ferry takes none.", category="client", created_at=old)
    await know(db, "Worktops", "Prepare the oak worktop for Bergen with wax.", created_at=old)
    await index_rows(db, "knowledge")
    message = "prepare the oak worktop for Bergen with Torfinn"
    page = await pages.get(f"/context?{urlencode({'agent': 'joiner', 'message': message})}")
    rows = await db.fetch("select * from explain_context('joiner', $1) where step = 'found'", message)
    assert {row["shown"] for row in rows} == {True, False}
    said = text_of(page)
    for row in rows:
        text = row["detail"].rpartition("] ")[2]
        reason = said.partition(text)[2][:400]
        assert f"{row['score']:.2f}" in reason
        assert f"Why {row['score']:.2f}" in reason
    assert "so it counts 0.50" in said.partition("ferry takes none")[2].partition("- [")[0]
    assert "of torfinn" in said.partition("What was searched")[2].partition("Left out")[0]
    best = max((row for row in rows if row["shown"]), key=lambda row: row["score"])["detail"]
    [marked] = [line for line in block_of(page) if "fits best" in line]
    assert best in marked
    assert any(line.endswith("What the team knows: the best first") for line in block_of(page))
    assert 'href="/recall?' not in page.partition("<main")[2], "its numbers are of another measure"


async def test_a_line_that_stands_first_says_why_where_another_fits_better(
    pages: Reader, db: asyncpg.Connection
) -> None:
    await ask(db, "hello", agent_id="stargazer")
    for n, text in enumerate(
        ("the dome is cleaned in May", "the comet of the dome is green", "the comet is green in the dome")
    ):
        row = await remembered(db, text, agent_id="stargazer", kind="fact")
        await db.execute(
            "update agent_memory set created_at = now() - make_interval(days => $2) where id = $1", row, 9 - n
        )
    page = await pages.get("/context?agent=stargazer&message=photograph+the+green+comet+of+the+dome")
    lines = block_of(page)
    [first] = [line for line in lines if "cleaned in May" in line]
    [best] = [line for line in lines if "fits best" in line]
    assert first != best
    assert "It stands first by its kind and age, not by its score: of the memories it is the oldest" in first
    assert sum("It stands first" in line for line in lines) == 1
    assert any(
        "Memories, oldest first" in line and "so that what came later is read last" in line for line in lines
    )
    for line in lines:
        assert line.startswith("> ★") == ("★ 0.50 or more" in line), line
    # Of one line alone nothing is to be said, and of equals the first fits best.
    await ask(db, "hello", agent_id="lone")
    for n in range(2):
        await know(db, f"Quokka {n}", f"Lives on island number {n}.", category="client")
    await index_rows(db, "knowledge")
    lines = block_of(await pages.get("/context?agent=lone&message=what+do+you+know+about+Quokka"))
    assert "It stands first" not in " ".join(lines)
    rows = [line for line in lines if line.startswith("> -") and "Quokka" in line]
    assert len(rows) == 2
    assert ["fits best" in line for line in rows] == [True, False]


async def test_to_look_writes_only_that_support_has_looked(pages: Reader, db: asyncpg.Connection) -> None:
    row = await remembered(db, "ann prefers the night train", user_id=ANN)
    session = uuid.uuid4()
    turn = await say(db, session, "I took the night train to Ghent", user_id=ANN)
    await index_rows(db, "conversation", [turn])
    before = await db.fetchrow(STATE)
    page = await pages.get(f"/context?agent=alice&message=book+the+night+train&user={ANN}")
    assert f'href="/memories/{row}"' in page
    assert f'href="/conversations/{session}#m-{turn}"' in page
    assert any("(from a person)" in line and "person" in line for line in block_of(page))
    assert await db.fetchrow(STATE) == before
    assert await reads(db, ANN) == ["context"]
    nobody = uuid.uuid4()
    said = await pages.read(f"/context?agent=alice&message=book+the+night+train&user={nobody}")
    assert "There is no such user" in said
    assert "CONTEXT" not in said, "what an agent would be given of nobody looks like an answer"
    assert await reads(db, nobody) == []


async def test_whose_rows_a_context_shows_is_on_record(pages: Reader, db: asyncpg.Connection) -> None:
    gus, hal, ida = (uuid.uuid4() for _ in range(3))
    chat = await insert(db, "chat_groups", {"platform": "slack"})
    await join(db, chat, gus, hal)
    talk = await insert(db, "conversation_sessions", {"chat_id": chat, "agent_id": "alice"})
    said = await say(db, talk, "the zither stands in my cellar", user_id=gus, chat_id=chat)
    await index_rows(db, "conversation", [said])
    await remembered(db, "the zither of ida is sold", user_id=ida)
    for user, shown in ((hal, {gus, hal}), (ida, {ida}), (None, {ida})):
        await db.execute("delete from agent_execution_logs where action_type = 'admin_read'")
        page = await pages.get(
            f"/context?agent=alice&message=what+do+you+remember+about+the+zither&user={user or ''}"
        )
        on_record = {each for each in (gus, hal, ida) if await reads(db, each)}
        assert ("in my cellar" in page, "ida is sold" in page) == (gus in on_record, ida in on_record)
        assert on_record <= shown
        assert user is None or on_record == shown


async def test_small_talk_a_user_without_memory_and_an_unknown_agent_are_told(
    pages: Reader, db: asyncpg.Connection
) -> None:
    await ask(db, "hello", agent_id="talker")
    assert "small talk" in await pages.read("/context?agent=talker&message=Thanks!")
    assert "may read fits" in await pages.read("/context?agent=talker&message=deploy+the+zeppelin")
    assert "No agent of this name" in await pages.read("/context?agent=nobody&message=deploy+the+zeppelin")
    assert "give its name, too" in await pages.read("/context?message=deploy")
    off = uuid.uuid4()
    await db.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", off)
    assert "is switched off for" in await pages.read(f"/context?agent=talker&message=deploy+it&user={off}")


async def test_a_user_gets_what_that_user_may_read(url: str, db: asyncpg.Connection, tmp_path: Path) -> None:
    await remembered(db, "bob rows a red boat", agent_id="helper", user_id=BOB)
    await remembered(db, "ann rows a blue boat", agent_id="helper", user_id=ANN)
    await remembered(db, "the agents row a grey boat", agent_id="helper")
    async with served(url, tmp_path, "--as-user", str(BOB)) as bob:
        asked = "/context?agent=helper&message=paint+the+boat+that+rows"
        page = await bob.read(asked)
        assert "red boat" in page
        assert "blue boat" not in page
        assert "grey boat" not in page
        missing = await bob.read(f"{asked}&user={uuid.uuid4()}", status=404)
        assert await bob.read(f"{asked}&user={ANN}", status=404) == missing
    assert await column(db, "select id from memory_queries where user_id = $1", BOB) == []


async def test_what_was_there_for_a_message_is_without_what_came_later(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user = uuid.uuid4()
    session = await insert(db, "conversation_sessions", {"user_id": user, "agent_id": "lookout"})
    rows = [
        await say(
            db, session, text, user_id=user, role=role, created_at=datetime(2026, 3, day, 10, tzinfo=UTC)
        )
        for day, role, text in (
            (1, "assistant", "The lighthouse keeper has the brass key."),
            (2, "user", "Who has the brass key of the lighthouse?"),
            (3, "assistant", "The brass key of the lighthouse is lost."),
        )
    ]
    await index_rows(db, "conversation", rows)
    page = await pages.get(f"/conversations/{session}")
    [link] = re.findall(r'href="(/context[^"]+)">what the agent could', page)
    said = await pages.read(html.unescape(link))
    block = said.partition("What was searched")[0]
    assert "As it stood at 2026-03-02 10:00 : without what was written later" in said
    assert "keeper has the brass key" in block
    assert "is lost" not in said
    assert "is lost" in await pages.read(html.unescape(link).partition("&as_of")[0])
    await pages.get("/context?agent=lookout&message=x&as_of=soon", status=400)
