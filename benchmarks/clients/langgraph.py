"""What MemorydStore adds to the SQL below it.

    python -m benchmarks.clients.langgraph --samples 500

Puts of new items, and searches with a query among --items of a namespace, in turns with the same transactions on a connection
of asyncpg: they begin with the client's identity (_sql). And a put without these, as a statement alone (put_alone). Times in
milliseconds; no daemon takes the processor meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated

import asyncpg

from benchmarks.harness import Figures, Times, command, daemon, until_idle
from benchmarks.load.pipeline import texts

sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python" / "src"))

from memoryd_client._identity import identity
from memoryd_client._keyed import PUT
from memoryd_client.langgraph import SEARCH, MemorydStore

HERE = ("bench", "items")
WHOSE = ("alice", None)
WARM = 30
"""Samples that are not counted: they pay for what is made once."""


async def measure(
    url: str,
    owner: asyncpg.Connection,
    *,
    items: Annotated[int, "items in the namespace that is searched"] = 1000,
    samples: int = 500,
) -> Figures:
    """Times in milliseconds, and how many times as long as the SQL each is."""
    text, times = texts(random.Random(1)), Times(WARM)
    enter = identity("service", "alice").enter(30)
    plain = await asyncpg.connect(url, server_settings={"jit": "off", "role": "memoryd_service"})

    async def transaction(work: Awaitable[object]) -> None:
        await plain.execute(enter)
        await work
        await plain.execute("commit")

    async with MemorydStore(url, agent="alice") as store:
        async with daemon(url):
            await asyncio.gather(*(store.aput(HERE, f"{n}", {"text": text(12)}) for n in range(items)))
            await until_idle(owner)
        await owner.execute("analyze")
        for n in range(samples + WARM):
            words = {"text": text(12)}
            row = [text(12)], [json.dumps({"value": words})], [None]
            with times.of("put"):
                await store.aput(("bench", "new"), f"{n}", words)
            with times.of("put_sql"):
                await transaction(plain.fetchval(PUT, *WHOSE, [f"langgraph/bench/sql/{n}"], *row))
            with times.of("put_alone"):
                await plain.fetchval(PUT, *WHOSE, [f"langgraph/bench/alone/{n}"], *row)
            query = text(3)
            search = ["langgraph/bench/items/"], [query], ["{}"], [10], [0], [None]
            with times.of("search"):
                await store.asearch(HERE, query=query, limit=10)
            with times.of("search_sql"):
                await transaction(plain.fetch(SEARCH, *WHOSE, *search))
    await plain.close()
    ratios = {
        f"{name}_times_sql": round(
            statistics.median(times[name]) / statistics.median(times[f"{name}_sql"]), 2
        )
        for name in ("put", "search")
    }
    return {"items": items, "samples": samples, **times.figures(), **ratios}


if __name__ == "__main__":
    command(__doc__, measure)
