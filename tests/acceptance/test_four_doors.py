"""Each of the README's four doors by itself: what a newcomer pastes there works on a new database, word for word."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess, environment
from tests.support.repository import ROOT
from tests.support.rows import ask
from tests.support.waiting import IDLE, until

SECONDS = 120
README = (ROOT / "README.md").read_text("utf-8")
CLAUDE = """#!/bin/sh
test "$ANTHROPIC_API_KEY" = sk-of-a-test || exit 3
test "$1" = -p && cat && echo 'The staging server is deployed.'
"""

Pasted = Callable[[str], AbstractAsyncContextManager[asyncio.subprocess.Process]]


def door(title: str, language: str) -> str:
    """What a door's examples in this language say."""
    (text,) = re.findall(rf"^### {title}\n(.*?)(?=^##)", README, re.DOTALL | re.MULTILINE)
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL))


@pytest.fixture
def pasted(database_url: str, tmp_path: Path) -> Pasted:
    """Pastes lines into a shell of somebody new, whose PATH has memoryd and a `claude`; ended at the end."""
    (tmp_path / "bin").mkdir()
    claude = tmp_path / "bin/claude"
    claude.write_text(CLAUDE)
    claude.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}

    @asynccontextmanager
    async def start(lines: str) -> AsyncIterator[asyncio.subprocess.Process]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", f"set -e\n{lines}",
            env=environment(database_url, {}) | homes | {"PATH": path, "ANTHROPIC_API_KEY": "sk-of-a-test"},
            cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                os.killpg(process.pid, 15)
            await process.wait()

    return start


@pytest.fixture
def psql(database_url: str, tmp_path: Path) -> Callable[[str], Any]:
    """What `memoryd psql` answers to what is pasted."""

    async def answer(statements: str) -> str:
        done = await Commands(database_url, tmp_path)(
            "psql", "--no-psqlrc", "--quiet", stdin=statements.encode()
        )
        assert (done.code, done.err) == (0, "")
        return done.out

    return answer


async def test_a_chatbot(tokens: None, daemon: DaemonProcess, psql: Callable[[str], Any]) -> None:
    out = await psql(door("A chatbot", "sql"))
    found = re.findall(r"^ conversation +\| (.*?) +\|", out, re.MULTILINE)
    assert found[0] == "My sister Anna moved to Lisbon last week."
    assert re.search(r"^ Mia +\| She loves the trams, not the hills\.$", out, re.MULTILINE)


async def test_a_coding_agent(
    tokens: None, connection: asyncpg.Connection, daemon: DaemonProcess, pasted: Pasted, tmp_path: Path
) -> None:
    async with pasted(door("A coding agent", "sh")) as install:
        _, err = await asyncio.wait_for(install.communicate(), SECONDS)
        assert install.returncode == 0, err
    hooks = json.loads((tmp_path / ".claude/settings.json").read_text())["hooks"]

    async def tell(event: str, **said: str) -> str:
        """What the host's agent is told at an event, by the command that its settings have."""
        ((command,),) = [[h["command"] for h in entry["hooks"]] for entry in hooks[event]]
        async with pasted(command) as hook:
            given = json.dumps({"cwd": str(tmp_path), "hook_event_name": event} | said).encode()
            out, err = await asyncio.wait_for(hook.communicate(given), SECONDS)
            assert (hook.returncode, err) == (0, b"")
            return out.decode()

    rule = "Remember: in this repo releases are tagged before they are published."
    await tell("UserPromptSubmit", session_id="monday", prompt=rule)
    await tell("Stop", session_id="monday", last_assistant_message="I will tag before I publish.")
    await until(connection, IDLE)
    told = await tell("UserPromptSubmit", session_id="tuesday", prompt="How do we publish a release?")
    assert "releases are tagged before they are published" in told


async def test_a_fleet_of_agents(
    tokens: None, connection: asyncpg.Connection, pasted: Pasted, psql: Callable[[str], Any]
) -> None:
    async with pasted(door("A fleet of agents", "sh")) as run:
        command = await ask(connection, "deploy the staging server")
        await until(
            connection, "select status in ('completed', 'failed') from agent_commands where id = $1", command
        )
        row = await connection.fetchrow("select exit_code, output from agent_commands where id = $1", command)
        assert row is not None
        assert (row["exit_code"], row["output"].splitlines()[-1]) == (0, "The staging server is deployed.")
        assert "deploy the staging server" in row["output"]
        assert re.search(
            r"^ knowledge +\| Tag first", await psql(door("A fleet of agents", "sql")), re.MULTILINE
        )
        assert run.returncode is None


async def test_whoever_runs_it(daemon: DaemonProcess, pasted: Pasted) -> None:
    status, web = door("Whoever runs it", "sh").strip().splitlines()
    async with pasted(status) as shown:
        out, err = await asyncio.wait_for(shown.communicate(), SECONDS)
        assert (shown.returncode, err) == (0, b"")
        assert b"The queue is empty." in out
    # A free port: another's pages may have the usual one.
    async with pasted(web.replace("memoryd web", "exec memoryd web --port 0")) as pages:
        assert pages.stdout is not None
        url = (
            (await asyncio.wait_for(pages.stdout.readline(), SECONDS)).decode().removeprefix("Open ").strip()
        )
        async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as http:
            page = await http.get(url)
        assert (page.status_code, "<h1" in page.text) == (200, True)
