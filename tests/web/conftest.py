"""A database for each module, and pages on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
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
