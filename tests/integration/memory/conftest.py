"""A language model that answers as a test says, for what reads messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from daemon.db.pool import Database
from tests.support.content.fact_chat import Chat
from tests.support.processes.dreamers import Log
from tests.support.services.openai_server import OpenAIServer


@pytest.fixture
def provider() -> Iterator[OpenAIServer]:
    """Its server."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    """What is logged; the models that were made are closed at the end."""
    log = Log()
    yield log
    for model in log.models:
        await model.close()


@pytest.fixture
def chat(database: Database, provider: OpenAIServer, log: Log) -> Chat:
    """A conversation that the model reads."""
    return Chat(database, provider, log)
