"""What MCP costs: p50 of recall through `memoryd mcp` (stdio), beside the same recall in SQL, in one run.

    python -m benchmarks.clients.mcp --memories 2000 --samples 300

The two take turns, one question each, and each question is asked of both. SQL is asked over one connection with the same role.
Needs the extra mcp.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import asyncpg
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from benchmarks.harness import Figures, Times, command, daemon, until_idle
from benchmarks.load.pipeline import texts

MEMORIES = (
    "insert into agent_memory (agent_id, kind, content) select 'alice', 'note', t from unnest($1::text[]) t"
)
RECALL = "select * from recall($1, agent_id => 'alice')"
WARM = 20
"""Questions that are not counted: they pay for what is made once."""


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    memories: Annotated[int, "memories of the agent"] = 2000,
    samples: int = 300,
) -> Figures:
    """Both, in milliseconds."""
    text, times = texts(random.Random(1)), Times(WARM)
    async with daemon(url):
        await connection.execute(MEMORIES, [text(12) for _ in range(memories)])
        await until_idle(connection)
    await connection.execute("analyze")
    await connection.execute("set role memoryd_service; set jit = off")
    environment = {
        "DATABASE_URL": url,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PATH": os.environ["PATH"],
        "MEMORYD_LOG_LEVEL": "warning",
    }
    words = ["-m", "daemon", "mcp", "--agent", "alice"]
    child = StdioServerParameters(
        command=sys.executable, args=words, env=environment, cwd=tempfile.gettempdir()
    )
    async with Client(stdio_client(child)) as client:
        for _ in range(samples + WARM):
            question = text(4)
            with times.of("sql"):
                rows = await connection.fetch(RECALL, question)
            with times.of("mcp"):
                answer = await client.call_tool("recall", {"query": question})
            assert not answer.is_error
            assert len(json.loads(str(answer.content[0].model_dump()["text"]))["results"]) == len(rows)
    above = statistics.median(times["mcp"]) - statistics.median(times["sql"])
    figures = {"memories": memories, "samples": samples, **times.figures()}
    return figures | {"above_p50_ms": round(above * 1000, 2)}


if __name__ == "__main__":
    command(__doc__, measure)
