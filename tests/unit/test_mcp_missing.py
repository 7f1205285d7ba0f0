"""memoryd mcp where the MCP SDK is not installed."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from daemon.cli.app import app


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    ended = CliRunner().invoke(app, ["mcp", "--agent", "alice"])
    assert ended.exit_code == 1
    assert "pipx install --force '.[mcp]'" in ended.output
