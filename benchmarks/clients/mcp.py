"""What MCP costs: p50 of recall through `memoryd mcp` (stdio), beside the same recall in SQL, in one run.

    python -m benchmarks.clients.mcp --memories 2000 --samples 300

The two take turns, one question each, and each question is asked of both. SQL is asked over one connection with the same role.
Needs the extra mcp.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from benchmarks.harness import arguments, daemon, database, percentiles, report, wait_for
from benchmarks.load.pipeline import texts

MEMORIES = (
    "insert into agent_memory (agent_id, kind, content) select 'alice', 'note', t from unnest($1::text[]) t"
)
RECALL = "select * from recall($1, agent_id => 'alice')"
IDLE = "select not exists (select from memoryd.jobs)"
WARM = 20
"""Questions that are not counted: they pay for what is made once."""


async def measure(url: str, memories: int, samples: int) -> dict[str, object]:
    """Both, in milliseconds."""
    text = texts(random.Random(1))
    connection = await asyncpg.connect(url)
    async with daemon(url):
        await connection.execute(MEMORIES, [text(12) for _ in range(memories)])
        await wait_for(connection, IDLE, pause=0.05)
    await connection.execute("analyze")
    await connection.execute("set role memoryd_service; set jit = off")
    in_sql: list[float] = []
    through_mcp: list[float] = []
    environment = {
        "DATABASE_URL": url,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PATH": os.environ["PATH"],
        "MEMORYD_LOG_LEVEL": "warning",
    }
    child = StdioServerParameters(
        command=sys.executable,
        args=["-m", "daemon", "mcp", "--agent", "alice"],
        env=environment,
        cwd=tempfile.gettempdir(),
    )
    async with Client(stdio_client(child)) as client:
        for number in range(samples + WARM):
            question = text(4)
            began = time.perf_counter()
            rows = await connection.fetch(RECALL, question)
            between = time.perf_counter()
            answer = await client.call_tool("recall", {"query": question})
            ended = time.perf_counter()
            assert not answer.is_error
            assert len(json.loads(str(answer.content[0].model_dump()["text"]))["results"]) == len(rows)
            if number >= WARM:
                in_sql.append(between - began)
                through_mcp.append(ended - between)
    await connection.close()
    sql, through = percentiles(in_sql), percentiles(through_mcp)
    return {
        "memories": memories,
        "samples": samples,
        **{f"sql_{k}": v for k, v in sql.items()},
        **{f"mcp_{k}": v for k, v in through.items()},
        "above_p50_ms": round(through["p50_ms"] - sql["p50_ms"], 2),
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--memories", type=int, default=2000, help="memories of the agent")
    parser.add_argument("--samples", type=int, default=300)
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, options.memories, options.samples))
    report("mcp", figures, options.json)


if __name__ == "__main__":
    main()
