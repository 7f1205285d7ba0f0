"""memoryd mcp where the MCP SDK is not installed."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from daemon.cli.app import app


def test_it_says_what_installs_it_where_memoryd_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    ended = CliRunner().invoke(app, ["mcp", "--agent", "alice"])
    assert ended.exit_code == 1
    said, _, command = " ".join(ended.output.split()).partition(": ")
    assert "memoryd mcp needs the extra mcp of memoryd, which is not installed" in said
    # Another program has the name memoryd in the index.
    assert "memoryd" not in shlex.split(command)[1:]
    # Here all is there.
    tried = subprocess.run(
        [*shlex.split(command), "--no-index", "--dry-run"], capture_output=True, text=True, check=False
    )
    assert tried.returncode == 0, tried.stderr
    assert "Requirement already satisfied: mcp" in tried.stdout
