"""The page of a user: what there is, whether memory is on, who looked; and to whom it is shown."""

from __future__ import annotations

import html
import re
import shlex
import uuid
from pathlib import Path

import asyncpg
import pytest

from daemon.ids import id_of
from plugins.web.pages import users
from tests.support.processes.commands import Commands
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
        "written memories",
    ):
        assert part in said, part
    await pages.get(f"/memories/{memory}")
    said = await pages.read(f"/users/{ann}")
    assert "read by support memories" in said
    assert "read by support rows of the audit trail" in said, "the page before is on the trail, too"
    # What one person looked at in one sitting is one line.
    assert re.search(r"read by support memories [^r]* support", said)
    await pages.get(f"/memories/{memory}")
    assert "2 times" in (await pages.read(f"/users/{ann}")).partition("read by support memories")[2][:50]
    page = await pages.get(f"/memories?user={ann}")
    assert f'href="/users/{ann}"' in page
    assert f'href="/users/{ann}#looked"' in page, "from each page of theirs to who looked"
    # Who looked on a day, however much was looked at since.
    for _ in range(60):
        await db.execute("select memoryd.log_admin_read('documents', $1)", ann)
    assert "written memories" not in await pages.read(f"/users/{ann}")
    older = re.search(r'rel="next" href="([^"]+)"', await pages.get(f"/users/{ann}"))
    assert older is not None
    assert "written memories" in await pages.read(html.unescape(older[1]))
    assert "Nobody yet" in await pages.read(f"/users/{ann}?until=2020-01-01")
    assert "since is no time" in await pages.read(f"/users/{ann}?since=x", status=400)
    # Where a memory came from, and what was given for a question.
    assert f'href="/conversations/{session}"' in await pages.get(f"/memories/{memory}")
    page = await pages.get(f"/conversations/{session}")
    assert re.search(rf"/context\?agent=clerk&amp;message=~\w{{16}}&amp;user={ann}", page.replace("%7E", "~"))
    assert f"m-{asked}" in page


async def test_what_is_much_is_counted_to_an_end(pages: Reader, db: asyncpg.Connection) -> None:
    ann = uuid.uuid4()
    await db.execute(
        "insert into documents (title, user_id, status) select 'd ' || n, $1, 'active' from generate_series(1, $2::integer) n",
        ann,
        users.COUNTED + 1,
    )
    assert "Documents ≥ 1 000" in await pages.read(f"/users/{ann}")


async def test_of_nobody_there_is_no_page(pages: Reader, db: asyncpg.Connection) -> None:
    nobody, off = uuid.uuid4(), uuid.uuid4()
    assert "There is no such user" in await pages.read(f"/users/{nobody}", status=404)
    await db.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", off)
    assert "memory is off" in await pages.read(f"/users/{off}")
    for asked, status in ((f"id={nobody}", 404), ("id=Nobody+at+all", 400)):
        assert "no such user" in await pages.read(f"/audit/derived?kind=user&{asked}", status=status)
    await pages.get("/audit/derived?kind=user&id=%00", status=400)


async def test_what_came_from_a_user_is_asked_for_by_name(pages: Reader, db: asyncpg.Connection) -> None:
    named, other = id_of("zelda"), uuid.uuid4()
    memory = await remember(db, "likes tea", user_id=named)
    page = await pages.get("/audit/derived?kind=user&id=zelda")
    assert f'<a href="/memories/{memory}">likes tea</a>' in page, "its text, not its id"
    session = await insert(db, "conversation_sessions", {"user_id": other, "agent_id": "clerk"})
    await say(db, session, "Hello", user_id=other, speaker="Yusuf")
    assert f"user {other}" in await pages.read("/audit/derived?kind=user&id=Yusuf")


async def test_the_list_has_all_users_the_last_seen_first(pages: Reader, db: asyncpg.Connection) -> None:
    await db.execute("delete from conversation_sessions")
    await db.execute("delete from agent_memory")
    await db.execute("delete from documents")
    await db.execute("delete from agent_commands")
    # Of each user an old row and a newer one; many of one moment.
    await db.execute(
        "insert into agent_memory (agent_id, user_id, content, created_at) "
        "select 'clerk', md5('u' || n)::uuid, 'x', '2026-01-01Z'::timestamptz + make_interval(days => t * (n / 40)) "
        "from generate_series(1, 120) n, generate_series(0, 1) t"
    )
    await db.execute(
        "insert into agent_memory (agent_id, content) select 'clerk', 'of nobody' from generate_series(1, 30)"
    )
    last = await db.fetchval("select md5('u7')::uuid")
    session = await insert(db, "conversation_sessions", {"user_id": last, "agent_id": "clerk"})
    await say(db, session, "Hello", user_id=last, speaker=PAYLOAD)
    wanted = [str(last)] + [
        str(row["user_id"])
        for row in await db.fetch(
            "select user_id from agent_memory where user_id <> $1 group by 1 order by max(created_at) desc, user_id desc",
            last,
        )
    ]
    link = re.compile(r'href="/users/([0-9a-f-]{36})"')
    found: list[str] = []
    path: str | None = "/users"
    while path is not None:
        page = await pages.get(path)
        assert "<img" not in page
        found += link.findall(page)
        further = re.search(r'rel="next" href="([^"]+)"', page)
        path = html.unescape(further[1]) if further else None
    assert found == wanted
    for words in ("onerror", str(last)[:13], f"onerror {last}"[:16]):
        assert link.findall(await pages.get(f"/users?q={words}")) == [str(last)]
    for words in ("onerror+else", str(last)[:4]):
        assert "Nobody of this name" in await pages.read(f"/users?q={words}")
    for wrong in ("q=%00", "before=x", "before=2026-01-01,x"):
        await pages.get(f"/users?{wrong}", status=400)


async def test_the_list_of_users_is_one_look_at_names(pages: Reader, db: asyncpg.Connection) -> None:
    for name in ("Ole", "Ole"):
        user = uuid.uuid4()
        session = await insert(db, "conversation_sessions", {"user_id": user, "agent_id": "clerk"})
        await say(db, session, "Hello", user_id=user, speaker=name)
    silent = uuid.uuid4()
    await remember(db, "Likes herons", user_id=silent)
    # Of the second nobody knows a name, and that there is such a user is looked at, too.
    for words in ("ole", str(silent)[:8]):
        await db.execute("delete from agent_execution_logs")
        await pages.get(f"/users?q={words}")
        looks = await db.fetch(
            "select user_id, input_data ->> 'table' as of from agent_execution_logs where action_type = 'admin_read'"
        )
        assert [tuple(row) for row in looks] == [(None, "names")]


async def test_a_user_can_be_exported_and_erased_by_what_the_page_says(
    db: asyncpg.Connection, url: str, tmp_path: Path
) -> None:
    user = uuid.uuid4()
    await remember(db, "likes tea", user_id=user)
    async with served(url, tmp_path) as reader:
        page = await reader.get(f"/users/{user}")
    commands = [shlex.split(said) for said in re.findall(r'<pre class="command">([^<]+)</pre>', page)]
    for name, *words in commands:
        assert name == "memoryd"
        assert (await Commands(url, tmp_path)(*words)).code == 0, words
    assert "likes tea" in (tmp_path / f"{user}.json").read_text("utf-8")
    assert await db.fetchval("select count(*) from agent_memory where user_id = $1", user) == 0


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
        listed = await reader.http.get("/users")
        assert (listed.status_code, listed.headers["location"]) == (303, f"/users/{ann}")
        assert 'href="/users"' not in await reader.get("/memories")
