"""What no page can be asked, and no form can say: each is answered with a sentence, and changes nothing."""

from __future__ import annotations

import re
import uuid

import asyncpg
import httpx2
import pytest

from daemon.ids import id_of
from tests.support.rows import insert, remember
from tests.support.services.browser import Browser
from tests.support.services.every_page import addresses
from tests.support.services.web_pages import Reader, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODY = "00000000-0000-4000-8000-000000000000"
ASKED = (
    ("/recall?q=x&user=" + NOBODY[:-1], "almost a UUID"),
    ("/recall?q=x&count=0", "count is from 1"),
    ("/recall?q=x&count=2.5", "whole number"),
    ("/recall?q=x&count=nan", "count is from 1"),
    ("/recall?q=x&min_score=2", "min_score is from 0"),
    ("/recall?q=x&since=soon", "since is no time"),
    ("/recall?q=x&source=secrets", "source is one of memory"),
    ("/recall?q=x&source=%00", "source has a NUL character"),
    ("/recall?q=x&role=root", "role is one of user"),
    ("/recall?q=x&org={" + NOBODY + "}", "almost a UUID"),
    ("/recall?q=" + "x" * 8001, "8001 characters"),
    ("/context?agent=a&message=x&words=50", "words is from 100"),
    ("/context?agent=a&message=x&words=100.5", "whole number"),
    ("/context?agent=%00&message=x", "NUL"),
    ("/context?message=x&agent=" + "a" * 201, "201 characters"),
    ("/graph?memory=x", "no id"),
    ("/graph/data?memory=x", "no id"),
    ("/graph?kind=warm", "kind is one of"),
    ("/graph?least=2", "from 0 to 1"),
    ("/conversations?since=soon", "no time"),
    ("/conversations?before=x", "no position"),
    ("/documents?status=new", "status is one of"),
    ("/knowledge?tier=deep", "tier is one of"),
    ("/knowledge/decisions?org=" + NOBODY + "0", "almost a UUID"),
    ("/dreams?before=soon", "no position"),
    ("/dreams/insights?confidence=2", "from 0 to 1"),
    ("/trail?before=x", "no position"),
    ("/trail?before=9999999999999999999", "no position"),
    ("/audit/derived?kind=star&id=x", "kind is one of"),
    ("/audit/derived?kind=memory&id=x", "id is no id"),
    ("/audit/derived?kind=memory", "Say which memory"),
    ("/audit/derived?kind=agent&id=%00", "NUL"),
)
MISSING = (
    f"/memories/{NOBODY}", f"/graph?memory={NOBODY}", f"/graph/data?memory={NOBODY}", f"/conversations/{NOBODY}",
    f"/documents/{NOBODY}", f"/knowledge/{NOBODY}", f"/dreams/{NOBODY}", f"/trail/{NOBODY}",
    f"/audit/derived?kind=memory&id={NOBODY}", "/audit/rules/duplicates",
)  # fmt: skip


async def test_what_cannot_be_asked_is_a_sentence(pages: Reader) -> None:
    for path, says in ASKED:
        assert says in await pages.read(path, status=400), path
    for form in ({"user": NOBODY[:-1]}, {"since": "soon"}, {"agent": "a\0"}):
        assert (await pages.send("/audit", form)).status_code == 400, form


async def test_a_bad_value_keeps_the_form_and_shows_no_row(pages: Reader, db: asyncpg.Connection) -> None:
    await remember(db, "pears ripen in the cellar", agent_id="keeper", user_id=id_of("mia"))
    wrong = NOBODY[:-1]
    for path in (f"/memories?agent=keeper&user={wrong}", f"/recall?q=pears&agent=keeper&user={wrong}"):
        html = (await pages.http.get(path)).text
        assert f'name="user" value="{wrong}"' in html
        assert 'value="keeper"' in html
        assert "pears ripen" not in html
        assert html.count("An id is almost a UUID") == 2  # above, and beside the field
        assert html.count('aria-invalid="true"') == 1
    # A name is the id that it has in the clients.
    assert "pears ripen" in await pages.read("/memories?user=mia")
    assert "pears ripen" in await pages.read("/recall?q=pears&user=mia")


async def test_in_a_browser_the_form_says_what_is_wrong_until_it_is_mended(
    pages: Reader, db: asyncpg.Connection, browser: Browser
) -> None:
    await remember(db, "plums are stewed", agent_id="cook", user_id=id_of("mia"))
    browser.sign_in(pages)
    browser.open("/memories?agent=cook")
    fill = (
        "const field = document.querySelector('[name=user]:not([type=hidden])');"
        "field.value = arguments[0]; field.form.requestSubmit()"
    )
    browser.run(fill, NOBODY[:-1])
    browser.until("return document.querySelector('[aria-invalid]')")
    assert "almost a UUID" in browser.text
    assert "plums" not in browser.text
    browser.run(fill, "mia")
    browser.until("return document.querySelector('#rows').innerText.includes('plums are stewed')")
    assert "almost a UUID" not in browser.text


async def test_what_is_not_there_is_told_with_the_same_words(pages: Reader) -> None:
    for path in MISSING:
        assert "There is no such row, or you may not see it." in await pages.read(path, status=404), path


@pytest.mark.parametrize("page", ["memories", "knowledge"])
async def test_what_cannot_be_stored_is_refused_and_changes_nothing(
    pages: Reader, db: asyncpg.Connection, page: str
) -> None:
    if page == "memories":
        table, row = "agent_memory", await remember(db, f"stays as it is {uuid.uuid4()}", agent_id="strict")
    else:
        entry: dict[str, object] = {
            "title": "Stays",
            "content": "Stays",
            "category": "decision",
            "tier": "learning",
            "created_by": "sage",
        }
        table, row = "shared_knowledge", await insert(db, "shared_knowledge", entry)
    path = f"/{page}/{row}"
    before = await db.fetchrow(f"select * from {table} where id = $1", row)
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    for form, says in FORMS[page]:
        answer = await pages.send(path, {"version": version} | form)
        assert answer.status_code == 400, form
        assert says in text_of(answer.text), form
    assert await db.fetchrow(f"select * from {table} where id = $1", row) == before


CORRECT = {"do": "correct", "kind": "fact", "content": "x"}
REWORD = {"do": "reword", "title": "x", "content": "x", "confidence": "high"}
FORMS: dict[str, tuple[tuple[dict[str, str], str], ...]] = {
    "memories": (
        (CORRECT | {"content": "  "}, "says nothing"),
        (CORRECT | {"kind": "opinion"}, "kind is one of"),
        (CORRECT | {"content": "a\0b"}, "NUL"),
        (CORRECT | {"expires_at": "soon"}, "no time"),
        ({"do": "replace", "content": ""}, "says nothing"),
        ({"do": "burn", "content": "burnt"}, "do is one of replace, correct, forget"),
        ({"content": "burnt"}, "do is one of replace, correct, forget"),
    ),
    "knowledge": (
        (REWORD | {"title": " "}, "a title and a text"),
        (REWORD | {"content": "a\0b"}, "NUL"),
        (REWORD | {"confidence": "sure"}, "confidence is one of"),
        (REWORD | {"content": "password: hunter2hunter2"}, "a password or key"),
        ({"do": "score", "success": "maybe"}, "yes or no"),
        ({"do": "correct", "content": ""}, "says what is right"),
        ({"do": "resolve"}, "Only a project"),
        ({"do": "burn"}, "does not say what to do"),
    ),
}


async def test_what_is_wrong_in_a_folded_part_of_a_form_is_seen(pages: Reader) -> None:
    closed, opened = r"<details><summary>", r"<details open><summary>"
    page = await pages.get("/recall?q=x&count=0", status=400)
    assert f"{opened}Options" in page
    assert f"{closed}Compare with" in page
    page = await pages.get("/recall?q=x&compare=yes&other_count=0", status=400)
    assert f"{closed}Options" in page
    assert f"{opened}Compare with" in page
    assert f"{closed}Options" in await pages.get(f"/recall?q=x&user={NOBODY[:-1]}", status=400)


async def test_every_page_says_what_it_is_also_one_that_refuses(few: Reader) -> None:
    async with httpx2.AsyncClient(base_url=few.address) as stranger:
        pages = [(path, (await few.http.get(path)).text) for path in addresses()]
        for path, status, title in (
            ("/recall?q=x&count=0", 400, "Recall"),
            ("/audit/derived?kind=star", 400, "Bad Request (400)"),
            (f"/memories/{NOBODY}", 404, "Not Found (404)"),
            ("/nothing", 404, "Not Found (404)"),
            ("/ask/memories", 405, "Method Not Allowed (405)"),
        ):
            page = await few.get(path, status=status)
            assert f"<title>{title} · memoryd</title>" in page, path
            assert f"<h1>{title}</h1>" in page, path
            pages.append((path, page))
        refused = await few.http.post("/memories/x", data={"csrf": "0"})
        assert "<h1>Forbidden (403)</h1>" in refused.text
        told = await few.http.get("/memories", headers={"Host": "evil.example"})
        assert "<h1>Misdirected Request (421)</h1>" in told.text
        signing = await stranger.get("/sign-in")
        pages += [("403", refused.text), ("421", told.text), ("/sign-in", signing.text)]
    for path, page in pages:
        assert len(re.findall(r"<h1\b", page)) == 1, path
        assert re.search(r"<h1[^>]*>\s*[^<\s]", page), path
        titles = re.findall(r"<title>([^<]+)</title>", page)
        assert len(titles) == 1, path
        assert not titles[0].startswith("memoryd ·"), path
        assert '<html lang="en">' in page, path
