"""Sustained throughput: finished tasks in, captured, embedded and associated memories out.

    python -m benchmarks.load.pipeline --data commands.jsonl --times 10

The file is one JSON object a line: agent_id, message, output, exit_code, created_at. Without one, made-up tasks are used.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import asyncpg

from benchmarks.harness import Figures, command, daemon, until_idle

BATCH = 500
VOCABULARY = 3000

INSERT = """
insert into agent_commands (agent_id, message, output, exit_code, status, created_at, started_at, finished_at)
select agent_id, message, output, exit_code, case when exit_code = 0 then 'completed' else 'failed' end, at, at, at
from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::timestamptz[]) as t(agent_id, message, output, exit_code, at)
"""

CHECK = """
select (select count(*) from agent_commands) as commands,
       (select count(*) from agent_memory) as memories,
       (select count(distinct command_id) from agent_memory) as remembered,
       (select count(*) from memoryd.unindexed) as unindexed,
       (select count(*) from memory_associations) as associations,
       (select count(distinct memory_id) from memory_associations) as associated,
       (select count(*) from memoryd.dead_letters) as dead
"""


def texts(rng: random.Random) -> Callable[[int], str]:
    """Makes texts of this number of made-up words, a few of them common and most of them rare, as in any language."""
    syllables = [c + v for c in "bdfghklmnprstvz" for v in "aeiou"]
    words = ["".join(rng.choices(syllables, k=3)) for _ in range(VOCABULARY)]
    weights = [1 / (n + 5) for n in range(VOCABULARY)]
    return lambda count: " ".join(rng.choices(words, weights, k=count))


def tasks(file: Path | None, times: int, limit: int) -> list[tuple[Any, ...]]:
    """The tasks in time order, the file's own order kept, each repetition after the one before."""
    rows: list[tuple[Any, ...]] = []
    if file is None:
        rng = random.Random(1)
        text = texts(rng)
        begin = datetime.now(UTC) - timedelta(days=30)
        for n in range(limit or 5000):
            output = "\n".join(text(8) for _ in range(6))
            rows.append(
                (f"agent{n % 4}", text(5), output, int(rng.random() < 0.1), begin + timedelta(seconds=30 * n))
            )
        return rows
    for line in file.read_text(encoding="utf-8").splitlines()[: limit or None]:
        task = json.loads(line)
        at = datetime.fromisoformat(task["created_at"])
        rows.append(
            (task["agent_id"], task["message"], task["output"].replace("\x00", ""), task["exit_code"], at)
        )
    span = max(r[4] for r in rows) - min(r[4] for r in rows) + timedelta(days=1)
    return [(*r[:4], r[4] + span * n) for n in range(times) for r in rows]


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    data: Annotated[Path | None, "tasks, one JSON object a line"] = None,
    times: Annotated[int, "how often the file is played"] = 1,
    limit: Annotated[int, "only the first lines of the file; 0 = all"] = 0,
    daemons: Annotated[int, "daemons at work"] = 1,
) -> Figures:
    """Loads all rows as fast as the database takes them, and waits until the last is associated."""
    rows = tasks(data, times, limit)
    async with AsyncExitStack() as stack:
        for _ in range(daemons):
            await stack.enter_async_context(daemon(url))
        began = time.perf_counter()
        for start in range(0, len(rows), BATCH):
            await connection.execute(INSERT, *map(list, zip(*rows[start : start + BATCH], strict=True)))
        loaded = time.perf_counter() - began
        await until_idle(connection)
        whole = time.perf_counter() - began
    counts = dict(await connection.fetchrow(CHECK) or {})
    return {
        "tasks": len(rows),
        "daemons": daemons,
        "load_seconds": round(loaded, 2),
        "seconds": round(whole, 2),
        "tasks_per_second": round(len(rows) / whole),
        **counts,
        "exactly_once": counts["commands"] == counts["memories"] == counts["remembered"] == len(rows),
    }


if __name__ == "__main__":
    command(__doc__, measure)
