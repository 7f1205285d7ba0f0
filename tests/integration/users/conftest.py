"""What the isolation tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.place import Place, open_place


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(shared_url: str) -> AsyncIterator[Place]:
    """The world of tests/support/isolation.py, and a caller in it."""
    async with open_place(shared_url) as made:
        yield made
