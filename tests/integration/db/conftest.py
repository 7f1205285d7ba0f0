"""Databases of before."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.first_edition import first_edition
from tests.support.servers import Server


@pytest.fixture
async def old_url(server: Server, template: str) -> AsyncIterator[str]:
    """A database of the first edition."""
    async with first_edition(server, template) as url:
        yield url
