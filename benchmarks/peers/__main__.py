"""memoryd beside other memories for agents, each from its package in an environment of its own.

    python -m benchmarks.peers --data FILE...
    python -m benchmarks.peers --data FILE... --only memoryd langgraph --markdown

One embedded Postgres with a database for each; the same rows and questions, the same vectors (memoryd's local embedder, from
a server on loopback), no language model, no model that is downloaded. One client writes batches of 100 rows and waits until all
can be found, then asks every question, with its text alone, for ten results. FILEs are as for benchmarks.search.evidence.

*Precision* is the part of the results that is evidence, the mean over the questions that bring something; *silent* the part
of the questions that bring nothing when they are asked of a user whose rows do not answer them. Times are taken around the
call, in the process that makes it, embedding the question included. Memory is that of the system's own processes, without
Postgres.

The environments are made by pip in --cache at the first run (1.5 GB) and kept. A peer that cannot be installed or run stays in
the table, with the reason.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from benchmarks.harness import embedded
from benchmarks.peers import systems
from benchmarks.peers.contrib import trigrams
from benchmarks.peers.embeddings import embedding_server
from benchmarks.peers.environments import SOURCE, CannotInstall, default_cache, prepare
from benchmarks.peers.measure import COUNT, Tally, make_texts
from benchmarks.search.bodies import parser, read
from benchmarks.search.evidence import print_table, shown

FOREIGN = 50
"""Questions of each set that are asked of somebody else's rows."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One that is compared."""

    title: str
    requirements: tuple[str, ...] = ()
    module: str | None = None
    """What runs in its environment."""
    trigrams: bool = False
    """Whether its database has to have pg_trgm."""


ENTRIES = {
    "memoryd": Entry("memoryd", (str(SOURCE),)),
    "hybrid": Entry("Supabase's hybrid search"),
    "langgraph": Entry(
        "LangGraph PostgresStore 3.2.0",
        ("langgraph-checkpoint-postgres==3.2.0", "psycopg[binary]==3.3.9"),
        "with_langgraph",
    ),
    "mem0": Entry("mem0 2.2.1", ("mem0ai==2.2.1", "psycopg[binary,pool]==3.3.9"), "with_mem0"),
    "hindsight": Entry("hindsight 1.1.0", ("hindsight-api-slim==1.1.0",), "with_hindsight", trigrams=True),
}

Figures = dict[str, Any]
"""Of one line of the table; `failed` says why there are none."""


async def measure(
    system: systems.System, sets: Mapping[str, Sequence[dict[str, Any]]], url: str
) -> list[Figures]:
    """Writes all rows, then asks all questions, way by way."""
    bodies = {name: [make_texts(one) for one in found] for name, found in sets.items()}
    began = time.perf_counter()
    rows = 0
    for made in bodies.values():
        for _, batches in made:
            for batch in batches:
                await system.write(batch)
                rows += len(batch)
    await system.settle()
    rate = rows / (time.perf_counter() - began)
    connection = await asyncpg.connect(url)
    await connection.execute("vacuum analyze")
    await connection.close()
    every = [body for made in bodies.values() for body, _ in made]
    stranger = {a.user: b.user for a, b in pairwise([*every, every[0]])}
    lines = []
    for way, ask in system.ways.items():
        tally = Tally()
        for name, made in bodies.items():
            for body, _ in made:
                for question in body.questions:
                    tally.add(name, await ask(question.text, body.user), question.evidence)
            asked = [(q, body.user) for body, _ in made for q in body.questions]
            for question, user in asked[:: max(1, len(asked) // FOREIGN)]:
                tally.add_foreign(await ask(question.text, stranger[user]))
        lines.append({"system": way, "rows_s": round(rate), **tally.figures()})
    memory = systems.resident(system.pid)
    return [{**line, "resident_mb": memory and round(memory)} for line in lines]


async def run(
    name: str, url: str, cache: Path, embeddings_url: str, sets: Mapping[str, Sequence[dict[str, Any]]]
) -> list[Figures]:
    """The lines of one; a line that says why, where it could not be measured."""
    entry = ENTRIES[name]
    installed: Figures = {}
    try:
        open_system: Callable[[], AbstractAsyncContextManager[systems.System]]
        if entry.requirements:
            environment = await prepare(cache, name, entry.requirements)
            installed = {"packages": environment.packages, "disk_mb": round(environment.megabytes)}
            if entry.module:
                open_system = partial(
                    systems.peer, entry.title, entry.module, environment.python, url, embeddings_url
                )
            else:
                open_system = partial(systems.memoryd, url)
        else:
            open_system = partial(systems.hybrid, url)
        async with AsyncExitStack() as stack:
            if entry.trigrams:
                await stack.enter_async_context(trigrams(url, cache))
            system = await stack.enter_async_context(open_system())
            return [{**line, **installed} for line in await measure(system, sets, url)]
    except (CannotInstall, systems.CannotRun) as problem:
        return [{"system": entry.title, **installed, "failed": str(problem)}]


async def make_database(server_url: str, name: str) -> str:
    """An empty database of that server: its URL."""
    connection = await asyncpg.connect(server_url)
    await connection.execute(f"create database {name} template template0")
    # Else an HNSW index brings the 40 nearest rows of all users, of which few are the user's who asks.
    await connection.execute(f"alter database {name} set hnsw.iterative_scan = strict_order")
    await connection.close()
    url = server_url.replace("/memoryd?", f"/{name}?")
    connection = await asyncpg.connect(url)
    await connection.execute("create extension if not exists vector")
    await connection.close()
    return url


HEAD = {
    "rows_s": "rows a second",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "precision": "precision",
    "silent": "silent",
    "resident_mb": "memory, MB",
    "packages": "packages",
    "disk_mb": "disk, MB",
}


def table(lines: Sequence[Figures], sets: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Head and rows; what was not measured is empty, and a failure says why in the first column."""
    columns = dict(HEAD)
    keys = list(columns)
    keys[3:3] = [f"recall@{COUNT} {name}" for name in sets]
    rows = []
    for line in lines:
        values = ["" if line.get(k) is None else _shown(k, line[k]) for k in keys]
        title = line["system"] + (f": not measured, {line['failed']}" if "failed" in line else "")
        rows.append((title, values))
    return ["", *(columns.get(k, k) for k in keys)], rows


def _shown(key: str, value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.1f}" if key.endswith("_ms") else shown(value)


def main() -> None:
    """Runs the benchmark."""
    made = parser(__doc__ or "")
    made.add_argument("--only", nargs="+", choices=ENTRIES, default=list(ENTRIES), help="which are compared")
    made.add_argument("--cache", type=Path, default=default_cache(), help="folder of their environments")
    made.add_argument("--markdown", action="store_true", help="print nothing but the table, as Markdown")
    options = made.parse_args()
    if options.database_url is not None:
        made.error("--database-url has no meaning here: each system gets a database of its own")
    sets = read(options.data)
    lines: list[Figures] = []
    with embedded() as server, embedding_server() as embeddings_url:
        for name in options.only:
            url = server.socket_url
            if name != "memoryd":
                url = asyncio.run(make_database(url, f"peer_{name}"))
            lines += asyncio.run(run(name, url, options.cache, embeddings_url, sets))
    head, rows = table(lines, list(sets))
    print_table(head, rows)
    memory = psutil.virtual_memory().total / 2**30
    print(f"\n{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {memory:.0f} GB of memory")
    if not options.markdown:
        print("\n" + "\n".join(json.dumps({"benchmark": "peers", **line}) for line in lines))
    if options.json is not None:
        options.json.write_text("".join(json.dumps({"benchmark": "peers", **line}) + "\n" for line in lines))


if __name__ == "__main__":
    main()
