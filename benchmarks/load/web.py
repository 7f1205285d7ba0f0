"""How long the pages of `memoryd web` take with no, one and many memories, and how much memory their process needs.

    python -m benchmarks.load.web                     0, 1 and 1,000,000 memories of 1,000 users
    python -m benchmarks.load.web --rows 100000

Made-up memories are loaded with their entries, as `benchmarks.search.recall` does, without a lexicon. One reader signs in as
support and asks for each page again and again, over one connection; where a page is of one row or user, of another each time.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import asyncpg
from pgvector.asyncpg import register_vector

from benchmarks.corpus import Corpus
from benchmarks.harness import arguments, database, percentiles, report
from benchmarks.load.bulk import COUNT, Rows, load
from daemon.web.app import PAGES

SIZES = (0, 1)
USERS = 1000
ASKED: dict[str, list[dict[str, str]]] = {
    "/memories": [
        {"agent": "assistant"}, {"user": "{user}"}, {"ended": "yes"}, {"kind": "goal"}, {"agent": "nobody"},
        {"as_of": "2030-01-01"}, {"tag": "red"},
    ],
    "/recall": [{"q": "{question}", "user": "{user}"}],
    "/context": [{"agent": "assistant", "message": "{question}"}],
    "/graph": [{"memory": "{memory}"}, {"user": "{user}"}],
    "/audit": [{"user": "{user}"}],
    "/audit/derived": [{"kind": "memory", "id": "{memory}"}],
}  # fmt: skip
"""Pages that are also asked something. The last three filters of memories find nothing, or much that they leave out."""


class Reader:
    """Somebody who is signed in, over one connection."""

    def __init__(self, sign_in: str) -> None:
        at = urlsplit(sign_in)
        assert at.hostname is not None
        self._http = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
        self._http.request("GET", f"{at.path}?{at.query}")
        answer = self._http.getresponse()
        answer.read()
        self._cookie = {"Cookie": (answer.getheader("Set-Cookie") or "").partition(";")[0]}

    def ask(self, path: str) -> tuple[int, float, float, int]:
        """The status, the seconds to the first byte and to the last, and the size in bytes."""
        began = time.perf_counter()
        self._http.request("GET", path, headers=self._cookie)
        answer = self._http.getresponse()
        first = time.perf_counter() - began
        size = len(answer.read())
        return answer.status, first, time.perf_counter() - began, size


@contextmanager
def served(url: str) -> Iterator[tuple[Reader, int]]:
    """`memoryd web` on a database: a reader, and the id of the process."""
    environment = {**os.environ, "DATABASE_URL": url, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-m", "daemon", "web", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Reader(process.stdout.readline().removeprefix("Open ").strip()), process.pid
    finally:
        process.terminate()
        process.wait(30)


def paths(
    there: list[uuid.UUID], users: list[uuid.UUID], corpus: Corpus, dice: random.Random
) -> dict[str, str]:
    """Each page that there is, by its route, on a memory and a user of chance."""
    memory = dice.choice(there) if there else uuid.UUID(int=0)
    values = {"memory": str(memory), "user": str(dice.choice(users)), "question": corpus.question().text}
    found = {}
    for route in (r for page in PAGES for r in page if "GET" in (r.methods or ())):
        if "{" not in route.path:
            found[route.path] = route.path
        elif route.path.startswith("/memories/") and there:
            found[route.path] = f"/memories/{memory}"
        for asked in ASKED.get(route.path, ()):
            query = urlencode({k: v.format(**values) for k, v in asked.items()})
            found[f"{route.path}?{'&'.join(f'{k}={v}' for k, v in asked.items())}"] = f"{route.path}?{query}"
    return found


def memory_of(process: int) -> float:
    """Megabytes that a process has in memory now, what it shares with others included."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def ask(url: str, there: list[uuid.UUID], users: list[uuid.UUID], samples: int) -> dict[str, object]:
    """The figures of each page; the first round, which pays for plans and cold pages, is told apart."""
    corpus, dice = Corpus(2), random.Random(1)
    first: dict[str, list[float]] = {}
    whole: dict[str, list[float]] = {}
    cold: dict[str, float] = {}
    failed: dict[str, int] = {}
    with served(url) as (reader, process):
        before = memory_of(process)
        for _ in range(samples + 1):
            for name, path in paths(there, users, corpus, dice).items():
                status, head, all_of_it, _size = reader.ask(path)
                if status != 200:
                    failed[name] = status
                if name not in cold:
                    cold[name] = all_of_it
                    continue
                first.setdefault(name, []).append(head)
                whole.setdefault(name, []).append(all_of_it)
        figures: dict[str, object] = {
            "memory_mb at start": round(before),
            "memory_mb at end": round(memory_of(process)),
        }
    for name, seconds in whole.items():
        begun, ended = percentiles(first[name]), percentiles(seconds)
        figures[name] = (
            f"first byte p50 {begun['p50_ms']:.0f} p99 {begun['p99_ms']:.0f}, "
            f"whole p50 {ended['p50_ms']:.0f} p99 {ended['p99_ms']:.0f} ms, cold {cold[name] * 1000:.0f}"
            + (f", status {failed[name]}" if name in failed else "")
        )
    return figures


async def fill(url: str, rows: Rows, count: int) -> list[uuid.UUID]:
    """Adds memories; answers the ids of some of all."""
    connection = await asyncpg.connect(url)
    await register_vector(connection)
    if count > 0:
        await load(connection, "agent_memory", rows, count)
        await connection.execute(COUNT)
        await connection.execute("vacuum analyze")
    ids = await connection.fetch("select id from agent_memory order by id limit 1000")
    await connection.close()
    return [row["id"] for row in ids]


def measure(url: str, options: argparse.Namespace) -> None:
    """At each size."""
    users = [uuid.UUID(int=n + 1) for n in range(USERS)]
    rows = Rows(users=users, seed=1)
    there = 0
    for size in [options.rows] if options.loaded else sorted({*SIZES, options.rows}):
        began = time.perf_counter()
        ids = asyncio.run(fill(url, rows, 0 if options.loaded else size - there))
        there = size
        loaded = time.perf_counter() - began
        figures = {"memories": size, "load_s": round(loaded), **ask(url, ids, users, options.samples)}
        report("web", figures, options.json)


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=30, help="of each page")
    parser.add_argument("--loaded", action="store_true", help="the database has the rows of an earlier run")
    options = parser.parse_args()
    with database(options.database_url) as url:
        measure(url, options)


if __name__ == "__main__":
    main()
