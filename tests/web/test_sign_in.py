"""Who gets in, and which forms are heard."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import httpx2
import pytest

from tests.support.processes.commands import Commands
from tests.support.rows import remember
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGES = (
    "/", "/memories", "/recall", "/context", "/graph", "/graph/data", "/conversations", "/documents", "/knowledge",
    "/knowledge/decisions", "/dreams", "/trail", "/audit",
)  # fmt: skip


async def test_without_a_session_nothing_is_shown(pages: Reader, db: asyncpg.Connection) -> None:
    await remember(db, "the gate code is 4711")
    assert "4711" in await pages.read("/memories")
    async with httpx2.AsyncClient(base_url=pages.address) as stranger:
        for path in PAGES:
            answer = await stranger.get(path + "?x=1")
            assert (answer.status_code, answer.headers["location"]) == (303, f"/sign-in?next={path}%3Fx%3D1")
            assert "4711" not in answer.text
            htmx = await stranger.get(path, headers={"HX-Request": "true"})
            assert (htmx.status_code, htmx.headers["hx-redirect"]) == (401, f"/sign-in?next={path}")
            sent = await stranger.post(path, data={"content": "x"})
            assert sent.status_code == 401
        wrong = await stranger.get("/sign-in?token=" + "x" * 43)
        assert wrong.status_code == 401
        assert not wrong.cookies


async def test_every_answer_forbids_frames_scripts_and_copies(pages: Reader) -> None:
    for path in ("/memories", "/sign-in", "/static/memoryd.css", "/nothing", "/memories/x"):
        headers = (await pages.http.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert ("no-store" in headers["cache-control"]) is not path.startswith("/static")


async def test_a_form_of_another_site_is_refused(pages: Reader, db: asyncpg.Connection) -> None:
    row = await remember(db, "the ladder is behind the shed")
    path, form = f"/memories/{row}", {"do": "forget", "version": "x"}
    token = (await pages.get(path)).partition('name="csrf" value="')[2][:64]
    refused = [
        ({}, form), ({}, form | {"csrf": ""}), ({}, form | {"csrf": "0" * 64}),
        ({"Origin": "http://evil.example"}, form | {"csrf": token}),
        *(({"Origin": origin}, form | {"csrf": token}) for origin in (
            "null", "", "http://[", "http://evil@127.0.0.1", pages.address, pages.address.replace("http://", "http://evil@"),
            pages.address.rstrip("/") + ".evil.example")),
        ({"Referer": "http://evil.example/"}, form | {"csrf": token}),
        ({"Sec-Fetch-Site": "cross-site"}, form | {"csrf": token}),
    ]  # fmt: skip
    for headers, sent in refused:
        assert (await pages.http.post(path, data=sent, headers=headers)).status_code == 403
    assert await db.fetchval("select count(*) from agent_memory where id = $1", row) == 1


async def test_the_server_is_called_by_its_own_names_only(pages: Reader) -> None:
    for host in (
        "evil.example", "127.0.0.1.evil.example", "", "[", "localhost@evil.example", "evil@127.0.0.1", "evil:x@localhost",
        "127.0.0.1:evil.example", "127.0.0.1/evil", "localhost?evil", "localhost#evil", "localhost\\evil", "127.0.0.1, evil",
        "localhost]", "[::1", "[127.0.0.1]:", "::1",
    ):  # fmt: skip
        assert (await pages.http.get("/memories", headers={"Host": host})).status_code in (400, 421)
    assert (await pages.http.get("/memories", headers={"Host": "LOCALHOST:1"})).status_code == 200


async def test_a_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(pages: Reader) -> None:
    async with httpx2.AsyncClient() as http:
        answer = await http.get(pages.sign_in + "&next=//evil.example/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "evil.example" not in answer.text
    token = pages.sign_in.partition("token=")[2]
    assert token not in answer.text


async def test_who_signs_out_is_out(pages: Reader) -> None:
    async with httpx2.AsyncClient(base_url=pages.address) as http:
        await http.get(pages.sign_in)
        token = (await http.get("/memories")).text.partition('name="csrf" value="')[2][:64]
        cookies = dict(http.cookies)
        assert (await http.post("/sign-out", data={"csrf": token})).status_code == 303
        async with httpx2.AsyncClient(base_url=pages.address, cookies=cookies) as again:
            assert (await again.get("/memories")).status_code == 303


async def test_guessing_a_password_is_slow_and_a_right_one_lets_in(url: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("correct horse battery\n")
    async with served(url, tmp_path, "--password-file", str(file), "--listen", "0.0.0.0") as reader:
        http = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{httpx2.URL(reader.address).port}")
        async with http:
            ok = await http.post("/sign-in", data={"password": "correct horse battery"})
            assert ok.status_code == 200
            assert (await http.get("/memories")).status_code == 200
            tries = [await http.post("/sign-in", data={"password": f"wrong {n}"}) for n in range(7)]
            assert [t.status_code for t in tries] == [401] * 4 + [429] * 3
            assert (
                await http.post("/sign-in", data={"password": "correct horse battery"})
            ).status_code == 429
            assert (await http.get("/memories")).status_code == 200, "who is in stays in"


async def test_a_proxy_says_who_asks_and_the_trail_has_the_name(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    user = await db.fetchval("select gen_random_uuid()")
    await remember(db, "prefers the window seat", user_id=user)
    async with served(url, tmp_path, "--proxy-user-header", "X-Forwarded-User") as reader:
        assert (await reader.http.get("/memories")).status_code == 401
        said = await reader.http.get(f"/memories?user={user}", headers={"X-Forwarded-User": "Mia Berg"})
        assert "window seat" in said.text
    reads = await db.fetch(
        "select input_data::jsonb ->> 'name' as name from agent_execution_logs "
        "where user_id = $1 and action_type = 'admin_read'",
        user,
    )
    assert {row["name"] for row in reads} == {"Mia Berg"}


async def test_a_name_is_believed_from_the_proxy_alone(url: str, tmp_path: Path) -> None:
    options = (
        "--proxy-user-header",
        "X-User",
        "--proxy-address",
        "127.0.0.2",
        "--proxy-address",
        "10.0.0.0/8",
    )
    async with served(url, tmp_path, *options) as around:
        refused = await around.http.get(
            "/memories", headers={"X-User": "Mia", "X-Forwarded-For": "127.0.0.2"}
        )
        assert refused.status_code == 403
        assert "answers only its proxy" in refused.text
        proxy = httpx2.AsyncHTTPTransport(local_address="127.0.0.2")
        async with httpx2.AsyncClient(base_url=around.address, transport=proxy) as http:
            assert (await http.get("/memories", headers={"X-User": "Mia"})).status_code == 200
            # One is the browser's, to which a proxy has added its own.
            two = await http.get("/memories", headers=[("X-User", "root"), ("X-User", "Mia")])
            assert two.status_code == 401


async def test_who_writes_for_longer_than_the_session_lasts_keeps_the_text(
    pages: Reader, db: asyncpg.Connection
) -> None:
    row = await remember(db, "the key hangs by the door")
    async with httpx2.AsyncClient(base_url=pages.address) as http:
        lost = await http.post(f"/memories/{row}", data={"do": "correct", "content": "typed for an hour"})
    assert lost.status_code == 401
    assert "go back here" in text_of(lost.text)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--listen", "0.0.0.0"), 2, "--password-file"),
        (("--password-file", "/dev/null"), 1, "fewer than 12"),
        (("--password-file", "x", "--proxy-user-header", "X-User"), 2, "two ways"),
        (("--proxy-user-header", "X-User", "--proxy-address", "10.0.0.5/8"), 2, "has host bits set"),
    ],
)
async def test_a_wrong_call_says_what_to_do(
    url: str, tmp_path: Path, options: tuple[str, ...], code: int, says: str
) -> None:
    ended = await asyncio.wait_for(Commands(url, tmp_path)("web", *options), 60)
    assert ended.code == code
    assert says in ended.err
