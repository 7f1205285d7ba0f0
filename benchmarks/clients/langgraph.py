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
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

import asyncpg

from benchmarks.harness import arguments, daemon, database, percentiles, report, wait_for
from benchmarks.load.pipeline import texts

sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python" / "src"))

from memoryd_client._identity import identity
from memoryd_client._keyed import PUT
from memoryd_client.langgraph import SEARCH, MemorydStore

HERE = ("bench", "items")
WHOSE = ("alice", None)
IDLE = "select not exists (select from memoryd.jobs)"
WARM = 30
"""Samples that are not counted: they pay for what is made once."""


async def measure(url: str, items: int, samples: int) -> dict[str, object]:
    """Times in milliseconds, and how many times as long as the SQL each is."""
    text = texts(random.Random(1))
    times: dict[str, list[float]] = {
        "put": [],
        "put_sql": [],
        "put_alone": [],
        "search": [],
        "search_sql": [],
    }

    async def timed(name: str, call: Awaitable[object]) -> None:
        began = time.perf_counter()
        await call
        times[name].append(time.perf_counter() - began)

    async def transaction(work: Awaitable[object]) -> None:
        await plain.execute(enter)
        await work
        await plain.execute("commit")

    enter = identity("service", "alice").enter(30)
    owner = await asyncpg.connect(url)
    plain = await asyncpg.connect(url, server_settings={"jit": "off", "role": "memoryd_service"})
    async with MemorydStore(url, agent="alice") as store:
        async with daemon(url):
            await asyncio.gather(*(store.aput(HERE, f"{n}", {"text": text(12)}) for n in range(items)))
            await wait_for(owner, IDLE, pause=0.05)
        await owner.execute("analyze")
        for n in range(samples + WARM):
            words = {"text": text(12)}
            row = [text(12)], [json.dumps({"value": words})], [None]
            await timed("put", store.aput(("bench", "new"), f"{n}", words))
            await timed(
                "put_sql", transaction(plain.fetchval(PUT, *WHOSE, [f"langgraph/bench/sql/{n}"], *row))
            )
            await timed("put_alone", plain.fetchval(PUT, *WHOSE, [f"langgraph/bench/alone/{n}"], *row))
            query = text(3)
            search = ["langgraph/bench/items/"], [query], ["{}"], [10], [0], [None]
            await timed("search", store.asearch(HERE, query=query, limit=10))
            await timed("search_sql", transaction(plain.fetch(SEARCH, *WHOSE, *search)))
    await plain.close()
    await owner.close()
    times = {name: taken[WARM:] for name, taken in times.items()}
    figures = {name: percentiles(taken) for name, taken in times.items()}
    return {
        "items": items,
        "samples": samples,
        **{f"{name}_{k}": v for name, taken in figures.items() for k, v in taken.items()},
        **{
            f"{name}_times_sql": round(figures[name]["p50_ms"] / figures[f"{name}_sql"]["p50_ms"], 2)
            for name in ("put", "search")
        },
    }


def main() -> None:
    """Reads the arguments and measures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--items", type=int, default=1000, help="items in the namespace that is searched")
    parser.add_argument("--samples", type=int, default=500)
    given = parser.parse_args()
    with database(given.database_url) as url:
        figures = asyncio.run(measure(url, given.items, given.samples))
    report("LangGraph store", figures, given.json)


if __name__ == "__main__":
    main()
