"""The pages of dreams: what each one concluded, from what, and how it fared; asking for one, and forgetting."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import asyncpg
import pytest

from tests.support.rows import remember
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()
HOSTILE = "<img src=x onerror=alert(1)>"


async def dreamt(
    db: asyncpg.Connection, text: str, *, user: uuid.UUID | None = None
) -> tuple[uuid.UUID, uuid.UUID, uuid.UUID]:
    """A dream, its insight, and the memory that this was drawn from."""
    memory = await remember(db, f"source of {text}", agent_id="dreamer", kind="error", user_id=user)
    dream = await db.fetchval(
        "insert into dream_sessions (started_by, status, finished_at, memories_scanned, links_faded) "
        "values ('overdue', 'completed', now() + interval '1 second', 41, 17) returning id"
    )
    insight = await db.fetchval(
        "insert into dream_insights (agent_id, user_id, insight, source_memories, category, confidence, dream_id, resolved_at) "
        "values ('dreamer', $1, $2, array[$3, gen_random_uuid()], 'correction', 0.7, $4, now()) returning id",
        user,
        text,
        memory,
        dream,
    )
    return dream, insight, memory


def version_in(page: str) -> str:
    return page.partition('name="version" value="')[2].partition('"')[0]


async def test_a_dream_is_shown_with_its_insights_and_their_memories(
    pages: Reader, db: asyncpg.Connection
) -> None:
    dream, insight, memory = await dreamt(db, HOSTILE)
    listed = await pages.get("/dreams")
    assert f'href="/dreams/{dream}"' in listed
    assert "overdue" in listed
    one = await pages.get(f"/dreams/{dream}")
    assert "41 memories" in text_of(one)
    assert f'href="/dreams/insights/{insight}"' in one
    whole = await pages.get(f"/dreams/insights/{insight}")
    said = text_of(whole)
    assert HOSTILE in said
    assert "resolved" in said
    assert "has expired, or was deleted" in said
    assert f'href="/memories/{memory}"' in whole
    assert not any("<img" in page for page in (listed, one, whole))


async def test_insights_are_filtered_and_go_on(pages: Reader, db: asyncpg.Connection) -> None:
    await db.execute(
        "insert into dream_insights (agent_id, insight, source_memories, category, confidence, generated_at) "
        "select 'lister', 'insight number ' || to_char(n, 'FM000'), '{}', 'pattern', n / 100.0, "
        "now() + n / 2 * interval '1 ms' from generate_series(1, 80) n"
    )
    first = await pages.get("/dreams/insights?agent=lister")
    onwards = first.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    second = await pages.get(onwards)
    shown = [set(re.findall(r"insight number \d+", page)) for page in (first, second)]
    assert [len(each) for each in shown] == [50, 30]
    assert not shown[0] & shown[1]
    sure = await pages.read("/dreams/insights?agent=lister&confidence=0.79")
    assert sure.count("insight number") == 2
    assert "no insight that fits" in await pages.read("/dreams/insights?agent=lister&category=summary")


async def test_a_dream_is_asked_for(pages: Reader, db: asyncpg.Connection) -> None:
    sent = await pages.send("/dreams", {})
    assert sent.status_code == 303
    wanted = await db.fetchval("select id from memory_requests where kind = 'dream' and status = 'pending'")
    assert sent.headers["location"] == f"/dreams?request={wanted}"
    assert "A daemon begins it" in await pages.read(sent.headers["location"])
    await db.execute(
        "update memory_requests set status = 'failed', error = 'none today' where id = $1", wanted
    )
    assert "none today" in await pages.read(sent.headers["location"])


async def test_an_insight_is_forgotten_unless_it_was_drawn_again(
    pages: Reader, db: asyncpg.Connection
) -> None:
    dream, insight, _ = await dreamt(db, "what failed first", user=ANN)
    path = f"/dreams/insights/{insight}"
    old = {"version": version_in(await pages.get(path))}
    await db.execute("update dream_insights set insight = 'what failed since' where id = $1", insight)
    refused = await pages.send(path, old)
    assert refused.status_code == 409
    assert "what failed since" in text_of(refused.text)
    forgotten = await pages.send(path, {"version": version_in(await pages.get(path))})
    assert (forgotten.status_code, forgotten.headers["location"]) == (303, f"/dreams/{dream}")
    await pages.read(path, status=404)
    assert await db.fetchval(
        "select count(*) from agent_execution_logs where user_id = $1 and action_type = 'memory_write' "
        "and input_data::jsonb ->> 'table' = 'dream_insights' and input_data::jsonb ->> 'operation' = 'delete' "
        "and input_data::jsonb ->> 'caller' = 'admin'",
        ANN,
    )


async def test_an_end_user_sees_their_own_insights_only(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    hers, own, _ = await dreamt(db, "ann forgets her keys", user=ANN)
    his, others, _ = await dreamt(db, "bob forgets his hat", user=BOB)
    async with served(url, tmp_path, "--edit", "--as-user", str(ANN)) as ann:
        for path in ("/dreams", "/dreams/insights", f"/dreams/insights?user={BOB}", f"/dreams/{hers}"):
            assert "bob forgets" not in await ann.read(path)
        assert "ann forgets" in await ann.read("/dreams")
        assert "ann forgets" in await ann.read(f"/dreams/{hers}")
        for path in (f"/dreams/{his}", f"/dreams/insights/{others}"):
            assert await ann.read(path, status=404) == await ann.read(f"/dreams/{uuid.uuid4()}", status=404)
        for path, on in (("/dreams", "/dreams"), (f"/dreams/insights/{own}", f"/dreams/insights/{own}")):
            assert (await ann.send(path, {"version": "x"}, on=on)).status_code == 400
    assert await db.fetchval("select count(*) from dream_insights where id = any($1)", [own, others]) == 2
