"""The page of recall: what is found and why, two settings side by side, and judgements."""

from __future__ import annotations

import asyncio
import html
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import asyncpg
import pytest

from daemon.web.found import PARENTS
from tests.support.content.index import index_rows
from tests.support.content.knowledge import know
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import embedded_by
from tests.support.rows import column, conclude, insert, remember, say
from tests.support.services.openai_server import Fault, OpenAIServer
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()
HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


async def remembered(db: asyncpg.Connection, text: str, **columns: object) -> uuid.UUID:
    """A memory that recall finds."""
    row = await remember(db, text, **columns)
    await index_rows(db, "memory", [row])
    return row


def hidden(page: str) -> dict[str, str]:
    """What the hidden fields of a page send."""
    return {name: html.unescape(value) for name, value in HIDDEN.findall(page)}


def found_on(page: str) -> list[list[str]]:
    """The texts of the results in each column of a page, in order."""
    columns = page.partition("What the parts mean")[2].split("<section")[1:]
    return [[text_of(said) for said in re.findall(r'class="said">(.*?)</p>', part)] for part in columns]


async def queries(db: asyncpg.Connection) -> Sequence[object]:
    """The ids of all retrievals that are logged."""
    return await column(db, "select id from memory_queries order by query_time")


async def test_an_empty_memory_answers_that_nothing_is_remembered(pages: Reader) -> None:
    assert "Ask something" in await pages.read("/recall")
    assert "Nothing is remembered about this." in await pages.read("/recall?q=anything&agent=nobody")


async def test_each_result_has_its_parts_and_the_way_to_its_page(
    pages: Reader, db: asyncpg.Connection
) -> None:
    rows = await one_of_each(db, "the heron nests by the pond <img src=x onerror=alert(1)>")
    dream = await insert(db, "dream_sessions", {"status": "completed", "started_by": "manual"})
    rows["insight"] = await conclude(db, "herons nest early in the year", 0.9, dream_id=dream)
    for source in rows:
        await index_rows(db, source)
    page = await pages.get("/recall?q=where+does+the+heron+nest&count=20")
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    session = await db.fetchval(
        "select session_id from conversation_messages where id = $1", rows["conversation"]
    )
    document = await db.fetchval("select document_id from memory_chunks where id = $1", rows["document"])
    for link in (
        f"/memories/{rows['memory']}",
        f"/conversations/{session}#m-{rows['conversation']}",
        f"/documents/{document}",
        f"/knowledge/{rows['knowledge']}",
        f"/dreams/{dream}",
    ):
        assert f'href="{link}"' in page
    [explained] = await db.fetch(
        "select * from explain_recall('where does the heron nest', match_count => 20) where id = $1",
        rows["memory"],
    )
    said = text_of(page.partition(f"/memories/{rows['memory']}")[2].partition("</li>")[0])
    for part in ("lexical", "relevance", "weight"):
        assert f"{part} {explained[part]:.2f}" in said
    only = await pages.get("/recall?q=heron&source=knowledge&source=insight")
    assert f"/knowledge/{rows['knowledge']}" in only
    assert f"/memories/{rows['memory']}" not in only


async def test_two_settings_are_compared_row_by_row(pages: Reader, db: asyncpg.Connection) -> None:
    for day, text in enumerate(
        ("rowing on the lake", "rowing on the lake and the canal", "a lake in winter"), 1
    ):
        row = await remembered(db, text, agent_id="rower")
        await db.execute(
            "update agent_memory set created_at = make_timestamptz(2026, 3, $2, 12, 0, 0, 'utc') where id = $1",
            row,
            day,
        )
    asked = "/recall?q=rowing+on+the+lake&agent=rower"
    [alone] = found_on(await pages.get(asked))
    assert len(alone) == 3
    page = await pages.get(f"{asked}&compare=yes&other_since=2026-03-02")
    first, second = found_on(page)
    assert first == alone
    assert second == [text for text in alone if text != "rowing on the lake"]
    said = text_of(page)
    behind = len(alone) - 1 - alone.index("rowing on the lake")
    assert behind, "one of the others moves"
    assert said.count("only here") == 1
    assert said.count("1 lower") == said.count("1 higher") == behind
    assert said.count("same place") == 2 * (2 - behind)


async def test_what_does_not_belong_is_left_out_with_the_reason(
    pages: Reader, db: asyncpg.Connection
) -> None:
    await remembered(db, "the spare key of the shed is under the stone", agent_id="keeper")
    for colour in ("green", "white", "black", "brown"):
        await remembered(db, f"somebody has painted a shed {colour}", agent_id="keeper")
    question = "spare key stone under shed bucket ladder"
    asked = f"/recall?{urlencode({'q': question, 'agent': 'keeper'})}"
    out = await column(
        db,
        "select content from explain_recall($1, agent_id => 'keeper') where left_out is not null",
        question,
    )
    assert out, "this question has a row that does not belong to it"
    page = await pages.get(f"{asked}&relevant_only=yes")
    shown, _, left_out = page.partition('<details class="out">')
    for text in out:
        assert str(text) not in shown
        assert str(text) in left_out
    assert "Would be left out" in await pages.read(asked)
    both = await pages.read(f"{asked}&compare=yes&other_relevant_only=yes")
    assert "left out there" in both


async def test_to_look_stores_nothing_and_a_judgement_is_stored_once(
    pages: Reader, db: asyncpg.Connection
) -> None:
    row = await remembered(db, "the unicycle of ann is red", agent_id="helper", user_id=ANN)
    before = await queries(db)
    path = f"/recall?q=unicycle&user={ANN}"
    first, second = await pages.get(path), await pages.get(path)
    assert await queries(db) == before

    form = hidden(first) | {"do": "useful"}
    both = await asyncio.gather(*(pages.http.post("/recall", data=form) for _ in range(2)))
    assert sorted(answer.status_code for answer in both) == [303, 409], "who presses twice judges once"
    assert {answer.headers.get("location") for answer in both} == {path, None}
    [made] = [each for each in await queries(db) if each not in before]
    logged = await db.fetchrow("select * from memory_queries where id = $1", made)
    assert logged is not None
    assert (logged["user_id"], logged["retrieved_memory_ids"], logged["useful"]) == (ANN, [row], True)

    stale = await pages.http.post("/recall", data=hidden(second) | {"do": "useless"})
    assert stale.status_code == 409
    assert "nothing was stored" in text_of(stale.text)
    assert "Judged useful." in text_of(stale.text)
    again = await pages.http.post("/recall", data=hidden(stale.text) | {"do": "useless"})
    assert again.status_code == 303
    assert await queries(db) == [*before, made]
    assert await db.fetchval("select useful from memory_queries where id = $1", made) is False
    await db.execute("delete from memory_queries where id = $1", made)
    gone = await pages.http.post("/recall", data=hidden(await pages.get(path)) | {"do": "useful"})
    assert gone.status_code == 409
    assert "These were useful" in text_of(gone.text), "it can be judged anew"
    on_record = await column(
        db,
        "select input_data::jsonb ->> 'operation' from agent_execution_logs where user_id = $1 "
        "and input_data::jsonb ->> 'table' = 'memory_queries' order by created_at",
        ANN,
    )
    assert on_record == ["insert", "update"]


async def test_what_is_found_otherwise_since_is_not_judged(pages: Reader, db: asyncpg.Connection) -> None:
    await remembered(db, "the kiln fires at noon", agent_id="potter")
    page = await pages.get("/recall?q=kiln&agent=potter")
    await remembered(db, "the kiln is broken", agent_id="potter")
    before = await queries(db)
    late = await pages.http.post("/recall", data=hidden(page) | {"do": "useful"})
    assert late.status_code == 409
    assert "the kiln is broken" in late.text
    assert await queries(db) == before


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"asked": ""}, "nothing to judge"),
        ({"asked": "q=x"}, "an agent or a user"),
        ({"asked": "q=x&agent=a", "side": "other_"}, "nothing to judge"),
        ({"asked": "q=x&agent=a", "do": "drop"}, "nothing to judge"),
        ({"asked": "q=%00&agent=a"}, "NUL"),
        ({"asked": "q=x&agent=a&count=1e9"}, "count is from 1"),
    ],
)
async def test_a_form_that_was_not_on_the_page_stores_nothing(
    pages: Reader, db: asyncpg.Connection, form: dict[str, str], says: str
) -> None:
    before = await queries(db)
    answer = await pages.send("/recall", {"do": "useful", "seen": "x"} | form, on="/recall?q=x&agent=a")
    assert answer.status_code == 400
    assert says in text_of(answer.text)
    assert await queries(db) == before


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("user=ann", "user is no id"),
        ("user=00000000", "user is no id"),
        ("count=0", "count is from 1"),
        ("count=2.5", "whole number"),
        ("count=nan", "count is from 1"),
        ("min_score=2", "min_score is from 0"),
        ("around=11", "around is from 0"),
        ("since=soon", "since is no time"),
        ("source=secrets", "unknown source secrets"),
        ("source=%00", "0x00"),
        ("role=root", "unknown role root"),
        ("compare=yes&other_until=never", "other_until is no time"),
        ("agent=a%00b", "NUL"),
        ("q=" + "x" * 8001, "8001 characters"),
    ],
)
async def test_what_cannot_be_asked_is_refused(pages: Reader, query: str, says: str) -> None:
    path = f"/recall?{query}" if query.startswith("q=") else f"/recall?q=x&{query}"
    assert says in await pages.read(path, status=400)


async def test_an_end_user_finds_and_judges_their_own_only(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    own = await remembered(db, "the boat of bob is red", agent_id="helper", user_id=BOB)
    await remembered(db, "the boat of ann is blue", agent_id="helper", user_id=ANN)
    await remembered(db, "the boat of the agents is grey", agent_id="helper")
    async with served(url, tmp_path, "--edit", "--as-user", str(BOB)) as bob:
        page = await bob.get("/recall?q=boat")
        assert found_on(page) == [["the boat of bob is red"]]
        assert found_on(await bob.get("/recall?q=boat&agent=helper")) == [["the boat of bob is red"]]
        missing = await bob.read(f"/recall?q=boat&user={uuid.uuid4()}", status=404)
        assert await bob.read(f"/recall?q=boat&user={ANN}", status=404) == missing
        form = hidden(page) | {"do": "useful"}
        others = await bob.http.post("/recall", data=form | {"asked": f"q=boat&user={ANN}"})
        assert others.status_code == 404
        assert (await bob.http.post("/recall", data=form)).status_code == 303
        assert "Judged useful." in await bob.read("/recall?q=boat")
    logged = await db.fetch(
        "select retrieved_memory_ids from memory_queries where user_id = $1 and useful", BOB
    )
    assert [row["retrieved_memory_ids"] for row in logged] == [[own]]


async def test_support_is_on_record_for_those_who_are_shown_alone(
    pages: Reader, db: asyncpg.Connection
) -> None:
    shown, not_shown = uuid.uuid4(), uuid.uuid4()
    for user, hour in ((shown, "six"), (not_shown, "seven")):
        await remembered(db, f"the ferry leaves at {hour}", user_id=user)
        message = await say(db, uuid.uuid4(), f"my ferry leaves at {hour}", user_id=user)
        await index_rows(db, "conversation", [message])
    [found] = found_on(await pages.get(f"/recall?q=ferry&user={shown}"))
    assert sorted(found) == ["my ferry leaves at six", "the ferry leaves at six"]
    on_record = await column(
        db,
        "select distinct user_id from agent_execution_logs where action_type = 'admin_read' and user_id = any($1)",
        [shown, not_shown],
    )
    assert on_record == [shown]


@pytest.mark.parametrize("role", ["memoryd_admin", "memoryd_user", "memoryd_service"])
async def test_pages_of_results_are_found_by_their_ids_alone(db: asyncpg.Connection, role: str) -> None:
    async with db.transaction():
        await db.execute("set local enable_seqscan = off")
        await db.execute(f"set local role {role}")
        ids = [[uuid.uuid4()] for _ in range(3)]
        plan = "\n".join(row[0] for row in await db.fetch(f"explain {PARENTS}", *ids))
    assert "Seq Scan" not in plan


async def test_a_remote_embedder_is_asked_and_without_it_words_are_enough(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    await remembered(db, "the tram stops at the mill", agent_id="rider")
    await embedded_by(db, "openai/test")
    with OpenAIServer(dimensions=256) as server:
        settings = {"openai_base_url": server.base_url, "openai_api_key": "x"}
        async with served(url, tmp_path, **settings) as reader:
            page = await reader.get("/recall?q=tram&agent=rider")
            assert found_on(page) == [["the tram stops at the mill"]]
            assert "by words only" not in page
            assert server.texts == ["tram"]
            assert 'name="was"' not in page, "without --edit nothing is judged"
            server.always = Fault.status(400)
            page = await reader.get("/recall?q=mill&agent=rider")
            assert found_on(page) == [["the tram stops at the mill"]]
            assert "by words only" in page
    await embedded_by(db, "local/wordllama-256")


async def test_support_asks_for_what_one_organisation_knows(pages: Reader, db: asyncpg.Connection) -> None:
    org, user = uuid.uuid4(), uuid.uuid4()
    theirs = await know(db, "Quinces", "quinces are paid for in advance", org_id=org)
    await index_rows(db, "knowledge", [theirs])
    await remembered(db, "the quinces are ripe", agent_id="grocer")
    await remembered(db, "ann wants quinces", user_id=user)
    about = {
        "/recall?q=quinces&agent=grocer": "quinces are ripe",
        f"/recall?q=quinces&user={user}&source=knowledge&source=memory": "ann wants quinces",
        "/recall?q=quinces": "quinces are ripe",
        "/context?agent=grocer&message=how+are+quinces+paid+for": "quinces are ripe",
    }
    for path, remembered_there in about.items():
        for chosen, shown in (("", False), (f"&org={uuid.uuid4()}", False), (f"&org={org}", True)):
            said = await pages.read(path + chosen)
            assert remembered_there in said, path
            assert ("paid for in advance" in said) == shown, (path, chosen)
    page = await pages.get(f"/recall?q=quinces&agent=grocer&org={org}")
    assert f'name="org" value="{org}"' in page
    await pages.read("/recall?q=quinces&org=x", status=400)
