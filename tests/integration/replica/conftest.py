"""A server that speaks Drive v3, for the tests of the replica in Google Drive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.drive_server import DriveServer


@pytest.fixture
def drive_server() -> Iterator[DriveServer]:
    """An empty folder in Drive, shared with the account."""
    with DriveServer() as server:
        yield server
