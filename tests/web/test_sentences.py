"""The sentences that code and database make are shown in the reader's language, with their values as they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from tests.support.rows import remember
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def german(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """Who has chosen German, of a server whose settings name a folder that is not there."""
    folder: Path = tmp_path_factory.mktemp("german")
    async with served(url, folder, "--edit", backup_dir=folder / "none") as reader:
        await reader.http.get("/language/de", headers={"Referer": reader.address})
        yield reader


async def test_what_the_doctor_says(german: Reader, db: asyncpg.Connection) -> None:
    await db.execute(
        "insert into memoryd.dead_letters (id, topic, attempts, error, created_at) "
        "values (-1, 'index', 10, 'Unavailable', now())"
    )
    while "Er hat nachgesehen" not in (page := await german.get("/now/live")):
        await asyncio.sleep(0.05)
    said = text_of(page)
    assert "Problem Warteschlange Aufgegebene Aufgaben: 1. Die Ursache zeigt: memoryd dead." in said
    assert (
        "none ist nicht lesbar: No such file or directory. Anlegen, oder MEMORYD_BACKUP_DIR ändern." in said
    )
    assert "Zeilenschutz Auf jeder Tabelle aktiviert und erzwungen." in said


async def test_what_was_wrong_with_a_query(german: Reader) -> None:
    assert "least geht von 0 bis 1." in await german.read("/graph?agent=a&least=2", status=400)
    assert "status ist eines von active, resolved, archived." in await german.read(
        "/knowledge?status=x", status=400
    )


async def test_why_a_finding_is_one_and_what_its_repair_does(german: Reader, db: asyncpg.Connection) -> None:
    kept = await remember(db, "we ship on Friday", agent_id="tidy", kind="note")
    await remember(db, "WE SHIP ON FRIDAY", agent_id="tidy", kind="note")
    await german.send("/audit", {"agent": "tidy"})
    while "Sie sieht nach" in await german.get("/audit"):
        await asyncio.sleep(0.05)
    said = await german.read("/audit/rules/duplicates")
    assert f"sagt dasselbe wie {kept} vergessen; {kept} bleibt" in said


async def test_why_there_is_no_proof_and_why_nothing_is_found(german: Reader, db: asyncpg.Connection) -> None:
    memory = await remember(db, "we moved to the harbour", agent_id="keeper")
    anchor = await db.fetchval("select memoryd.anchor($1, 'decision')", memory)
    answer = await german.send(f"/trail/{anchor}", {})
    assert "Der Anker ist noch in keinem unterschriebenen Checkpoint." in text_of(answer.text)
    assert "wartet: noch kein Daemon kam dazu" in await german.read(f"/memories/{memory}")
