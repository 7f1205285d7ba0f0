"""Makes the screenshots of docs/web.md: made-up data (docs/screenshots.sql), a daemon, the pages in Chromium.

    python -m docs.screenshots              # into docs/web/
    python -m docs.screenshots --to /tmp/x

Needs Chromium and chromedriver, and the packages for development.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import tempfile
from hashlib import md5
from pathlib import Path
from urllib.parse import urlencode
from uuid import UUID

import asyncpg
from PIL import Image

from benchmarks.harness import daemon, embedded, wait_for
from plugins.web.app import PAGES
from tests.support.services.browser import MISSING, SCREEN, TELEPHONE, Browser, opened, programs
from tests.support.services.web_pages import served

FOLDER = Path(__file__).parent
HEIGHT, COLOURS = 900, 96
IDLE = "select not exists (select from memoryd.jobs)"
DREAM = "insert into memory_requests (kind) values ('dream') returning id"
ANSWERED = "select status <> 'pending' from memory_requests where id = $1"
TASK = "select id from agent_commands where context <> '' limit 1"
ON_A_TELEPHONE = ("memories", "task")
"""Also as a telephone shows them in the dark."""
MEMORY = "select superseded_by from agent_memory where superseded_by is not null limit 1"


def person(name: str) -> str:
    """The id of somebody, as the SQL makes it."""
    return str(UUID(md5(f"screenshots {name}".encode(), usedforsecurity=False).hexdigest()))


def shots(memory: object, task_id: object) -> dict[str, str]:
    """The name of each file, and the page that it shows."""
    asked = {"q": "when does the oak kitchen come to Bergen", "user": person("mia")}
    task = {"agent": "planner", "message": "plan the delivery of the oak kitchen to Bergen"}
    return {
        "memories": "/memories",
        "memory": f"/memories/{memory}",
        "recall": f"/recall?{urlencode(asked)}",
        "context": f"/context?{urlencode(task)}",
        "graph": f"/graph?{urlencode({'agent': 'planner'})}",
        "knowledge": "/knowledge",
        "task": f"/tasks/{task_id}",
        "user": f"/users/{person('mia')}",
        "trail": "/trail",
        "now": "/",
    }


def take(browser: Browser, path: str, file: Path, *, width: int = SCREEN, dark: bool = False) -> None:
    """One file, of few colours: as small as it can be."""
    browser.look(width=width, dark=dark)
    browser.tell("Emulation.setScrollbarsHidden", hidden=True)
    browser.open(path)
    browser.driver.set_window_size(width, HEIGHT)
    browser.until("return !document.body.innerText.includes('It is looking')")
    picture = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    picture.quantize(COLOURS).save(file, optimize=True)


async def fill(url: str) -> dict[str, str]:
    """Writes the data and waits until all is indexed and dreamt; answers the pages."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute((FOLDER / "screenshots.sql").read_text("utf-8"))
        await wait_for(connection, IDLE, pause=0.2)
        asked = await connection.fetchval(DREAM)
        await wait_for(connection, ANSWERED, asked, pause=0.2)
        return shots(await connection.fetchval(MEMORY), await connection.fetchval(TASK))
    finally:
        await connection.close()


async def make(url: str, browser: Browser, folder: Path, to: Path) -> None:
    """All of them."""
    there = {route.path.split("/")[1] for page in PAGES for route in page}
    async with daemon(url), served(url, folder, "--edit") as reader:
        pages = await fill(url)
        browser.sign_in(reader)
        for name, path in pages.items():
            if path.split("?")[0].split("/")[1] in there:
                take(browser, path, to / f"{name}.png")
                if name in ON_A_TELEPHONE:
                    take(browser, path, to / f"{name}-telephone.png", width=TELEPHONE, dark=True)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=FOLDER / "web")
    to: Path = parser.parse_args().to
    to.mkdir(parents=True, exist_ok=True)
    found = programs()
    if found is None:
        raise SystemExit(f"docs.screenshots {MISSING}")
    with (
        embedded() as server,
        tempfile.TemporaryDirectory() as folder,
        opened(*found, Path(folder)) as browser,
    ):
        asyncio.run(make(server.socket_url, browser, Path(folder), to))
    return 0


if __name__ == "__main__":
    sys.exit(main())
