"""The page of recall: what is found and why, two settings side by side."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

import asyncpg
import pytest

from plugins.web.found import PARENTS
from tests.support.content.index import index_rows
from tests.support.content.knowledge import know
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import embedded_by
from tests.support.rows import column, conclude, insert, remember, say
from tests.support.services.openai_server import Fault, OpenAIServer
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()


async def remembered(db: asyncpg.Connection, text: str, **columns: object) -> uuid.UUID:
    """A memory that recall finds."""
    row = await remember(db, text, **columns)
    await index_rows(db, "memory", [row])
    return row


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


async def test_who_is_named_is_said_in_words(pages: Reader, db: asyncpg.Connection) -> None:
    session, otto = uuid.uuid4(), uuid.uuid4()
    for role, speaker in (("user", "Otto Kjær"), ("assistant", None)):
        row = await say(
            db, session, "The harpoon hangs in the shed.", user_id=otto, role=role, speaker=speaker
        )
        await index_rows(db, "conversation", [row])
    await db.execute(
        "insert into memoryd.speaker_statistics (scope, lexeme, speaker, passages) "
        "values (memoryd.scope_of($1, null), 'otto', 'Otto Kjær', 1)",
        otto,
    )
    asked = f"/recall?user={otto}&q="
    said = await pages.read(asked + quote("where did Otto say that the harpoon is"))
    assert "names Otto Kjær 0.50" in said
    said = await pages.read(asked + quote("where did I say that the harpoon is"))
    assert "says I or you 0.50" in said
    assert "names Otto" not in said.partition("Found")[2]


async def test_what_takes_off_is_drawn_to_the_other_side(pages: Reader, db: asyncpg.Connection) -> None:
    session = uuid.uuid4()
    for text in ("Where does the otter sleep?", "The otter sleeps under the jetty."):
        row = await say(db, session, text, user_id=ANN)
        await index_rows(db, "conversation", [row])
    page = await pages.get(f"/recall?q=where+does+the+otter+sleep&user={ANN}")
    drawn = re.compile(r'class="part (\w+)" x="([\d.]+)" width="([\d.]+)"')
    bars = [
        {name: (float(x), float(x) + float(width)) for name, x, width in drawn.findall(bar)}
        for bar in page.split('<svg class="stack"')[1:]
    ]
    line = {round(bar["lexical"][0], 1) for bar in bars if "lexical" in bar}
    taken = {round(bar["prior"][1], 1) for bar in bars if "prior" in bar}
    assert taken == line
    assert min(bar["prior"][0] for bar in bars if "prior" in bar) == 0 < min(line)


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
    title = await db.fetchval("select title from shared_knowledge where id = $1", rows["knowledge"])
    assert f": {title}" in text_of(page), "of knowledge its title, too"
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
    for path in (asked, f"{asked}&relevant_only=yes"):
        page = await pages.get(path)
        shown, closed, left_out = page.partition('<details class="out"><summary>')
        assert closed
        for text in out:
            assert str(text) not in shown
            assert str(text) in left_out
        assert f"({len(out)})" in text_of(left_out).partition("recall() gives these")[0]
        assert f"Found {shown.count('<li class=')} " in text_of(shown), "what is left out is not counted"
    both = await pages.get(f"{asked}&compare=yes&other_relevant_only=yes")
    assert both.count('<details class="out">') == 2


async def test_to_look_stores_nothing(pages: Reader, db: asyncpg.Connection) -> None:
    await remembered(db, "the unicycle of ann is red", agent_id="helper", user_id=ANN)
    before = await queries(db)
    assert "the unicycle of ann is red" in await pages.read(f"/recall?q=unicycle&user={ANN}")
    assert await queries(db) == before


async def test_an_end_user_finds_their_own_only(url: str, db: asyncpg.Connection, tmp_path: Path) -> None:
    await remembered(db, "the boat of bob is red", agent_id="helper", user_id=BOB)
    await remembered(db, "the boat of ann is blue", agent_id="helper", user_id=ANN)
    await remembered(db, "the boat of the agents is grey", agent_id="helper")
    async with served(url, tmp_path, "--edit", "--as-user", str(BOB)) as bob:
        page = await bob.get("/recall?q=boat")
        assert found_on(page) == [["the boat of bob is red"]]
        assert found_on(await bob.get("/recall?q=boat&agent=helper")) == [["the boat of bob is red"]]
        missing = await bob.read(f"/recall?q=boat&user={uuid.uuid4()}", status=404)
        assert await bob.read(f"/recall?q=boat&user={ANN}", status=404) == missing


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
    await pages.read(f"/recall?q=quinces&org={str(org)[:-1]}", status=400)
