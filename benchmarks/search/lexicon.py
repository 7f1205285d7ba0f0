"""What the lexicon costs: random words, whose neighbours the handler itself finds; seconds, and this process's memory.

    python -m benchmarks.search.lexicon --words 25000

The words are those that the model takes for words, one random string in six. The seconds include the rests after each job.

Memory is the maximum that the process used, less what it used when the embedder was loaded. `stood_still_ms` is the longest
that anything else in the daemon would have waited for the event loop.
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
from pathlib import Path

import asyncpg

from benchmarks.harness import arguments, database, report
from daemon.db.pool import Database
from daemon.logs import configure_logs, get_logger
from handlers.lexicon import LexiconHandler
from memory.vectors import has_meaning
from providers.local_embedder import LocalEmbedder

LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
LEFT = "select exists (select from memoryd.lexicon where embedding is null)"


def resident() -> float:
    """The memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1_000_000


def words(count: int) -> list[str]:
    """So many, the same each time."""
    dice = random.Random(1)
    made: set[str] = set()
    while len(made) < count:
        made.add("".join(dice.choices(LETTERS, k=dice.randint(4, 9))))
    return sorted(made)


def meaningful(embedder: LocalEmbedder, count: int) -> list[str]:
    """Random words that the lexicon compares: it leaves out words without a meaning."""
    drawn = words(count * 8)
    random.Random(2).shuffle(drawn)
    kept = [w for w, pieces in zip(drawn, embedder.pieces(drawn), strict=True) if has_meaning(w, pieces)]
    return kept[:count]


class Watch:
    """The most memory, and the longest that the event loop stood still."""

    def __init__(self) -> None:
        self.maximum, self.stood_still = resident(), 0.0
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(0.005)
            self.stood_still = max(self.stood_still, time.perf_counter() - asked - 0.005)
            self.maximum = max(self.maximum, resident())

    def stop(self) -> None:
        """Ends it."""
        self._task.cancel()


async def measure(url: str, count: int) -> dict[str, object]:
    """Learns this number of words, and finds their neighbours."""
    connection = await asyncpg.connect(url)
    embedder = LocalEmbedder(dimensions=256)
    await connection.execute("select memoryd.learn_words($1)", meaningful(embedder, count))
    await embedder.embed(["warm"])
    pool = await Database.open(url, size=2, pooled=False, logger=get_logger())
    handler = LexiconHandler(reader=pool, embedder=embedder)
    before, watch, began, jobs = resident(), Watch(), time.perf_counter(), 0
    while await connection.fetchval(LEFT):
        commit = await handler.prepare([])
        async with pool.transaction() as transaction:
            await commit(transaction, [])
        jobs += 1
    seconds = time.perf_counter() - began
    watch.stop()
    figures: dict[str, object] = {
        "words": count,
        "jobs": jobs,
        "pairs": await connection.fetchval("select count(*) from memoryd.lexeme_neighbours"),
        "seconds": round(seconds, 1),
        "memory_mb": round(watch.maximum - before),
        "stood_still_ms": round(watch.stood_still * 1000),
    }
    await connection.close()
    await pool.close()
    return figures


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--words", type=int, default=25_000, help="how many")
    options = parser.parse_args()
    configure_logs(level="warning", style="console")
    with database(options.database_url) as url:
        report("lexicon", asyncio.run(measure(url, options.words)), options.json)


if __name__ == "__main__":
    main()
