"""One parser for the tests of a file: its child process reads all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from plugins.documents.parsing.parser import ChildParser
from plugins.documents.ports import Parser


@pytest.fixture(scope="module")
async def parser() -> AsyncIterator[Parser]:
    """As the daemon has it."""
    made = ChildParser()
    yield made
    await made.close()
