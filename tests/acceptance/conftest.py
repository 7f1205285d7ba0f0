"""The `memoryd` command, on the database of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.commands import Commands


@pytest.fixture
def memoryd(database_url: str, tmp_path: Path) -> Commands:
    """Runs commands on the migrated database."""
    return Commands(database_url, tmp_path)
