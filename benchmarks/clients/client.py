"""What the Python client costs: a memory stored until it is found.

    python -m benchmarks.clients.client --samples 300
    python -m benchmarks.clients.client --model-ms 100

`remember`, then `recall` until it brings that memory (at once, by its words), and until `wait_indexed` returns; among
--memories, each after the last one is indexed, in turns with the same insert and recall in SQL. With --model-ms: a recall by
meaning where a model behind HTTP, which takes this long, embeds the question: the time beyond the model's own.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

import asyncpg

from benchmarks.harness import DIMENSIONS, Figures, Times, arguments, daemon, database, report, until_idle
from benchmarks.load.pipeline import texts
from benchmarks.peers.embeddings import embedding_server
from daemon.db.settings import Model

sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python" / "src"))

from memoryd_client import Database, Memory

MEMORIES = (
    "insert into agent_memory (agent_id, kind, content) select 'alice', 'note', t from unnest($1::text[]) t"
)
REMEMBER = "insert into agent_memory (agent_id, kind, content) values ('alice', 'fact', $1)"
RECALL = "select * from recall($1, agent_id => 'alice', match_count => 3)"
REMOTE = Model("openai/any", DIMENSIONS)
WARM = 20
"""Samples that are not counted: they pay for what is made once."""


async def fill(url: str, memories: int, words: random.Random) -> asyncpg.Connection:
    """Writes so many, and waits until they are found."""
    connection, text = await asyncpg.connect(url), texts(words)
    await connection.execute(MEMORIES, [text(12) for _ in range(memories)])
    await until_idle(connection)
    await connection.execute("analyze")
    return connection


async def measure(url: str, memories: int, samples: int) -> Figures:
    """Through the client and in SQL, in turns."""
    text, times = texts(random.Random(1)), Times(WARM)
    async with daemon(url), Database(url) as through:
        connection = await fill(url, memories, random.Random(2))
        plain = await asyncpg.connect(url, server_settings={"jit": "off", "role": "memoryd_service"})
        memory = Memory(through, agent="alice")
        for number in range(samples + WARM):
            content = f"{text(12)} mark{number:05}"
            with times.of("indexed"):
                with times.of("found"):
                    with times.of("remember"):
                        made = await memory.remember(content)
                    results = await memory.recall(f"mark{number:05}", count=3)
                await memory.wait_indexed(made.id)
            assert made.id in [r.id for r in results], "it was not found at once"
            await until_idle(connection)
            content = f"{text(12)} sign{number:05}"
            with times.of("sql_found"):
                await plain.execute(REMEMBER, content)
                rows = await plain.fetch(RECALL, f"sign{number:05}")
            assert content in [r["content"] for r in rows]
            await until_idle(connection)
        await plain.close()
        await connection.close()
    return times.figures()


async def questions(url: str, base_url: str, memories: int, samples: int, taken: list[float]) -> Figures:
    """How much longer recalls take than the model does, whose last time is the last of `taken`; each asks something new."""
    text, times = texts(random.Random(3)), Times(WARM)
    remote = {"embedder": REMOTE.embedder, "embedding_dimensions": DIMENSIONS, "openai_base_url": base_url}
    async with daemon(url, **remote), Database(url) as through:
        await (await fill(url, memories, random.Random(2))).close()
        memory = Memory(through, agent="alice")
        for _ in range(samples + WARM):
            began = time.perf_counter()
            found = await memory.recall(text(8))
            times.add("beyond", time.perf_counter() - began - taken[-1])
            assert found.by == "meaning"
    return times.figures()


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--memories", type=int, default=2000, help="memories of the agent")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--model-ms", type=float, help="recalls with a model that takes this long instead")
    options = parser.parse_args()
    size = options.memories, options.samples
    if options.model_ms is None:
        with database(options.database_url) as url:
            figures = asyncio.run(measure(url, *size))
    else:
        taken: list[float] = []
        with (
            database(options.database_url, REMOTE) as url,
            embedding_server(pause=options.model_ms / 1000, taken=taken) as base_url,
        ):
            figures = asyncio.run(questions(url, base_url, *size, taken))
    report("client", {"memories": options.memories, "samples": options.samples, **figures}, options.json)


if __name__ == "__main__":
    main()
