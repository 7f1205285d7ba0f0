"""What somebody who cannot sign in can do to those who can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import httpx2
import pytest
import pytest_asyncio

from plugins.operate.asgi import MOST_CLIENTS
from tests.support.services import http
from tests.support.services.web_pages import Reader, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD = "correct horse battery"
FORM = b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """Pages behind a password, and somebody who does not know it."""
    folder = tmp_path_factory.mktemp("door")
    (folder / "password").write_text(PASSWORD + "\n")
    async with served(url, folder, "--password-file", str(folder / "password")) as reader:
        yield reader
    assert [line for line in reader.log if line["level"] == "error"] == []


async def signs_in(door: Reader, **headers: str) -> int:
    """The status of the answer to the right password."""
    async with httpx2.AsyncClient(base_url=door.address) as browser:
        return (await browser.post("/sign-in", data={"password": PASSWORD}, headers=headers)).status_code


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Referer": "http://evil.example/"},
        {"Referer": "http://127.0.0.1.evil.example/"}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {},
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["token", "password"])
async def test_what_another_site_makes_browsers_ask_for_keeps_nobody_out(
    door: Reader, field: str, headers: dict[str, str]
) -> None:
    for method in ("GET", "HEAD", "GET", "GET", "GET", "GET"):
        answer = await door.http.request(method, f"/sign-in?{field}=x", headers=headers)
        assert (answer.status_code, answer.headers.get("set-cookie")) == (200, None)
    right = await door.http.get(f"/sign-in?{field}={PASSWORD}", headers=headers)
    assert right.headers.get("set-cookie") is None, "a password is in no link"
    if headers:
        for _ in range(6):
            sent = await door.http.post("/sign-in", data={field: "x"}, headers=headers)
            assert sent.status_code == 403
    assert await signs_in(door) == 200


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Referer": "http://evil.example/a"}])
async def test_the_link_with_the_token_counts_from_no_other_site(
    pages: Reader, headers: dict[str, str]
) -> None:
    async with httpx2.AsyncClient() as browser:
        assert (await browser.get(pages.sign_in, headers=headers)).headers.get("set-cookie") is None
        for _ in range(6):
            await browser.get(pages.sign_in[:-1], headers=headers)
            # As a browser sends it that is old, for a page that asks for no referrer.
            assert (await browser.get(pages.sign_in[:-1])).status_code == 401
        own = {"Sec-Fetch-Site": "same-origin", "Referer": pages.address + "sign-in"}
        for opened in ({"Sec-Fetch-Site": "none"}, own, {}):
            assert "set-cookie" in (await browser.get(pages.sign_in, headers=opened)).headers


@pytest.mark.parametrize("path", ["/sign-in", "/sign-in?next=/audit", "/static/memoryd.css"])
async def test_a_sign_in_has_four_kilobytes(door: Reader, path: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"password=" + b"%41" * 2000, b"password=" + b"%41" * 11_000_000, b"a" * 4097):
        assert (await door.http.post(path, content=body, headers=form)).status_code == 413
    rest = b"&password=" + PASSWORD.encode().replace(b" ", b"+")
    body = b"next=" + b"/" * (4096 - len(b"next=") - len(rest)) + rest
    fits = await door.http.post(path, content=body, headers=form)
    assert (len(body), fits.status_code) == (4096, 405 if "static" in path else 200)


async def test_clients_that_are_silent_give_way_to_those_that_ask(door: Reader) -> None:
    half = FORM.replace(b"POST", b"GET")
    began = [await http.connected(door.address) for _ in range(MOST_CLIENTS)]
    for _, writer in began[::2]:
        writer.write(half)
    for _, writer in began[1::4]:
        writer.write(FORM + b"Content-Length: 99\r\n\r\npassword=")
    await asyncio.gather(*(writer.drain() for _, writer in began))
    more = [await http.connected(door.address) for _ in range(8)]
    assert await signs_in(door) == 200
    async with asyncio.timeout(60):
        for reader in [reader for n, (reader, _) in enumerate(began) if n % 4 != 1][:8]:
            assert await reader.read() == b"", "those that have waited longest, and sent no body"
    for _, writer in began + more:
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"password=", b"password=" + b"a" * 4000])
async def test_who_leaves_half_way_is_no_error_of_ours(door: Reader, sent: bytes) -> None:
    _, writer = await http.connected(door.address)
    writer.write(FORM + b"Content-Length: 4096\r\n\r\n" + sent)
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert await signs_in(door) == 200


@pytest.mark.parametrize("said", ["root, Mia", "root,Mia", ",Mia", "Mia,"])
async def test_two_names_that_a_proxy_joins_are_nobody(url: str, proxied: Reader, said: str) -> None:
    assert (await proxied.http.get("/memories", headers={"X-User": said})).status_code == 401
    assert (await proxied.http.get("/memories", headers={"X-User": "Mia"})).status_code == 200


@pytest.mark.parametrize("dest", ["image", "iframe", "empty", "script", "style", "object"])
async def test_no_other_site_makes_a_reader_read(proxied: Reader, db: asyncpg.Connection, dest: str) -> None:
    """The proxy knows the browser, whoever has sent it: the record would say that its user has read."""
    looked = "select count(*) from agent_execution_logs where action_type = 'admin_read'"
    before = await db.fetchval(looked)
    for site in ("cross-site", "same-site"):
        by = {"X-User": "Mia", "Sec-Fetch-Site": site, "Sec-Fetch-Dest": dest}
        assert (await proxied.http.get("/memories", headers=by)).status_code == 403
    assert await db.fetchval(looked) == before
    for site, its in (("cross-site", "document"), ("same-origin", dest), ("none", "document")):
        by = {"X-User": "Mia", "Sec-Fetch-Site": site, "Sec-Fetch-Dest": its}
        assert (await proxied.http.get("/memories", headers=by)).status_code == 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxied(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """Pages behind a proxy that says who asks."""
    async with served(url, tmp_path_factory.mktemp("proxied"), "--proxy-user-header", "X-User") as reader:
        yield reader


async def test_a_cookie_is_for_tls_alone_where_a_proxy_ends_it(door: Reader) -> None:
    for said, secure in (
        ("https", True),
        ("https, http", True),
        ("http,https", True),
        ("http", False),
        ("", False),
    ):
        answer = await door.http.post(
            "/sign-in", data={"password": PASSWORD}, headers={"X-Forwarded-Proto": said}
        )
        assert ("secure" in answer.headers["set-cookie"].lower()) is secure
