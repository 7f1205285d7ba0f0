"""The page of a user: what there is, whether memory is on, who looked; and to whom it is shown."""

from __future__ import annotations

import html
import re
import uuid
from pathlib import Path

import asyncpg
import pytest

from plugins.web.pages import users
from tests.support.rows import ask, insert, remember, say
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAYLOAD = '"><img src=x onerror=alert(1)>'


async def test_a_user_is_told_with_all_that_there_is_and_who_looked(
    pages: Reader, db: asyncpg.Connection
) -> None:
    ann, other = uuid.uuid4(), uuid.uuid4()
    session = await insert(
        db, "conversation_sessions", {"user_id": ann, "agent_id": "clerk", "title": "Hello"}
    )
    asked = await say(db, session, "Where is my parcel?", user_id=ann, speaker=PAYLOAD)
    memory = await remember(db, "expects a parcel", agent_id="clerk", user_id=ann, session_id=session)
    await remember(db, "of another", agent_id="clerk", user_id=other)
    await ask(db, "find the parcel", user_id=ann)
    await db.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ann)
    page = await pages.get(f"/users/{ann}")
    assert "<img" not in page
    said = text_of(page)
    for part in (
        f"User {PAYLOAD} memory is off",
        "Memories 1",
        "Conversations 1",
        "Tasks 1",
        "Documents 0",
        "written agent memory",
    ):
        assert part in said, part
    await pages.get(f"/memories/{memory}")
    said = await pages.read(f"/users/{ann}")
    assert "read by support agent memory" in said
    assert "read by support agent execution logs" in said, "the page before is on the trail, too"
    assert f'href="/users/{ann}"' in await pages.get(f"/memories?user={ann}")
    # Who looked on a day, however much was looked at since.
    for _ in range(60):
        await db.execute("select memoryd.log_admin_read('documents', $1)", ann)
    assert "written agent memory" not in await pages.read(f"/users/{ann}")
    older = re.search(r'rel="next" href="([^"]+)"', await pages.get(f"/users/{ann}"))
    assert older is not None
    assert "written agent memory" in await pages.read(html.unescape(older[1]))
    assert "Nobody yet" in await pages.read(f"/users/{ann}?until=2020-01-01")
    assert "since is no time" in await pages.read(f"/users/{ann}?since=x", status=400)
    # Where a memory came from, and what was given for a question.
    assert f'href="/conversations/{session}"' in await pages.get(f"/memories/{memory}")
    page = await pages.get(f"/conversations/{session}")
    assert f"/context?agent=clerk&amp;message=Where+is+my+parcel%3F&amp;user={ann}" in page
    assert f"m-{asked}" in page


async def test_what_is_much_is_counted_to_an_end(pages: Reader, db: asyncpg.Connection) -> None:
    ann = uuid.uuid4()
    await db.execute(
        "insert into documents (title, user_id, status) select 'd ' || n, $1, 'active' from generate_series(1, $2::integer) n",
        ann,
        users.COUNTED + 1,
    )
    assert "Documents ≥ 1 000" in await pages.read(f"/users/{ann}")


async def test_an_end_user_sees_their_own_page_alone(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    ann, bob = uuid.uuid4(), uuid.uuid4()
    for user in (ann, bob):
        await remember(db, "likes tea", user_id=user)
    async with served(url, tmp_path, "--as-user", str(ann)) as reader:
        said = await reader.read(f"/users/{ann}")
        assert "Memories 1" in said
        assert "memoryd erase" not in said
        await reader.get(f"/users/{bob}", status=404)
