"""The page of memories: filters, one memory whole, and the three ways to change it."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import asyncpg
import pytest

from tests.support.rows import column, remember
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()


async def test_the_list_is_filtered_and_goes_on(pages: Reader, db: asyncpg.Connection) -> None:
    for n in range(120):
        await remember(db, f"row number {n:03}", agent_id="lister")
    await remember(db, "an old goal", agent_id="lister", kind="goal", user_id=ANN)
    first = await pages.get("/memories?agent=lister")
    assert "an old goal" in first
    assert "row number 119" in first
    assert "row number 050" not in first
    assert text_of(first).count("row number") == 49
    onwards = first.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    second = text_of(await pages.get(onwards))
    assert second.count("row number") == 50
    assert "row number 070" in second
    assert "row number" not in await pages.read("/memories?agent=lister&kind=goal")
    assert "an old goal" in await pages.read(f"/memories?user={ANN}")
    assert "Nothing is remembered" in await pages.read("/memories?agent=nobody")
    assert "Nothing is remembered" in await pages.read("/memories?agent=lister&until=2020-01-01")


async def test_what_stood_earlier_is_seen_by_its_day(pages: Reader, db: asyncpg.Connection) -> None:
    row = await remember(db, "lives in Ghent", agent_id="dated")
    await db.execute(
        "update agent_memory set created_at = '2026-01-10', valid_from = '2026-01-10' where id = $1", row
    )
    new = await db.fetchval("select supersede_memory($1, 'lives in Riga')", row)
    await db.execute("update agent_memory set valid_to = '2026-03-01' where id = $1", row)
    await db.execute(
        "update agent_memory set created_at = '2026-03-01', valid_from = '2026-03-01' where id = $1", new
    )
    assert "Ghent" not in await pages.read("/memories?agent=dated")
    then = await pages.read("/memories?agent=dated&as_of=2026-02-01")
    assert "Ghent" in then
    assert "Riga" not in then
    both = await pages.read(f"/memories/{new}")
    assert "History" in both
    assert "lives in Ghent" in both


async def test_two_tabs_change_one_memory_and_the_second_is_told(
    pages: Reader, db: asyncpg.Connection
) -> None:
    row = await remember(db, "the meeting is on Monday", agent_id="tabs")
    path = f"/memories/{row}"
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    form = {"do": "correct", "kind": "fact", "version": version, "expires_at": ""}
    first = await pages.send(path, form | {"content": "the meeting is on Tuesday"})
    assert first.status_code == 303
    second = await pages.send(path, form | {"content": "the meeting is on Friday"})
    assert second.status_code == 409
    said = text_of(second.text)
    assert "the meeting is on Tuesday" in said
    assert "the meeting is on Friday" in said
    assert (
        await db.fetchval("select content from agent_memory where id = $1", row)
        == "the meeting is on Tuesday"
    )


async def test_a_memory_is_replaced_with_its_history_or_forgotten(
    pages: Reader, db: asyncpg.Connection
) -> None:
    row = await remember(db, "the code is 1", agent_id="mender", user_id=ANN)
    path = f"/memories/{row}"
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    answer = await pages.send(path, {"do": "replace", "version": version, "content": "the code is 2"})
    new = answer.headers["location"]
    assert "the code is 1" in await pages.read(new)
    assert "replaced" in await pages.read(path)
    version = (await pages.get(new)).partition('name="version" value="')[2].partition('"')[0]
    late = await pages.send(new, {"do": "forget", "version": "earlier"})
    assert (late.status_code, "it was not forgotten" in text_of(late.text)) == (409, True)
    gone = await pages.send(new, {"do": "forget", "version": version})
    assert gone.headers["location"] == f"/memories?user={ANN}"
    await pages.get(new, status=404)
    records = await db.fetch(
        "select input_data::jsonb ->> 'operation' as operation, input_data::jsonb ->> 'login' as login "
        "from agent_execution_logs where user_id = $1 and input_data::jsonb ->> 'caller' = 'admin' order by created_at",
        ANN,
    )
    assert [r["operation"] for r in records] == ["update", "delete"]
    assert all(r["login"] for r in records)


async def test_what_would_lose_a_memory_in_silence_is_refused(pages: Reader, db: asyncpg.Connection) -> None:
    user = uuid.uuid4()
    path = f"/memories/{await remember(db, 'likes tea', agent_id='helper', user_id=user)}"
    await db.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", user)
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    form = {"version": version, "content": "likes coffee", "kind": "fact"}
    for change, said in (
        ({"do": "replace"}, "memory is switched off for this user"),
        ({"do": "correct", "expires_at": "2020-01-01T00:00"}, "This time is past"),
    ):
        answer = await pages.send(path, form | change)
        assert (answer.status_code, said in text_of(answer.text)) == (400, True), answer.text
        assert "likes coffee" in answer.text
    assert await column(db, "select content from agent_memory where user_id = $1", user) == ["likes tea"]
    assert "in all of" not in await pages.read("/memories?user=%20%20")


async def test_what_was_forgotten_is_said_to_who_forgot_it(
    pages: Reader, db: asyncpg.Connection, url: str, tmp_path: Path
) -> None:
    path = f"/memories/{await remember(db, 'likes <img src=x> tea', user_id=ANN)}"
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    async with served(url, tmp_path, "--edit") as other:
        assert (await pages.send(path, {"do": "forget", "version": version})).status_code == 303
        assert "likes" not in await other.read("/words")
    page = await pages.get("/words")
    assert "forgotten the memory “likes <img src=x> tea”" in text_of(page)
    assert "<img" not in page
    assert "likes" not in await pages.read("/words")


async def test_the_choice_says_what_a_correction_does_to_earlier_days(
    pages: Reader, db: asyncpg.Connection
) -> None:
    path = f"/memories/{await remember(db, 'the pier is long', agent_id='helper')}"
    page = await pages.get(path)
    version = page.partition('name="version" value="')[2].partition('"')[0]
    assert page.index('value="replace"') < page.index('value="correct"')
    assert "rewrites also what was believed on earlier days" in text_of(page)
    day = f"{await db.fetchval('select now()'):%Y-%m-%dT%H:%M:%S.%f%z}".replace("+", "%2B")
    form = {"version": version, "content": "the pier is short"}
    assert (await pages.send(path, form | {"do": "correct", "kind": "fact"})).status_code == 303
    assert "the pier is short" in await pages.read(f"/memories?agent=helper&as_of={day}")
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    day = f"{await db.fetchval('select now()'):%Y-%m-%dT%H:%M:%S.%f%z}".replace("+", "%2B")
    form = {"version": version, "content": "the pier is gone"}
    assert (await pages.send(path, form | {"do": "replace"})).status_code == 303
    assert "the pier is short" in await pages.read(f"/memories?agent=helper&as_of={day}")


async def test_an_end_user_sees_and_changes_their_own_only(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    own = await remember(db, "ann likes tea", agent_id="helper", user_id=ANN)
    others = await remember(db, "bob likes rum", agent_id="helper", user_id=BOB)
    agents = await remember(db, "nobody's own secret", agent_id="helper")
    async with served(url, tmp_path, "--edit", "--as-user", str(ANN)) as ann:
        seen = await ann.read("/memories")
        assert "ann likes tea" in seen
        assert "bob likes rum" not in seen
        assert "secret" not in seen
        for row in (others, agents, uuid.uuid4()):
            missing = await ann.read(f"/memories/{row}", status=404)
            assert missing == await ann.read(f"/memories/{uuid.uuid4()}", status=404)
            sent = await ann.send(f"/memories/{row}", {"do": "forget", "version": "x"}, on=f"/memories/{own}")
            assert sent.status_code == 404
        version = (await ann.get(f"/memories/{own}")).partition('name="version" value="')[2].partition('"')[0]
        await ann.send(
            f"/memories/{own}", {"do": "replace", "version": version, "content": "ann likes coffee"}
        )
        assert "ann likes coffee" in await ann.read("/memories")
    assert await db.fetchval("select count(*) from agent_memory where id = any($1)", [others, agents]) == 2


async def test_reads_of_support_are_on_record_of_those_who_are_shown_alone(
    pages: Reader, db: asyncpg.Connection
) -> None:
    shown, not_shown = uuid.uuid4(), uuid.uuid4()
    await remember(db, "goal of one", agent_id="looked", kind="goal", user_id=shown)
    await remember(db, "fact of another", agent_id="looked", kind="fact", user_id=not_shown)
    await pages.read("/memories?agent=looked&kind=goal")
    on_record = await db.fetch(
        "select distinct user_id from agent_execution_logs where action_type = 'admin_read' and user_id = any($1)",
        [shown, not_shown],
    )
    assert [row["user_id"] for row in on_record] == [shown]


async def test_two_servers_of_one_user_change_one_memory_once_each_time(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    user = uuid.uuid4()
    row = await remember(db, "the pump is off", user_id=user)
    async with (
        served(url, tmp_path, "--edit", "--as-user", str(user)) as one,
        served(url, tmp_path, "--edit", "--as-user", str(user)) as other,
    ):
        for n in range(5):
            pages = [await reader.get(f"/memories/{row}") for reader in (one, other)]
            version = pages[0].partition('name="version" value="')[2].partition('"')[0]
            forms = [
                {"do": "correct", "kind": "fact", "version": version, "content": f"the pump is on {n} {by}"}
                for by in "ab"
            ]
            sent = [
                reader.send(f"/memories/{row}", form)
                for reader, form in zip((one, other), forms, strict=True)
            ]
            answers = await asyncio.gather(*sent)
            assert sorted(answer.status_code for answer in answers) == [303, 409]
            stored = await db.fetchval("select content from agent_memory where id = $1", row)
            assert stored == forms[answers[0].status_code == 409]["content"]
