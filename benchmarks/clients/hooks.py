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
from typing import Any

import asyncpg
import psutil

from benchmarks.harness import arguments, daemon, database, percentiles, report, wait_for
from benchmarks.load.pipeline import tasks
from plugins.hooks.libpq import library

REMEMBERED = """
insert into agent_memory (agent_id, kind, content, metadata, created_at)
select 'coding', 'outcome', content, jsonb_build_object('project', $2::text), now() - make_interval(secs => 60 * n)
from unnest($1::text[]) with ordinality as t(content, n)
"""
INDEXED = "select not exists (select from memoryd.jobs)"
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

    def timed(self, event: str, **given: str) -> tuple[float, float]:
        """Seconds of a whole call, and of processor time in it."""
        began = time.perf_counter()
        process = self.start(event, **given)
        _, process.returncode, used = os.wait4(process.pid, 0)
        assert process.returncode == 0
        return time.perf_counter() - began, used.ru_utime + used.ru_stime


def sessions(calls: Calls, prompts: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Seconds by event."""
    took: dict[str, list[tuple[float, float]]] = {}
    for n, prompt in enumerate(prompts):
        session = f"s{n}"
        for event, given in (
            ("UserPromptSubmit", {"prompt": prompt}),
            ("PostToolUse", {"tool_name": "Bash", "tool_input": json.dumps({"command": "make test"})}),
            ("Stop", {"last_assistant_message": SAID}),
        ):
            took.setdefault(event, []).append(calls.timed(event, session_id=session, **given))
    return took


def killed(calls: Calls, number: int) -> None:
    """As many whole turns, and between them hooks that are killed."""
    for n in range(number):
        session = f"k{n}"
        calls.timed("UserPromptSubmit", session_id=session, prompt="thanks a lot")
        calls.timed("Stop", session_id=session, last_assistant_message=SAID)
        process = calls.start("Stop", session_id=session, last_assistant_message=SAID + " Really.")
        time.sleep(random.uniform(0, 0.07))
        process.kill()
        process.wait()
    calls.timed("Stop", session_id="k0", last_assistant_message=SAID)


async def measure(
    url: str, rows: list[tuple[Any, ...]], calls: int, memories: int, kills: int
) -> dict[str, object]:
    """All figures."""
    with tempfile.TemporaryDirectory() as made:
        connection = await asyncpg.connect(url)
        remembered = [f"{row[1]}\n{row[2][-500:]}" for row in rows[:memories]]
        prompts = [row[1] for row in rows[-max(1, calls // 3) :]]
        hooks = Calls(Path(made), url)
        async with daemon(url):
            await connection.execute(REMEMBERED, remembered, made)
            await wait_for(connection, INDEXED)
            took = await asyncio.to_thread(sessions, hooks, prompts)
            before = await connection.fetchval(STORED)
            await asyncio.to_thread(killed, hooks, kills)
            after = await connection.fetchval(STORED)
        left = [
            p.pid
            for p in psutil.process_iter(["cmdline"])
            if "memoryd hook" in " ".join(p.info["cmdline"] or ())
        ]
        spooled = len(list((Path(made) / "memoryd/hooks/spool").iterdir()))
        await connection.close()
    return {
        **{
            f"{event}_{what}{name}": value
            for event, times in took.items()
            for what, each in zip(("", "cpu_"), zip(*times, strict=True), strict=True)
            for name, value in percentiles(each).items()
        },
        "load": round(os.getloadavg()[0], 1),
        "processes_left": len(left),
        "turns_lost_in_kills": kills - (after - before),
        "spool_left": spooled,
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--memories", type=int, default=2000, help="of the agent, in the project")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument(
        "--data", type=Path, help="tasks, one JSON object a line; without it texts are made up"
    )
    options = parser.parse_args()
    rows = tasks(options.data, 1, 0)
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, rows, options.calls, options.memories, options.kills))
    report("hooks", figures, options.json)


if __name__ == "__main__":
    main()
