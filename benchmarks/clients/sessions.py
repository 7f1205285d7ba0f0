"""What `memoryd import --from claude-code` takes for past sessions: peak memory of the process, processor time, wall time.

    python -m benchmarks.clients.sessions --megabytes 1000

One made-up transcript of that size: turns with tools, of which one in twenty prints five megabytes; every hundredth line is no
JSON, and the last one is cut. Then the same import again, which must add nothing.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.harness import Figures, command, measured

PROGRAM = [str(Path(sys.executable).with_name("memoryd")), "import", "--from", "claude-code"]
SAID = "It is done: all tests pass on both versions, the documentation says so, and the change waits for a second pair of eyes."
WORDS = [
    "deploy",
    "webhook",
    "sender",
    "retry",
    "parser",
    "index",
    "schema",
    "cache",
    "worker",
    "lease",
    "queue",
    "token",
]


def records(seed: int) -> Iterator[dict[str, Any]]:
    """The lines of a session without end."""
    chosen = random.Random(seed)
    n = 0
    while True:
        n += 1
        yield _of("user", f"Change the {' '.join(chosen.choices(WORDS, k=5))} of part {n}")
        for step in range(8):
            told = {"command": f"make step{n % 50}-{step}"}
            call = {"type": "tool_use", "id": f"{n}-{step}", "name": "Bash", "input": told}
            yield _of("assistant", [call])
            printed = "x" * (5_000_000 if chosen.random() < 1 / 160 else chosen.randrange(200, 20_000))
            yield _of("user", [{"type": "tool_result", "tool_use_id": call["id"], "content": printed}])
            yield _of("assistant", [{"type": "text", "text": f"{SAID} {chosen.choice(WORDS)} {step}"}])


def _of(role: str, content: object) -> dict[str, Any]:
    return {"type": role, "message": {"role": role, "content": content}}


def transcript(path: Path, size: int) -> None:
    """Writes a session of so many bytes, the last line half."""
    at, n = 1_790_000_000, 0
    with path.open("wb") as file:
        for record in records(1):
            at, n = at + 1, n + 1
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
            head = {"sessionId": "s", "cwd": str(path.parent), "timestamp": when}
            file.write(b"\0 no JSON\n" if n % 100 == 0 else json.dumps(head | record).encode() + b"\n")
            if file.tell() >= size:
                break
        file.truncate(size)


def imported(url: str, path: Path) -> dict[str, Any]:
    """One import: its report, peak memory in MB, seconds."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(path.parent), "DATABASE_URL": url}
    out, used = measured([*PROGRAM, str(path), "--json"], environment)
    turns = json.loads(out)["rows"]["turns"]
    return {"turns_taken": turns["taken"], "turns_there": turns["there"], **used}


async def measure(url: str, _connection: asyncpg.Connection, *, megabytes: int = 1000) -> Figures:
    """Both imports."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        transcript(path, megabytes * 1_000_000)
        return {
            f"{name}{suffix}": value
            for suffix in ("", "_again")
            for name, value in imported(url, path).items()
        }


if __name__ == "__main__":
    command(__doc__, measure)
