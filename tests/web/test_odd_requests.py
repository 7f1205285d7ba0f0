"""Requests that no browser makes: headers that lie, addresses that lead elsewhere, ids of others."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import asyncpg
import httpx2
import pytest

from tests.support.content.hostile import FEW, USER, id_of
from tests.support.services.every_page import addresses
from tests.support.services.http import send
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ELSEWHERE = (
    "//evil.example", "/\\evil.example", "\\/evil.example", "http://evil.example", "https:evil.example", "evil.example",
    "/%09/evil.example", "/\t/evil.example", "/\n/evil.example", "/\r\nSet-Cookie: a=b", "///evil.example",
    "javascript:alert(1)", "data:text/html,x", " //evil.example", "/\u2028/evil.example", "/x;url=//evil.example\\",
)  # fmt: skip
IDS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}")


async def test_no_address_leads_elsewhere(pages: Reader) -> None:
    for path in ELSEWHERE:
        to = {"token": pages.sign_in[-43:], "next": path}
        led = re.search(r'content="0;url=([^"]*)"', (await pages.http.get("/sign-in", params=to)).text)
        assert led is not None, path
        assert httpx2.URL(pages.address).join(led[1]).host == "127.0.0.1", path
        assert led[1].startswith("/"), path
        assert not led[1].startswith(("//", "/\\")), path


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/static/%00",
        "/memories/..%2f..%2fetc", "/memories/%00", "/%2e%2e/%2e%2e/etc/passwd", "//memories", "/memories/\x7f", "/*",
        "/memories/" + "a" * 8000, "http://evil.example/memories", "/memories/" + "0" * 32,
    ],
)  # fmt: skip
async def test_a_path_that_is_no_page_is_not_found(pages: Reader, path: str) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in pages.http.cookies.items())
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    answer = await send(pages.address, request.encode("latin-1"))
    assert answer.status in (303, 307, 400, 404)
    assert "evil.example" not in str(answer.headers)
    assert "root:" not in answer.body
    assert "import" not in answer.body


async def test_what_a_proxy_is_said_to_have_said_changes_no_page(pages: Reader) -> None:
    lies = {
        "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "X-Forwarded-For": "10.0.0.1",
        "X-Original-URL": "/audit", "X-Rewrite-URL": "/audit", "X-Forwarded-Prefix": "/evil", "Forwarded": "host=evil.example",
        "X-HTTP-Method-Override": "POST", "X-Forwarded-User": "root", "X-Forwarded-Port": "1",
    }  # fmt: skip
    for path in ("/memories", "/memories/", "/nothing", "/sign-in", "/static/memoryd.css"):
        plain, lied = await pages.http.get(path), await pages.http.get(path, headers=lies)
        assert (lied.status_code, lied.text) == (plain.status_code, plain.text)
        assert "evil" not in str(lied.headers)


async def test_a_header_cannot_be_smuggled_in(pages: Reader) -> None:
    for path in (
        "/sign-in?next=/%0d%0aX-Evil:%201",
        "/nothing%0d%0aX-Evil:%201",
    ):
        for headers in ({}, {"Cookie": ""}):
            answer = await pages.http.get(path, headers=headers)
            assert "x-evil" not in answer.headers


async def test_ids_of_others_are_answered_as_ids_of_nobody(few_url: str, tmp_path: Path) -> None:
    async with served(few_url, tmp_path, "--as-user", str(uuid.uuid4())) as stranger:
        asked = [path for path in addresses() if IDS.search(path)]
        assert asked
        for path in asked:
            nobodys = IDS.sub(lambda _: str(uuid.uuid4()), path)
            of_others, of_nobody = await stranger.http.get(path), await stranger.http.get(nobodys)
            assert of_others.status_code == of_nobody.status_code, path
            assert IDS.sub("", text_of(of_others.text)) == IDS.sub("", text_of(of_nobody.text)), path
            assert "window.__xss" not in text_of(of_others.text), path


async def test_what_support_reads_of_a_user_is_on_record(few: Reader, few_url: str) -> None:
    connection = await asyncpg.connect(few_url)
    try:
        for path in addresses(n=3):
            await connection.execute("delete from agent_execution_logs where action_type = 'admin_read'")
            said = text_of(await few.get(path))
            # Of stored rows: what was asked, which is another payload, is shown too.
            shown = any(payload in said for payload in FEW[2:])
            reads = await connection.fetch(
                "select user_id from agent_execution_logs where action_type = 'admin_read'"
            )
            if shown and path.partition("?")[0] == "/users":  # names alone, among which one chooses
                assert [row["user_id"] for row in reads] == [None], path
            elif shown and not path.startswith("/knowledge"):
                assert USER in {row["user_id"] for row in reads}, path
            assert {row["user_id"] for row in reads} <= {USER, None}, path
    finally:
        await connection.close()


async def test_a_row_of_another_is_not_told_by_how_it_is_refused(few_url: str, tmp_path: Path) -> None:
    async with served(few_url, tmp_path, "--as-user", str(uuid.uuid4()), "--edit") as stranger:
        cookie = (await stranger.get("/memories")).partition('name="csrf" value="')[2][:64]
        for row in (id_of("memory"), uuid.uuid4()):
            for what in ("forget", "correct", "replace", "nothing"):
                form = {"csrf": cookie, "do": what, "version": "x", "content": "x", "kind": "fact"}
                answer = await stranger.http.post(f"/memories/{row}", data=form)
                assert answer.status_code == 404
