"""Names: what the fields for agents and users offer, whose rows a page shows, that there is nobody, and what was asked last."""

from __future__ import annotations

import html
import re
import uuid
from collections.abc import Awaitable
from pathlib import Path
from urllib.parse import quote, urlsplit

import asyncpg
import pytest

from daemon.ids import id_of
from plugins.web import names
from tests.support.database.schemas import connected
from tests.support.database.server_log import server_log
from tests.support.database.servers import Server
from tests.support.rows import ask, associate, insert, remember, say, somebody
from tests.support.services.browser import Browser
from tests.support.services.web_pages import CSRF, Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAYLOAD = '"><img src=x onerror=alert(1)>'
TRAIL = """
select user_id, input_data ->> 'table' as of, input_data ->> 'users' as users, input_data ->> 'name' as who
from agent_execution_logs where action_type = 'admin_read'
"""
ONE_LOOK = [(None, "names", "many", "support")]
OPTION = re.compile(r'<option value="([^"]*)">([^<]*)</option>')


async def speaker(db: asyncpg.Connection, name: str, user: uuid.UUID | None = None) -> uuid.UUID:
    """Somebody who said something under this name."""
    user = user or uuid.uuid4()
    session = await insert(
        db, "conversation_sessions", {"user_id": user, "agent_id": "alice", "title": "A talk"}
    )
    await say(db, session, "Good morning", user_id=user, speaker=name)
    return user


async def options(reader: Reader, field: str, part: str = "", *, status: int = 200) -> dict[str, str]:
    """The values that a field offers, each with what people call it."""
    answer = await reader.send(f"/names/{field}", {field: part}, on="/words")
    assert answer.status_code == status
    return {html.unescape(value): html.unescape(label) for value, label in OPTION.findall(answer.text)}


async def trail(db: asyncpg.Connection, look: Awaitable[object]) -> list[tuple[object, ...]]:
    """What support's looking leaves on the audit trail."""
    await db.execute("delete from agent_execution_logs")
    await look
    return [tuple(row) for row in await db.fetch(TRAIL)]


async def test_a_field_offers_users_by_their_names_and_no_trail_is_filled_by_them(
    pages: Reader, db: asyncpg.Connection, server: Server, url: str
) -> None:
    berta, other = await speaker(db, "Berta Lund"), await speaker(db, "Carl Moe")
    dora = await speaker(db, "dora", id_of("dora"))
    evil = await speaker(db, PAYLOAD)
    today = f"{await db.fetchval('select now()'):%Y-%m-%d}"
    async with connected(server.admin_url_of(urlsplit(url).path[1:])) as admin:
        log = await server_log(db, admin)
        for part in ("", "l", "lund"):
            assert await trail(db, options(pages, "user", part)) == ONE_LOOK, part
        # Whose these were is in the server's log, signed.
        *_, line = [line for line in log.text().splitlines() if '"users": [' in line and str(berta) in line]
        assert str(other) not in line
        assert await db.fetchval("select memoryd.check_log_line($1)", line)
    assert await trail(db, options(pages, "user", "nobody at all")) == []
    assert await options(pages, "user", "lund") == {
        str(berta): f"Berta Lund ({str(berta)[:8]}, last seen {today})"
    }
    # An id that was made of the name is offered as the name, which the programs use.
    assert (await options(pages, "user", "dor"))["dora"] == f"dora ({str(dora)[:8]}, last seen {today})"
    assert list(await options(pages, "user", str(dora)[:8])) == ["dora"]
    assert list(await options(pages, "user", "onerror")) == [str(evil)]
    assert await options(pages, "user", "%_\\") == {}
    assert len(await options(pages, "user")) <= names.OFFERED
    for field, wrong in (("user", "\0"), ("user", "x" * 201), ("agent", "\0")):
        await options(pages, field, wrong, status=400)


async def test_who_may_be_meant_by_a_name_is_asked(pages: Reader, db: asyncpg.Connection) -> None:
    # More users have such a name than are looked at: another may have it whole, too.
    for name in ("Kim Older", *(f"Kimberly {n}" for n in range(names.OFFERED - 1)), "Kim Newer"):
        await speaker(db, name)
    assert "choose one" in await pages.read("/memories?user=Kim", status=400)
    # A name of digits is no beginning of an id.
    customer, other = id_of("12345678"), uuid.UUID("12345678-1111-4111-8111-111111111111")
    for user in (customer, other):
        await remember(db, f"said of {user}", agent_id="clerk", user_id=user)
    said = await pages.read("/memories?user=12345678")
    assert (f"said of {customer}" in said, f"said of {other}" in said) == (True, False)


async def test_a_field_offers_agents_and_whom_one_is_named_for_is_on_record(
    pages: Reader, db: asyncpg.Connection
) -> None:
    ann, other = uuid.uuid4(), uuid.uuid4()
    await db.execute(
        "insert into agents (agent_id, named_for) "
        "values ('Vessel', null), ('a vessel', $2), ($1, null), ('of nobody asked', $3)",
        PAYLOAD,
        ann,
        other,
    )
    assert list(await options(pages, "agent", "vess")) == ["Vessel", "a vessel"]
    assert list(await options(pages, "agent", "onerror")) == [PAYLOAD]
    assert await trail(db, options(pages, "agent", "a ves")) == ONE_LOOK
    assert await trail(db, options(pages, "agent", "onerror")) == []


async def test_users_of_one_name_are_told_apart_and_found_by_another_name(
    pages: Reader, db: asyncpg.Connection
) -> None:
    first, second = await speaker(db, "Nora"), await speaker(db, "Nora")
    for user in (first, second):
        await remember(db, "sails", agent_id="skipper", user_id=user)
    said = await pages.read("/memories?agent=skipper")
    assert f"Nora ({str(first)[:8]})" in said
    assert f"Nora ({str(second)[:8]})" in said
    await speaker(db, "Nora Vik", first)
    await speaker(db, "Nonny", second)
    both = await options(pages, "user", "nora")
    assert set(both) == {str(first), str(second)}
    assert len(set(both.values())) == 2
    for words in ("vik", "VIK nora", "nora  vik", f"nora {str(first)[:8]}"):
        assert list(await options(pages, "user", words)) == [str(first)], words
    assert list(await options(pages, "user", "nonny")) == [str(second)]
    page = await pages.get("/memories?user=Nora", status=400)
    assert "Several users have this name" in text_of(page)
    assert f"{str(first)[:8]}, last seen" in text_of(page)
    assert f"{str(second)[:8]}, last seen" in text_of(page)


async def test_an_end_user_is_offered_nobody(url: str, db: asyncpg.Connection, tmp_path: Path) -> None:
    frank = await speaker(db, "Frank")
    async with served(url, tmp_path, "--as-user", str(frank)) as reader:
        for field, part in (("user", ""), ("agent", ""), ("user", "Frank"), ("user", str(frank))):
            assert await options(reader, field, part) == {}


async def test_lists_call_users_by_their_names(pages: Reader, db: asyncpg.Connection) -> None:
    gina, nameless = await speaker(db, PAYLOAD[:20] + "Gina"), uuid.uuid4()
    memory = await remember(db, "likes tea", agent_id="namer", user_id=gina)
    await remember(db, "likes coffee", agent_id="namer", user_id=nameless)
    page = await pages.get("/memories?agent=namer")
    assert "<img" not in page
    said = text_of(page)
    assert f"namer {PAYLOAD[:20]}Gina" in said
    assert f"namer {str(nameless)[:8]}" in said
    assert f"{PAYLOAD[:20]}Gina {gina}" in await pages.read(f"/memories/{memory}")
    assert f"{PAYLOAD[:20]}Gina" in await pages.read(f"/conversations?user={gina}")
    # A name beside rows belongs to the read of the rows.
    looked = await trail(db, pages.get("/memories?agent=namer"))
    assert sorted(looked, key=str) == sorted(
        [(who, "agent_memory", None, "support") for who in (gina, nameless)], key=str
    )
    assert await trail(db, pages.get(f"/memories/{memory}")) == [(gina, "agent_memory", None, "support")]


@pytest.mark.parametrize(
    "path",
    [
        "/memories?",
        "/conversations?",
        "/graph?",
        "/dreams/insights?",
        "/recall?q=tea&",
        "/context?message=buy+tea&agent=Nurse&",
    ],
)
async def test_of_nobody_a_page_says_so_and_whom_it_may_mean(
    pages: Reader, db: asyncpg.Connection, path: str
) -> None:
    hanne = await speaker(db, f"Hanne {path}")
    agent = f"nurse {path}"
    await remember(db, "nothing of this", agent_id=agent, user_id=hanne)
    page = await pages.get(f"{path}user=anne+{path[:5]}", status=400)
    assert "no such user" in text_of(page)
    assert f"user={hanne}" in page
    assert "no such user" in await pages.read(f"{path}user={uuid.uuid4()}")
    page = await pages.get(path if "agent=" in path else f"{path}agent=Nurse")
    assert "No agent of this name" in text_of(page)
    assert agent[:20] in text_of(page)
    assert "No agent" not in await pages.read(
        f"{path}agent=nurse+{quote(path)}&user={hanne}&since=2999-01-01"
    )
    assert "no such user" not in await pages.read(
        f"{path}user={hanne}&kind=causal".replace("kind=causal", "")
    )


@pytest.mark.parametrize("path", ["/memories?", "/recall?q=tea&", "/context?agent=nurse&message=tea&"])
async def test_where_nothing_is_found_a_page_says_that_memory_is_off(
    pages: Reader, db: asyncpg.Connection, path: str
) -> None:
    off = uuid.uuid4()
    await db.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", off)
    assert (await pages.read(f"{path}user={off}")).count("is switched off for") == 1


async def test_a_click_asks_the_latest_question_again(
    pages: Reader, db: asyncpg.Connection, browser: Browser
) -> None:
    await db.execute("delete from agent_commands")
    await ask(db, f"paint the {PAYLOAD} fence", agent_id="painter")
    one = await remember(db, "the fence is red", agent_id="painter")
    await associate(db, await remember(db, "the fence is green", agent_id="painter"), one, 0.9)
    browser.sign_in(pages)
    for path, shows in (("/recall", "fence is"), ("/context", "fence"), ("/graph", "links as a list")):
        browser.open(path)
        browser.press("main section li a, main ul.plain a")
        assert shows in browser.text.lower().replace("the links", "links"), path
    assert browser.complaints() == []


async def test_what_was_asked_last_reads_of_people_no_more_than_it_shows(
    pages: Reader, db: asyncpg.Connection, url: str, tmp_path: Path
) -> None:
    await db.execute("delete from agent_commands")
    ida, jon = await speaker(db, "Ida"), await speaker(db, "Jon")
    await ask(db, "of Ida", user_id=ida)
    for n in range(3):
        await ask(db, f"of nobody {n}")
    await db.execute("delete from agent_execution_logs")
    said = await pages.read("/context")
    assert "of nobody 2" in said
    assert "of Ida" not in said
    assert (
        await db.fetchval("select count(*) from agent_execution_logs where action_type = 'admin_read'") == 0
    )
    async with served(url, tmp_path, "--as-user", str(jon)) as reader:
        said = await reader.read("/recall")
        assert "Good morning" in said
        assert "of nobody" not in said


async def test_a_form_that_is_refused_keeps_what_was_typed(pages: Reader, db: asyncpg.Connection) -> None:
    memory = await remember(db, "the harbour is deep", agent_id="pilot")
    path = f"/memories/{memory}"
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    for form, says in (
        (
            {"content": "the harbour is shallow", "kind": "fact", "expires_at": "soon"},
            "expires_at is no time",
        ),
        ({"content": "the harbour is shallow", "kind": "rumour"}, "kind is one of"),
    ):
        page = (await pages.send(path, {"version": version, "do": "correct"} | form)).text
        assert form["content"] in page
        assert page.count('aria-invalid="true"') == 1
        assert page.count(says) == 2, "above, and beside the field"
        assert "the harbour is deep" in page, "what is stored is there, too"
    assert (
        await db.fetchval("select content from agent_memory where id = $1", memory) == "the harbour is deep"
    )


async def test_what_the_database_refuses_keeps_what_was_typed(pages: Reader, db: asyncpg.Connection) -> None:
    entry: dict[str, object] = {
        "title": "Berths",
        "content": "Nine",
        "category": "procedure",
        "tier": "learning",
        "created_by": "sage",
    }
    path = f"/knowledge/{await insert(db, 'shared_knowledge', entry)}"
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    typed = {"title": "Ten berths", "content": "password: hunter2hunter2", "confidence": "low"}
    answer = await pages.send(path, {"version": version, "do": "reword"} | typed)
    assert answer.status_code == 400
    assert "a password or key" in text_of(answer.text)
    assert 'value="Ten berths"' in answer.text
    assert "hunter2hunter2</textarea>" in answer.text
    assert '<option value="low" selected>' in answer.text


async def test_a_day_is_whole(pages: Reader, db: asyncpg.Connection) -> None:
    await db.execute(
        "insert into agent_memory (agent_id, content, created_at) values ('diarist', 'at noon', '2026-03-05 12:00+00')"
    )
    for query in ("until=2026-03-05", "as_of=2026-03-05", "until=9999-12-31"):
        assert "at noon" in await pages.read(f"/memories?agent=diarist&ended=yes&{query}"), query
    for query in ("until=2026-03-04", "as_of=2026-03-04", "until=2026-03-05T11:00"):
        assert "at noon" not in await pages.read(f"/memories?agent=diarist&ended=yes&{query}"), query


async def test_a_name_that_one_user_has_is_that_user(pages: Reader, db: asyncpg.Connection) -> None:
    zoe = await somebody(db, "Zoe Quist")
    short = str(zoe)[:8]
    await somebody(db, "Twin Alike")
    await somebody(db, "Twin Alike")
    for path in (
        "/memories?",
        "/conversations?",
        "/tasks?",
        "/recall?q=tea&",
        "/context?message=tea&",
        "/audit/derived?kind=user&",
    ):
        field = "id" if "derived" in path else "user"
        for name in ("Zoe Quist", "quist", f"Anything ({short})", short):
            page = await pages.get(f"{path}{field}={name.replace(' ', '+')}")
            assert str(zoe) in page, (path, name)
            if field == "user":
                assert f'name="user" value="Zoe Quist ({short})"' in page, "no bare id in the field"
        for name in ("Twin Alike", "Zoe Nobody", "(00000000)", "x" * 300, "%00"):
            said = await pages.read(f"{path}{field}={name.replace(' ', '+')}", status=400)
            assert "likes tea" not in said, (path, name)
            assert "CONTEXT" not in said
    assert "Agent: clerk" in await pages.read(f"/context?message=tea&user={zoe}"), "their agent is filled in"
    # A name that looks like an id, and one of 5 MB, in a form.
    await pages.get(f"/memories?user={str(zoe)[:-1]}", status=400)
    token = CSRF.search(await pages.get("/audit"))
    assert token is not None
    for name in ("Twin Alike", "x" * 5_000_000):
        answer = await pages.http.post("/audit", data={"csrf": token[1], "user": name})
        assert answer.status_code == 400, len(name)
