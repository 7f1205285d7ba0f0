"""Addresses, which histories and logs keep: they have the ids of people, and nothing that somebody typed about them."""

from __future__ import annotations

import html
import re
import uuid
from urllib.parse import unquote_plus

import asyncpg
import httpx2
import pytest

from tests.support.rows import insert, remember, say
from tests.support.services.browser import Browser
from tests.support.services.every_page import addresses
from tests.support.services.web_pages import CSRF, Reader, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = {
    "/memories": {}, "/tasks": {}, "/conversations": {}, "/documents": {}, "/graph": {}, "/dreams/insights": {},
    "/recall": {"q": "tea"}, "/context": {"message": "buy tea", "agent": "clerk"}, "/audit/derived": {"kind": "user"},
}  # fmt: skip
"""Pages with a field for a user, and what else they must be asked."""
TEXTS = {
    "/recall": "q",
    "/context": "message",
    "/conversations": "words",
    "/documents": "words",
    "/users": "q",
}
FORM = re.compile(r"<form[^>]*>.*?</form>", re.DOTALL)


async def somebody(db: asyncpg.Connection, name: str) -> uuid.UUID:
    """Who said something under this name, and of whom something is remembered."""
    user = uuid.uuid4()
    session = await insert(
        db, "conversation_sessions", {"user_id": user, "agent_id": "clerk", "title": "Tea"}
    )
    await say(db, session, "Good morning", user_id=user, speaker=name)
    await remember(db, "likes tea", agent_id="clerk", user_id=user)
    return user


def field_of(path: str) -> str:
    return "id" if path == "/audit/derived" else "user"


async def test_no_form_puts_what_is_typed_into_an_address(few: Reader) -> None:
    looked = 0
    for path in addresses():
        for form in FORM.findall(await few.get(path)):
            looked += 1
            if 'method="get"' in form:
                assert set(re.findall(r'type="(\w+)"', form)) <= {"date"}, (path, form)
                assert "<textarea" not in form, path
            else:
                assert 'name="csrf"' in form, (path, form)
    assert looked > 50


@pytest.mark.parametrize("path", ASKED)
async def test_a_name_leads_to_the_address_of_the_id(
    pages: Reader, db: asyncpg.Connection, path: str
) -> None:
    name = f"Zelda {path.strip('/').replace('/', ' ')} Ost"
    zelda = await somebody(db, name)
    for typed in (name, name.lower(), f"{name} ({str(zelda)[:8]})", str(zelda)[:8], str(zelda).upper()):
        answer = await pages.ask(path, **ASKED[path], **{field_of(path): typed})
        assert answer.status_code == 303, typed
        to = answer.headers["location"]
        assert to.startswith(f"{path}?"), to
        assert f"{field_of(path)}={zelda}" in to
        for part in ("elda", "csrf", "tea"):
            assert part not in to, to
        page = await pages.get(to)
        for address in re.findall(r'(?:href|hx-get|hx-post|action|data-load)="([^"]+)"', page):
            assert "elda" not in unquote_plus(html.unescape(address)), address


@pytest.mark.parametrize("path", ASKED)
async def test_a_name_of_several_or_of_nobody_stays_in_its_form_beside_what_is_wrong(
    pages: Reader, db: asyncpg.Connection, path: str
) -> None:
    name = f"Twin {path.strip('/').replace('/', ' ')}"
    twins = [await somebody(db, name) for _ in range(2)]
    for typed, says in (
        (name, "Several users have this name"),
        ("Nobody <b>At All", "There is no such user"),
    ):
        answer = await pages.ask(path, **ASKED[path], since="2026-03-05", **{field_of(path): typed})
        assert answer.status_code == 400
        assert answer.headers["hx-push-url"] == "false", "or a script would take this for an address"
        assert f'name="{field_of(path)}" value="{html.escape(typed)}"' in answer.text
        assert answer.text.count('aria-invalid="true"') == 1
        assert text_of(answer.text).count(says) == 2, "above, and beside the field"
        assert "likes tea" not in answer.text
    answer = await pages.ask(path, **ASKED[path], since="2026-03-05", **{field_of(path): name})
    meant = re.findall(r'role="alert">.*?</p>', answer.text, re.DOTALL)[0]
    links = [html.unescape(link) for link in re.findall(r'href="([^"]+)"', meant)]
    assert {twin for twin in twins for link in links if f"{field_of(path)}={twin}" in link} == set(twins)
    assert all(link.startswith(f"{path}?") and "Twin" not in link and "2026-03-05" in link for link in links)
    assert "csrf" not in meant
    for link in links:
        await pages.get(link)


@pytest.mark.parametrize(("path", "field"), TEXTS.items())
async def test_words_are_in_no_address_and_their_page_can_be_loaded_again(
    pages: Reader, db: asyncpg.Connection, path: str, field: str
) -> None:
    word = f"zwieback{path[1:]}"
    user = await somebody(db, f"Yan {word}")
    session = await insert(
        db, "conversation_sessions", {"user_id": user, "agent_id": "clerk", "title": f"About {word}"}
    )
    await say(db, session, f"more {word}, please", user_id=user)
    await insert(db, "documents", {"user_id": user, "title": f"On {word}", "status": "active"})
    form = {"agent": "clerk", "user": str(user)} if path != "/users" else {}
    answer = await pages.ask(path, **form, **{field: f"{word}"})
    to = answer.headers["location"]
    assert word not in to
    for _ in range(2):
        page = await pages.get(to)
        assert word in page.replace(f'value="{word}"', ""), "it was found, or asked"
        for link in re.findall(r'href="([^"]+)"', page):
            assert word not in link, link
    # An address that has the words, as somebody kept it.
    assert word in (await pages.get(f"{path}?{field}={word}&agent=clerk")).replace(f'value="{word}"', "")
    # Another session does not know them.
    async with httpx2.AsyncClient(base_url=pages.address) as other:
        assert (await other.get(pages.sign_in)).status_code == 200
        answer = await other.get(to)
    assert answer.status_code == 400
    assert text_of(answer.text).count("type it again") == 2
    assert word not in answer.text
    assert to.partition(f"{field}=")[2][:17] not in answer.text.replace("%7E", "~")


async def test_who_told_a_memory_is_in_no_address(pages: Reader, db: asyncpg.Connection) -> None:
    await remember(db, "likes tea", agent_id="clerk", source="Zelda Quill, by phone")
    to = (await pages.ask("/memories", agent="clerk", source="Zelda Quill, by phone")).headers["location"]
    assert "Zelda" not in to
    assert "likes tea" in await pages.get(to)


async def test_what_was_typed_is_known_after_a_long_conversation_was_read(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user = await somebody(db, "Yan")
    session = await insert(
        db, "conversation_sessions", {"user_id": user, "agent_id": "clerk", "title": "Tea"}
    )
    await db.execute(
        "insert into public.conversation_messages (session_id, user_id, message_index, role, content) "
        "select $1, $2, n, 'user', 'cup ' || n from generate_series(1, 2100) n",
        session, user,
    )  # fmt: skip
    to = (await pages.ask("/recall", q="zwieback", agent="clerk")).headers["location"]
    seen = set()
    for begin in range(0, 2100, 50):
        page = await pages.get(f"/conversations/{session}?from={begin}")
        seen.update(re.findall(r"message=(~\w+|%7E\w+)", page))
    assert len(seen) >= 2000, "each message has a link with its text"
    assert 'value="zwieback"' in await pages.get(to)


async def test_choices_of_which_several_are_ticked_stay(pages: Reader) -> None:
    token = CSRF.search(await pages.get("/recall"))
    assert token is not None
    form = {"csrf": token[1], "q": "tea", "source": ["memory", "document"], "speakers": "Ann, Bob"}
    to = (await pages.http.post("/ask/recall", data=form)).headers["location"]
    assert "source=memory&source=document" in to
    assert "Ann" not in to
    page = await pages.get(to)
    assert len(re.findall(r'name="source" value="(?:memory|document)" checked', page)) == 2
    assert 'name="speakers" value="Ann, Bob"' in page


async def test_a_form_of_another_site_or_session_leads_nowhere(pages: Reader) -> None:
    token = CSRF.search(await pages.get("/memories"))
    assert token is not None
    for fields, headers in (
        ({"user": "Ann"}, {}),
        ({"user": "Ann", "csrf": "0" * 64}, {}),
        ({"user": "Ann", "csrf": token[1]}, {"Origin": "https://evil.example"}),
        ({"user": "Ann", "csrf": token[1]}, {"Sec-Fetch-Site": "cross-site"}),
    ):
        answer = await pages.http.post("/ask/memories", data=fields, headers=headers)
        assert answer.status_code == 403, (fields, headers)
    assert (await pages.http.get("/ask/memories")).status_code == 405


async def test_a_form_leads_to_a_page_of_this_server_alone(pages: Reader) -> None:
    for path in (
        "//evil.example",
        "/%2f%2fevil.example",
        "/nothing",
        "/ask/memories",
        "/names/user",
        "/sign-out",
        "/",
    ):
        answer = await pages.ask(path, q="x")
        assert answer.status_code in (303, 404), path
        assert not re.match(r"//|https?:|/ask", answer.headers.get("location", "")), path
    for form in ({"agent": "x" * 20_000}, {"q": "x" * 20_000}, {"q": "\0"}, {"user": "\0"}):
        answer = await pages.ask("/recall", **form)
        at = answer.headers.get("location", "")
        assert answer.status_code == 400 or await pages.get(at, status=400), form


async def test_in_a_browser_no_request_has_a_name_or_a_question(
    pages: Reader, db: asyncpg.Connection, browser: Browser
) -> None:
    quinn = await somebody(db, "Quinn <b> Ostrava")
    browser.sign_in(pages)
    type_it = (
        "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    question, user = "main [name=q]", "main [name=user]:not([type=hidden])"
    for path, typed, shows in (
        ("/memories", {user: "Quinn Ostrava"}, "likes tea"),
        ("/recall", {question: "wherever Ostrava likes tea", user: "Quinn Ostrava"}, "likes tea"),
        ("/users", {question: "Ostrava"}, "Quinn <b> Ostrava"),
    ):
        browser.open(path)
        browser.requested()
        for field, text in typed.items():
            browser.run(type_it, field, text)
        if user in typed:
            browser.until("return document.querySelector('#names-user option')")
        browser.run("document.querySelector(arguments[0]).form.requestSubmit()", list(typed)[-1])
        browser.until(f"return location.search.includes('{quinn if user in typed else '=~'}')")
        browser.until(f"return document.querySelector('#rows').innerText.includes('{shows}')")
        assert [url for url in browser.requested() if "strava" in url] == []
        browser.driver.refresh()
        assert shows in browser.text
    assert browser.complaints() == []
