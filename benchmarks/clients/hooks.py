"""What a coding agent waits for at its events: `memoryd hook` as a program of its own, milliseconds of whole calls and of their
processor time, which a busy machine changes little.

    python -m benchmarks.clients.hooks --data commands.jsonl --calls 1000 --memories 2000

Beside a running daemon, with so many memories of the same agent and project. Then hooks are killed at any moment of theirs, and
what the calls before and after them had noted is counted in the database.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import asyncpg
import psutil

from benchmarks.harness import Figures, Times, command, daemon, until_idle
from benchmarks.load.pipeline import tasks
from plugins.hooks.libpq import library

REMEMBERED = """
insert into agent_memory (agent_id, kind, content, metadata, created_at)
select 'coding', 'outcome', content, jsonb_build_object('project', $2::text), now() - make_interval(secs => 60 * n)
from unnest($1::text[]) with ordinality as t(content, n)
"""
STORED = "select count(*) from agent_memory where source = 'claude-code'"
PROGRAM = [str(Path(sys.executable).with_name("memoryd")), "hook"]
SAID = "It is done: all tests pass on both versions, the documentation says so, and the change waits for a second pair of eyes."


class Calls:
    """Calls of hooks, with a home of their own."""

    def __init__(self, folder: Path, url: str) -> None:
        (folder / "memoryd").mkdir()
        config = {"url": url, "agent": "coding", "libpq": library(url)}
        (folder / "memoryd/hooks.json").write_text(json.dumps(config))
        self._folder = folder
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "XDG_CONFIG_HOME": str(folder),
            "XDG_STATE_HOME": str(folder),
            "HOME": "/",
        }

    def start(self, event: str, **given: str) -> subprocess.Popen[bytes]:
        """A hook that has been told."""
        said = json.dumps({"cwd": str(self._folder)} | given)
        process = subprocess.Popen(
            [*PROGRAM, event], env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(said.encode())
        process.stdin.close()
        return process

    def timed(self, times: Times, event: str, **given: str) -> None:
        """A whole call, and the processor time in it."""
        with times.of(event):
            process = self.start(event, **given)
            _, process.returncode, used = os.wait4(process.pid, 0)
        assert process.returncode == 0
        times.add(f"{event}_cpu", used.ru_utime + used.ru_stime)


def sessions(calls: Calls, prompts: Sequence[str], pause: float) -> Times:
    """A session for each prompt."""
    times = Times()
    for n, prompt in enumerate(prompts):
        time.sleep(pause)
        for event, given in (
            ("UserPromptSubmit", {"prompt": prompt}),
            ("PostToolUse", {"tool_name": "Bash", "tool_input": json.dumps({"command": "make test"})}),
            ("Stop", {"last_assistant_message": SAID}),
        ):
            calls.timed(times, event, session_id=f"s{n}", **given)
    return times


def killed(calls: Calls, number: int) -> None:
    """As many whole turns, and between them hooks that are killed."""
    times = Times()
    for n in range(number):
        session = f"k{n}"
        calls.timed(times, "UserPromptSubmit", session_id=session, prompt="thanks a lot")
        calls.timed(times, "Stop", session_id=session, last_assistant_message=SAID)
        process = calls.start("Stop", session_id=session, last_assistant_message=SAID + " Really.")
        time.sleep(random.uniform(0, 0.07))
        process.kill()
        process.wait()
    calls.timed(times, "Stop", session_id="k0", last_assistant_message=SAID)


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    calls: int = 1000,
    memories: Annotated[int, "of the agent, in the project"] = 2000,
    kills: int = 100,
    pause: Annotated[float, "seconds before each prompt"] = 0.0,
    data: Annotated[Path | None, "tasks, one JSON object a line; without it texts are made up"] = None,
) -> Figures:
    """All figures."""
    rows = tasks(data, 1, 0)
    with tempfile.TemporaryDirectory() as made:
        hooks = Calls(Path(made), url)
        async with daemon(url):
            remembered = [f"{row[1]}\n{row[2][-500:]}" for row in rows[:memories]]
            await connection.execute(REMEMBERED, remembered, made)
            await until_idle(connection)
            prompts = [row[1] for row in rows[-max(1, calls // 3) :]]
            times = await asyncio.to_thread(sessions, hooks, prompts, pause)
            before = await connection.fetchval(STORED)
            await asyncio.to_thread(killed, hooks, kills)
            after = await connection.fetchval(STORED)
        running = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
        spooled = len(list((Path(made) / "memoryd/hooks/spool").iterdir()))
    return {
        **times.figures(),
        "load": round(os.getloadavg()[0], 1),
        "processes_left": sum("memoryd hook" in line for line in running),
        "turns_lost_in_kills": kills - (after - before),
        "spool_left": spooled,
    }


if __name__ == "__main__":
    command(__doc__, measure)
