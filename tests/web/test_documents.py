"""The page of documents: the list, and one document with its chunks and whether they are indexed."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from urllib.parse import urlencode

import asyncpg
import pytest

from tests.support.rows import insert
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()


async def document(db: asyncpg.Connection, title: str, chunks: int = 1, **columns: object) -> uuid.UUID:
    """A document of Ann's unless told otherwise, whose writer brings the chunks."""
    made = await insert(db, "documents", {"title": title, "user_id": ANN, "status": "active"} | columns)
    await db.execute(
        "insert into memory_chunks (document_id, chunk_index, chunk_text, headings) "
        "select $1, n, title || ', part ' || n, array['Ports', 'Ropes'] "
        "from generate_series(0, $2::integer - 1) n, documents d where d.id = $1",
        made,
        chunks,
    )
    return made


def version_of(page: str) -> str:
    return page.partition('name="version" value="')[2].partition('"')[0]


async def test_the_list_has_status_chunks_and_with_whom_it_is_shared(
    pages: Reader, db: asyncpg.Connection
) -> None:
    await document(db, "Tide tables", 3, source="upload", access_level=2, visibility_tags=["crew"])
    await document(db, "Night orders", user_id=BOB, status="conflict")
    said = await pages.read("/documents")
    assert re.search(r"Tide tables \d{4}-\S+ [\d:]+ active 3 level 2 crew upload", said)
    assert re.search(r"Night orders \d{4}-\S+ [\d:]+ conflict 1 ", said)
    for query in (f"user={BOB}", "status=conflict"):
        assert "Tide tables" not in await pages.read(f"/documents?{query}")
    page = await pages.get(f"/documents?user={BOB}")
    assert '<input type="hidden" name="source" value="document">' in page, "what they say is found by Recall"
    assert f'<input type="hidden" name="user" value="{BOB}">' in page
    assert f'href="/users/{BOB}"' in page.partition("<table")[2]
    for query in ("shared=yes", "words=upload", "words=TABLES+tide", "words=tide++tables"):
        said = await pages.read(f"/documents?{query}")
        assert "Tide tables" in said, query
        assert "Night orders" not in said, query
    assert "no document that fits" in await pages.read("/documents?words=tide+tables+of+night")


async def test_a_word_of_the_title_or_the_text_finds_a_document(
    pages: Reader, db: asyncpg.Connection, url: str, tmp_path: Path
) -> None:
    made = await document(db, "Almanac", 2, user_id=BOB)
    await db.execute(
        "insert into memory_chunks (document_id, chunk_index, chunk_text) "
        "values ($1, 2, 'The Ebbe runs at six.'), ($1, 3, '<script>alert(1)</script> 50%')",
        made,
    )
    await document(db, "Log", 1, id=uuid.UUID("ebbe0000-ebbe-4000-8000-00000000ebbe"))
    # Words of several chunks and of the title, and the id, or its beginning: not what an id has by chance.
    for words in ("ebbe", "ALMANAC six", "six part", "<script>alert(1)</script>", "50%", made, str(made)[:8]):
        said = await pages.read(f"/documents?{urlencode({'words': words})}")
        assert "Almanac" in said, words
        assert "Log" not in said.partition("Source User")[2], words
    for words in ("ebbes", "ebbe log", "%_", "' or true --", "x" * 200):
        said = await pages.read(f"/documents?{urlencode({'words': words})}")
        assert "no document that fits" in said, words
    for wrong in ("\0", "x" * 201):
        page = await pages.get(f"/documents?{urlencode({'words': wrong})}", status=400)
        assert page.count('aria-invalid="true"') == 1
    found = await pages.get("/recall?q=ebbe&source=document")
    [way] = re.findall(r'href="(/documents\?[^"]+)"', found)
    assert "Without a user: of users only what they share" in text_of(found)
    assert "Almanac" in await pages.read(way)
    # Of whom a document was only looked through, nothing is on record; and another user finds nothing.
    await db.execute("delete from agent_execution_logs")
    await pages.read(f"/documents?words=ebbe&user={BOB}")
    users = await db.fetch(
        "select distinct user_id from agent_execution_logs where action_type = 'admin_read'"
    )
    assert [row["user_id"] for row in users if row["user_id"]] == [BOB]
    async with served(url, tmp_path, "--as-user", str(ANN)) as ann:
        assert "no document that fits" in await ann.read("/documents?words=ebbe")


async def test_a_document_shows_its_chunks_in_pages_and_what_recall_knows_of_them(
    pages: Reader, db: asyncpg.Connection
) -> None:
    made = await document(db, "<img src=x onerror=alert(1)>", 60)
    page = await pages.get(f"/documents/{made}")
    assert "<img" not in page
    said = text_of(page)
    assert said.count("Ports \u203a Ropes waiting") == 50
    assert f"/audit/derived?kind=document&amp;id={made}" in page
    assert "chunk" in await pages.read(f"/audit/derived?kind=document&id={made}")
    assert "part 49" in said
    assert "part 50" not in said
    onwards = page.partition('rel="next" href="')[2].partition('"')[0]
    assert "part 59" in await pages.read(onwards)
    assert "from 0" in await pages.read(f"/documents/{made}?from=x", status=400)
    empty = await document(db, "Still blank", 0)
    assert "no chunks yet" in await pages.read(f"/documents/{empty}")


async def test_chunks_are_read_as_their_writer_meant_them_and_lose_no_word(
    pages: Reader, db: asyncpg.Connection
) -> None:
    made = await document(db, "Rigging", 0)
    texts = (
        "# Splices\n\nAn *eye* splice.\n\n1. Cut\n2. Whip\n\n| rope | mm |\n|---|--:|\n| main | 12 |\n\n```sh\nhaul\n```",
        "<b>bold</b> [go](javascript:alert(1)) ![see](http://evil.example/x.png)\n\n[a]: http://e.example",
        "| a | b |\n|---|---|\n| 1 | 2 | the fifth wheel |",
        "- " * 40 + "deep",
        ">" * 5000,
    )
    await db.executemany(
        "insert into memory_chunks (document_id, chunk_index, chunk_text) values ($1, $2, $3)",
        [(made, n, text) for n, text in enumerate(texts)],
    )
    page = await pages.get(f"/documents/{made}")
    for shown in (
        "<h3>Splices</h3>",
        "<em>eye</em>",
        "<li>Cut</li>",
        "<td>12</td>",
        '<code class="language-sh">haul',
    ):
        assert shown in page
    for never in ("<b>", 'href="javascript', 'href="http://evil', "<img", "style="):
        assert never not in page
    said = text_of(page)
    for word in (
        "<b>bold</b>",
        "go",
        "javascript:alert(1)",
        "http://evil.example/x.png",
        "[a]: http",
        "fifth wheel",
        "deep",
    ):
        assert word in said, word


async def test_a_document_is_forgotten_unless_it_has_changed(pages: Reader, db: asyncpg.Connection) -> None:
    made = await document(db, "Old chart")
    path = f"/documents/{made}"
    version = version_of(await pages.get(path))
    await db.execute("update documents set title = 'New chart' where id = $1", made)
    told = await pages.send(path, {"version": version})
    assert told.status_code == 409
    assert "New chart" in text_of(told.text)
    assert (await pages.send(path, {"version": version_of(told.text)})).headers["location"] == "/documents"
    await pages.get(path, status=404)
    assert await db.fetchval("select count(*) from memory_chunks where document_id = $1", made) == 0


async def test_an_end_user_sees_their_own_and_without_edit_forgets_none(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    own, others = await document(db, "Ann's log"), await document(db, "Bob's log", user_id=BOB)
    async with served(url, tmp_path, "--as-user", str(ANN)) as ann:
        listed = await ann.read("/documents")
        assert re.search(r"Ann's log \d{4}-\S+ [\d:]+ active 1", listed)
        assert "Bob's log" not in listed
        for row in (others, uuid.uuid4()):
            await ann.get(f"/documents/{row}", status=404)
        page = await ann.get(f"/documents/{own}")
        assert "Ann's log, part 0" in text_of(page)
        assert 'id="edit"' not in page
        refused = await ann.send(f"/documents/{own}", {"version": "x"})
        assert refused.status_code == 400
        assert "--edit" in text_of(refused.text)
    assert await db.fetchval("select count(*) from documents where id = any($1)", [own, others]) == 2
