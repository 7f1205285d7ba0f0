"""What the isolation tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.access.caller import Place, open_place
from tests.support.database.supabase import Project, a_project


@pytest.fixture(scope="module")
async def place(shared_url: str) -> AsyncIterator[Place]:
    """The world of tests/support/access/isolation.py, and a caller in it."""
    async with open_place(shared_url) as made:
        yield made


@pytest.fixture(scope="session")
def project() -> Iterator[Project]:
    """A Supabase project with memoryd in it, for all files: each test minds its own users, or cleans up before."""
    with a_project() as made:
        yield made
