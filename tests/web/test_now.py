"""The page Now: daemons, queue, dead letters, the doctor, the last day."""

from __future__ import annotations

import re
import time
import uuid
from pathlib import Path

import asyncpg
import pytest

from plugins.web.pages.now import COUNTED, PAUSE_SECONDS
from plugins.web.render import number
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEAD = """
insert into memoryd.dead_letters (id, topic, attempts, error, created_at)
select -n, $1, 10, 'ValueError: <img src=x onerror=alert(1)> ' || n, now() from generate_series($2::integer, $3::integer) n
"""


async def test_an_empty_database_says_that_no_daemon_runs(pages: Reader) -> None:
    said = await pages.read("/")
    assert "none runs" in said
    assert "0 wait: 0 tasks , 0 jobs" in said
    assert "There was no dream yet" in said
    assert "jobs done: 0 at most 0" in said


async def test_daemons_are_told_with_what_fails(pages: Reader, db: asyncpg.Connection) -> None:
    await db.execute(
        "insert into memoryd.daemons (id, host, pid, version, wake_up, failing, seen_at) values "
        "(gen_random_uuid(), 'upstairs', 11, '9.9.9', 'poll', '{\"replica\": \"the <b>folder</b> is gone\"}', now()), "
        "(gen_random_uuid(), 'cellar', 12, '9.9.8', 'poll', '{}', now() - interval '1 hour')"
    )
    page = await pages.get("/now/live")
    said = text_of(page)
    assert "alive upstairs 11, 9.9.9" in said
    assert "failing replica: the <b>folder</b> is gone" in said
    assert "silent cellar" in said
    assert "<b>" not in page


async def test_tasks_that_wait_are_counted_with_the_jobs(pages: Reader, db: asyncpg.Connection) -> None:
    for status, began in (("ready", None), ("ready", None), ("running", 9), ("running", 1), ("failed", 30)):
        await db.execute(
            "insert into agent_commands (agent_id, message, status, started_at, created_at) "
            "values ('miner', 'dig', $1, now() - make_interval(hours => $2), now() - interval '3 hours')",
            status,
            began,
        )
    await db.execute("delete from memoryd.jobs")
    said = await pages.read("/now/live")
    assert (
        "2 wait: 2 tasks for a program that does them, the oldest since 3 hours late , 0 jobs 2 tasks run , the longest since 9"
        in said
    )
    assert "3 hours , for a program that does it" in await pages.read("/tasks?status=ready")
    said = await pages.read("/tasks?status=running")
    assert re.search(r"running since 60 min .* running since 9 hours", said)
    await db.execute("delete from agent_commands")


async def test_the_queue_is_told_by_topic(pages: Reader, db: asyncpg.Connection) -> None:
    await db.execute("delete from memoryd.jobs")
    await db.execute(
        "insert into memoryd.jobs (topic, visible_at, created_at, lane) values "
        "('index', now(), now() - interval '3 hours', null), ('index', now() + interval '1 hour', now(), null), "
        "('associate', now(), now() - interval '90 seconds', '1'), ('zebra', now() + interval '1 hour', now(), null)"
    )
    said = await pages.read("/now/live")
    assert "4 wait: 0 tasks , 4 jobs, the oldest for 90" in said
    rows = said.partition("What waits, by topic")[2]
    assert "index 1 0 1" in rows
    assert "linking associate 1 0 0" in rows
    assert "zebra 0" in rows
    assert "zebra 0 0 1" in rows
    await db.execute("delete from memoryd.jobs")


async def test_what_came_in_the_last_day_is_told_a_line_each(pages: Reader, db: asyncpg.Connection) -> None:
    await db.execute("delete from agent_execution_logs")
    await db.execute(
        "insert into agent_memory (agent_id, user_id, content, kind, created_at) "
        "select 'logger', $1, 'secret ' || n, case when n < 3 then 'goal' else 'fact' end, "
        "now() - make_interval(hours => 10 * n) "
        "from generate_series(0, 5) n",
        uuid.uuid4(),
    )
    await db.execute(
        "insert into agent_commands (agent_id, message, status) select 'logger', 'secret', 'failed' "
        "from generate_series(1, $1::integer)",
        COUNTED + 1,
    )
    said = (await pages.read("/")).partition("What is remembered")[2]
    assert "3 goal" in said.partition("Messages")[0]
    assert "fact" not in said.partition("Messages")[0]
    assert f"≥ {text_of(number(COUNTED))} failed" in said.partition("Tasks")[2]
    assert "secret" not in said
    assert (
        await db.fetchval("select count(*) from agent_execution_logs where action_type = 'admin_read'") == 0
    )


async def test_the_last_day_is_drawn(pages: Reader, db: asyncpg.Connection) -> None:
    await db.execute(
        "insert into memoryd.activity (writer, number, began_at, topic, done, failed, waiting) "
        "select gen_random_uuid(), n, date_trunc('minute', now()) - make_interval(mins => n), t, 50, 1, n "
        "from generate_series(1, 100) n, unnest(array['capture', 'index']) t"
    )
    await db.execute(
        "insert into memory_queries (useful, reason) "
        "select j, r from (values (true, null), (true, null), (true, null), (false, null), (null, null), (null, 'small_talk')) "
        "as q(j, r)"
    )
    page = await pages.get("/now/live")
    said = text_of(page)
    assert "jobs done: 10 000 at most 1 500" in said
    assert "attempts failed: 200 at most 30" in said
    assert "at most 200" in said.partition("jobs waiting")[2]
    assert "Of the newest 5 retrievals, 4 were judged (mark_useful), 75 percent of them useful" in said
    assert page.count("<svg") == 3
    assert 3 * 7 <= page.count("<rect") <= 3 * 8
    assert "style=" not in page


async def test_dead_letters_are_requeued(pages: Reader, db: asyncpg.Connection) -> None:
    await db.execute("delete from memoryd.jobs")
    await db.execute(DEAD, "index", 1, 3)
    await db.execute(DEAD, "associate", 4, 5)
    page = await pages.get("/")
    assert "5 dead letters" in text_of(page)
    assert "<img" not in page

    async def left() -> list[int]:
        return [-row["id"] for row in await db.fetch("select id from memoryd.dead_letters order by id desc")]

    assert (await pages.send("/now/dead", {"topic": "associate"}, on="/")).status_code == 303
    assert await left() == [1, 2, 3]
    letter = await db.fetchval("update memoryd.dead_letters set id = 77 where id = -2 returning id")
    assert (await pages.send("/now/dead", {"id": str(letter)}, on="/")).status_code == 303
    assert sorted(await left()) == [1, 3]
    for wrong in ({}, {"id": "x"}, {"id": "9" * 30}, {"id": "-1"}, {"topic": "a\0"}):
        assert (await pages.send("/now/dead", wrong, on="/")).status_code == 400
    assert sorted(await left()) == [1, 3]
    assert await db.fetchval("select count(*) from memoryd.jobs") == 3
    await db.execute("delete from memoryd.dead_letters")


async def test_the_doctor_looks_once_for_all_readers(pages: Reader) -> None:
    began = time.monotonic()
    for _ in range(3):
        await pages.read("/")
        assert (await pages.send("/now/doctor", {}, on="/")).status_code == 303
    said = await pages.read_done("/now/live", "doctor", lacks="It is looking …")
    assert "Postgres 1" in said.partition("What the doctor says")[2]
    assert "It has looked at" in said
    seen = said.partition("It has looked at")[2]
    assert (await pages.send("/now/doctor", {}, on="/")).status_code == 303
    again = (await pages.read("/now/live")).partition("It has looked at")[2]
    assert again == seen or time.monotonic() - began > PAUSE_SECONDS, "on a slow machine it may look again"


async def test_an_end_user_begins_with_their_memories(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    await db.execute(DEAD, "index", 50, 50)
    async with served(url, tmp_path, "--edit", "--as-user", str(uuid.uuid4())) as ann:
        assert (await ann.http.get("/")).headers["location"] == "/memories"
        await ann.read("/now/live", status=400)
        for path in ("/now/dead", "/now/doctor"):
            assert (await ann.send(path, {"all": "yes"}, on="/memories")).status_code == 400
    assert await db.fetchval("select count(*) from memoryd.dead_letters where id = -50") == 1
