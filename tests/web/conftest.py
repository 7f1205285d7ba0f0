"""A database for each module, pages on it, and a browser that shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
import pytest_asyncio

from tests.support.content.hostile import write_few_rows, write_hostile_rows
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied, make_once
from tests.support.services.browser import MISSING, Browser, opened, programs
from tests.support.services.web_pages import Reader, served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(server: Server, template: str) -> AsyncIterator[str]:
    """A database for the module."""
    async with copied(server, template) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def db(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Its owner."""
    async with connected(url) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """What support sees, and may change."""
    async with served(url, tmp_path_factory.mktemp("web"), "--edit") as reader:
        yield reader


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hostile_url(server: Server, template: str) -> AsyncIterator[str]:
    """A database whose texts are the payloads of an attacker."""
    name = f"{template}_hostile"
    await make_once(server, name, write_hostile_rows, source=template)
    async with copied(server, name) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def few_url(server: Server, template: str) -> AsyncIterator[str]:
    """A database with a row for each page, and few more."""
    name = f"{template}_few"
    await make_once(server, name, write_few_rows, source=template)
    async with copied(server, name) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def few(few_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """Its pages."""
    async with served(few_url, tmp_path_factory.mktemp("few"), "--edit") as reader:
        yield reader


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hostile(hostile_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """Its pages."""
    async with served(hostile_url, tmp_path_factory.mktemp("hostile"), "--edit") as reader:
        yield reader


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser of this process."""
    found = programs()
    if found is None:
        pytest.skip(MISSING)
    with opened(*found, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Browser:
    """The browser, wide and light, with nothing to complain of."""
    one_browser.look()
    one_browser.complaints()
    one_browser.requested()
    return one_browser
