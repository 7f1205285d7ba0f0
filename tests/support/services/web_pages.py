"""`memoryd web` and a reader of its pages over real HTTP, that a whole module of tests can share."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.support.processes.commands import Commands

TAG = re.compile(r"<[^>]+>")
CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


class Reader:
    """Somebody who is signed in, and reads and sends as a browser does."""

    def __init__(
        self, address: str, sign_in: str, http: httpx2.AsyncClient, errors: asyncio.StreamReader
    ) -> None:
        self.address = address
        self.sign_in = sign_in
        """The URL that the command has printed; empty where it prints none."""
        self.http = http
        self.killed = False
        """Whether a test has ended it."""
        self.pid = 0
        """Of the server."""
        self.log: list[dict[str, Any]] = []
        """Since it listens; whole once it has ended."""
        self._errors = errors

    async def get(self, path: str, *, status: int = 200, **headers: str) -> str:
        """A page, as HTML."""
        answer = await self.http.get(path, headers=headers)
        assert answer.status_code == status, (path, answer.status_code, text_of(answer.text)[:500])
        return answer.text

    async def read(self, path: str, *, status: int = 200) -> str:
        """What a page says: its main part, without tags."""
        return text_of(await self.get(path, status=status))

    async def read_done(self, path: str, work: str, *, lacks: str) -> str:
        """What a page says once it has nothing more of what it says while it works: it is read again at each end of `work`."""
        while lacks in (said := await self.read(path)):
            self.log += await logged(self._errors, "web_work_done", work=work)
        return said

    async def wait_for(self, event: str, **fields: object) -> None:
        """Waits for a line of the server's log."""
        self.log += await logged(self._errors, event, **fields)

    async def send(self, path: str, form: dict[str, str], *, on: str | None = None) -> httpx2.Response:
        """Sends a form that stands on page `on` (unless given: `path`), with the hidden token of that page."""
        found = CSRF.search(await self.get(on or path))
        assert found is not None, "this page has no form"
        return await self.http.post(path, data={"csrf": found[1], **form})

    async def ask(self, path: str, **form: str) -> httpx2.Response:
        """What is answered to the form of a page that looks for something; 303 with the address of what it asks for."""
        return await self.send(f"/ask{path}", form, on="/words")


def text_of(page: str) -> str:
    """The main part of a page as people read it, on one line."""
    main = page.partition("<main")[2].partition(">")[2].partition("</main>")[0] or page
    return " ".join(html.unescape(TAG.sub(" ", main)).split())


async def logged(errors: asyncio.StreamReader, event: str, **fields: object) -> list[dict[str, Any]]:
    """Waits for such a line on the stderr of a server; all lines up to it."""
    lines: list[dict[str, Any]] = [{}]
    while not {"event": event, **fields}.items() <= lines[-1].items():
        said = await errors.readline()
        assert said, "memoryd web has ended"
        lines.append(json.loads(said))
    return lines[1:]


@asynccontextmanager
async def served(url: str, folder: Path, *options: str, **settings: Any) -> AsyncIterator[Reader]:
    """`memoryd web` with these options on a database, and a reader who has signed in by the URL that it printed."""
    process = await Commands(url, folder).start("web", "--port", "0", *options, **settings)
    assert process.stderr is not None
    assert process.stdout is not None
    *_, line = await logged(process.stderr, "web_listening")
    sign_in = ""
    if line["sign_in"] == "token":
        sign_in = (await process.stdout.readline()).decode().removeprefix("Open ").strip()
    async with httpx2.AsyncClient(base_url=line["url"], timeout=60) as http:
        reader = Reader(line["url"], sign_in, http, process.stderr)
        reader.pid = process.pid
        if sign_in:
            assert (await http.get(sign_in)).status_code == 200
        yield reader
    if process.returncode is None and not reader.killed:
        process.terminate()
        assert await process.wait() == 0
    rest = (await process.stderr.read()).decode()
    assert "Traceback" not in rest, rest
    reader.log += map(json.loads, rest.splitlines())
