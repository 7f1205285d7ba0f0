"""memoryd mcp where the MCP SDK is not installed, and every other command without it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from daemon.cli.app import app


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    ended = CliRunner().invoke(app, ["mcp", "--agent", "alice"])
    assert ended.exit_code == 1
    assert "pipx install --force '.[mcp]'" in ended.output


def test_the_command_line_is_there_without_it() -> None:
    code = "import sys, daemon.cli.app; sys.exit(bool({'mcp', 'mcp_types'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
