"""A coding agent with hooks, on a database with a running daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.coding_agent import CodingAgent
from tests.support.processes.daemons import Daemons


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A database with a running daemon, for the module."""
    async with copied(server, template) as made:
        daemons = Daemons(made, tmp_path_factory.mktemp("daemon"))
        await daemons.start()
        yield made
        await daemons.kill_all()


@pytest.fixture
def agent() -> str:
    """An agent of the test's own."""
    return f"coding-{uuid4().hex[:8]}"


@pytest.fixture
def claude(tmp_path: Path, url: str, agent: str, request: pytest.FixtureRequest) -> CodingAgent:
    """Claude Code, with hooks that take as many seconds as the test's file allows them, else as in life."""
    made = CodingAgent.at(tmp_path, url, agent=agent)
    return replace(made, limit=getattr(request.module, "LIMIT", None))
