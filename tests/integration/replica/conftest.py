"""Replicas for tests: in a folder of this machine, and in Google Drive, whose part a server plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.db.pool import Database
from tests.support.drive.server import DriveServer
from tests.support.replica.passes import Replicated


@pytest.fixture
def drive_server() -> Iterator[DriveServer]:
    """An empty folder in Drive, shared with the account."""
    with DriveServer() as server:
        yield server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the replica is."""
    return tmp_path / "replica"


@pytest.fixture
async def replicated(root: Path, database: Database) -> Replicated:
    """An empty replica."""
    made = Replicated(root, database)
    await made.settle()
    return made
