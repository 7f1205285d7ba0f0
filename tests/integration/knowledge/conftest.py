"""The databases of these tests can embed: how near texts are in meaning is what most of them are about."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.database.tokens import put_tokens_in


@pytest.fixture(scope="module")
async def shared_url(server: Server, template: str) -> AsyncIterator[str]:
    """A migrated database for the tests of one file, with the local embedder's tokens."""
    async with copied(server, template) as url:
        async with connected(url) as connection:
            await put_tokens_in(connection)
        yield url
