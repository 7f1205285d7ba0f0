"""memoryd beside other memories for agents, each from its package in an environment of its own.

    python -m benchmarks.peers --data FILE...
    python -m benchmarks.peers --data FILE... --only memoryd hybrid --rows 10000

One embedded Postgres with a database for each; the same rows and questions, the same vectors (memoryd's local embedder, from
a server on loopback), no language model, no model that is downloaded. One client writes batches of 100 rows and waits until all
can be found; then each question is asked of all in turns, with its text alone, for ten results. FILEs are as for
benchmarks.search.evidence.

*Precision* is the part of the results that is evidence, the mean over the questions that bring something; *silent* the part
of the questions that bring nothing when they are asked of a user whose rows do not answer them. Times are taken around the
call, in the process that makes it, embedding the question included. Memory is that of the system's own processes, without
Postgres.

The environments are made by pip in --cache at the first run (1.5 GB) and kept. A peer that cannot be installed or run stays in
the table, with the reason.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.harness import arguments, embedded, print_table, report, shown
from benchmarks.peers.embeddings import embedding_server
from benchmarks.peers.environments import default_cache
from benchmarks.peers.measure import COUNT, make_texts, pad
from benchmarks.peers.runs import ENTRIES, Figures, compare
from benchmarks.search.bodies import read

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
    given = arguments(__doc__ or "")
    given.add_argument("--data", type=Path, required=True, nargs="+", help="bodies of text with questions")
    given.add_argument("--only", nargs="+", choices=ENTRIES, default=list(ENTRIES), help="which are compared")
    given.add_argument("--cache", type=Path, default=default_cache(), help="folder of their environments")
    given.add_argument("--rows", type=int, default=0, help="give each user so many, with texts of the others")
    given.add_argument("--no-names", action="store_true", help="no speaker's name before what peers get")
    options = given.parse_args()
    if options.database_url is not None:
        given.error("--database-url has no meaning here: each system gets a database of its own")
    made = {
        name: [make_texts(one, names=not options.no_names) for one in pad(found, options.rows)]
        for name, found in read(options.data).items()
    }
    with embedded() as server, embedding_server() as embeddings_url:
        lines = asyncio.run(compare(options.only, server.socket_url, embeddings_url, options.cache, made))
    head, rows = table(lines, list(made))
    print_table(head, rows)
    memory, load = psutil.virtual_memory().total / 2**30, os.getloadavg()[1]
    print(
        f"\n{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {memory:.0f} GB of memory, a load of {load:.1f}"
    )
    report("peers", lines, options.json)


if __name__ == "__main__":
    main()
