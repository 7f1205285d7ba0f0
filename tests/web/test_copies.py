"""A copy of what is stored of a user, which support makes on their page."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from pathlib import Path

import asyncpg
import pytest

from tests.support.database.schemas import connected
from tests.support.rows import insert, somebody
from tests.support.services.web_pages import CSRF, Reader, served, text_of
from tests.support.waiting import BLOCKED, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAYLOAD = '"><img src=x onerror=alert(1)>'
MEMORIES = "select count(*) from agent_memory where user_id = $1"
DELETING = """
select count(*) = 0 from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and query ~ 'erase_user_memory' and state <> 'idle'
"""
FAILED = """
select exists (select from agent_execution_logs where input_data ->> 'table' = 'export_failed' and user_id = $1)
"""
CUT = """
select bool_and(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and application_name = 'memoryd web' and wait_event_type = 'Lock'
"""
FORMS = ({"do": "off"}, {"do": "on"}, {"do": "remember", "content": "x"})


async def test_support_gives_a_user_a_copy_that_an_import_takes(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user, other = await somebody(db), await somebody(db, "Other One")
    answer = await pages.send(f"/users/{user}/copy", {}, on=f"/users/{user}")
    assert answer.headers["content-disposition"] == f'attachment; filename="{user}.json"'
    copy = json.loads(answer.content)
    assert (copy["format"], copy["user_id"]) == ("memoryd-export", str(user))
    assert [row["content"] for row in copy["tables"]["agent_memory"]] == ["likes tea"]
    assert str(other) not in answer.text
    said = await pages.read(f"/users/{user}")
    assert "read by support a copy of everything" in said
    assert (await pages.send(f"/users/{uuid.uuid4()}/copy", {}, on=f"/users/{user}")).status_code == 404


async def test_the_pages_tell_when_a_copy_was_made_and_who_switched_memory(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user, other = await somebody(db), await somebody(db, "Other One")
    await insert(db, "conversation_sessions", {"user_id": user, "title": "Hello"})
    path = f"/users/{user}"
    said = await pages.read(path)
    assert "no agent is given any of it, also not what somebody relies on: 1 memory, 2 conversations" in said
    assert "The last was asked for here" not in said
    assert "download it first" in await pages.read(f"{path}/erasure")
    await pages.send(f"{path}/copy", {}, on=path)
    made = r"The last was asked for here at \d{4}-\d\d-\d\d \d\d:\d\d , by support"
    assert re.search(made, await pages.read(path))
    erasing = await pages.get(f"{path}/erasure")
    assert re.search(made.lower(), text_of(erasing))
    assert "The last was asked for here" not in await pages.read(f"/users/{other}")
    assert (await pages.send(path, {"do": "off"}, on=path)).status_code == 303
    page = await pages.get(path)
    assert re.search(r"Memory is off, last switched here at \d{4}-\S+ \S+ by support: nothing", text_of(page))
    assert "no agent is given it: 1 memory, 2 conversations" in text_of(page)
    assert 'name="content"' not in page, "what cannot be stored is not asked for"
    # What nobody put on record, as a program that switches it.
    await db.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", other)
    assert "Memory is off: nothing" in await pages.read(f"/users/{other}")


async def test_a_copy_of_many_rows_takes_little_memory(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    user = await somebody(db)
    await db.execute(
        "insert into agent_execution_logs (user_id, step_name, action_type, input_data) "
        "select $1, 'step', 'reasoning', jsonb_build_object('n', n, 'x', repeat('y', 10000)) from generate_series(1, 28000) n",
        user,
    )
    async with served(url, tmp_path, "--edit") as reader:
        token = CSRF.search(await reader.get(f"/users/{user}"))
        assert token is not None
        before, size = peak(reader.pid), 0
        async with reader.http.stream("POST", f"/users/{user}/copy", data={"csrf": token[1]}) as answer:
            assert answer.status_code == 200
            async for part in answer.aiter_bytes():
                size += len(part)
        assert size > 256 * 1024 * 1024
        assert size == int(answer.headers["content-length"])
        assert peak(reader.pid) - before < 40_000
        # Who goes away has no whole file, and the record says so.
        async with reader.http.stream("POST", f"/users/{user}/copy", data={"csrf": token[1]}) as answer:
            await anext(answer.aiter_bytes())
        await reader.wait_for("web_user_export_failed", user_id=str(user))
        await until(db, FAILED, user)
        assert "and failed: nobody has a whole file of it" in await reader.read(f"/users/{user}")
    await db.execute("delete from agent_execution_logs where user_id = $1", user)


def peak(pid: int) -> int:
    """The most memory that a process had, in kB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("ascii"))
    assert found is not None
    return int(found[1])


async def test_one_copy_is_made_at_a_time(url: str, pages: Reader, db: asyncpg.Connection) -> None:
    user = await somebody(db)
    token = CSRF.search(await pages.get(f"/users/{user}"))
    assert token is not None
    form = {"csrf": token[1]}
    async with connected(url) as writer:
        async with writer.transaction():
            await writer.execute("lock table memory_anchors")
            first = asyncio.create_task(pages.http.post(f"/users/{user}/copy", data=form))
            await until(db, BLOCKED)
            second = await pages.http.post(f"/users/{user}/copy", data=form, timeout=10)
            assert second.status_code == 429
            assert "A copy is being made already" in text_of(second.text)
        assert (await first).status_code == 200


async def test_a_copy_whose_connection_breaks_is_no_file_and_is_on_record_as_failed(
    url: str, pages: Reader, db: asyncpg.Connection
) -> None:
    user = await somebody(db)
    path = f"/users/{user}"
    token = CSRF.search(await pages.get(path))
    assert token is not None
    async with connected(url) as writer, writer.transaction():
        await writer.execute("lock table memory_anchors")
        copying = asyncio.create_task(pages.http.post(f"{path}/copy", data={"csrf": token[1]}))
        await until(db, BLOCKED)
        assert await db.fetchval(CUT)
        answer = await copying
    assert answer.status_code == 503
    assert "content-disposition" not in answer.headers
    assert "memoryd-export" not in answer.text
    for page in (path, f"{path}/erasure"):
        assert "and failed: nobody has a whole file of it" in await pages.read(page)
    assert (await pages.send(f"{path}/copy", {}, on=path)).status_code == 200
    for page in (path, f"{path}/erasure"):
        assert "and failed" not in await pages.read(page)
