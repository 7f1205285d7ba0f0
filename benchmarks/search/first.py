"""The first recall of a connection beside later ones: python -m benchmarks.search.first --data FILE

A connection of Postgres compiles each function at its first call. Each question of the first body of FILE is asked by a new
connection, then five times more; both are medians, of the processor time of the server's process, which other programs on
the machine hardly change.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from pathlib import Path

import asyncpg

from benchmarks.harness import arguments, database
from benchmarks.search.bodies import Body, write

RECALL = "select id from recall($1, user_id => $2)"
LATER = 5


async def measure(url: str, body: Body, connections: int) -> tuple[float, float]:
    """Medians of the first recall and of later ones, in milliseconds."""
    first: list[float] = []
    later: list[float] = []
    for question in body.questions[:connections]:
        connection = await asyncpg.connect(url)
        pid = await connection.fetchval("select pg_backend_pid()")
        for times in [first] + [later] * LATER:
            began = spent(pid)
            await connection.fetch(RECALL, question.text, body.user)
            times.append(spent(pid) - began)
        await connection.close()
    return statistics.median(first), statistics.median(later)


def spent(pid: int) -> float:
    """Milliseconds of processor that a process has used."""
    return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[0]) / 1e6


def main() -> None:
    """Prints both."""
    parser = arguments(str(__doc__))
    parser.add_argument("--data", type=Path, required=True, help="bodies of text with questions")
    parser.add_argument("--connections", type=int, default=30, help="how many connections ask")
    given = parser.parse_args()
    texts = json.loads(given.data.read_text("utf-8"))[:1]
    with database(given.database_url) as url:
        [body], _ = asyncio.run(write(url, texts))
        first, later = asyncio.run(measure(url, body, given.connections))
    print(
        f"first recall of a connection {first:.1f} ms, later ones {later:.1f} ms ({first / later:.1f} times)"
    )


if __name__ == "__main__":
    main()
