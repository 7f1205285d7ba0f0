"""Rows a second until they are searchable: by daemons on one database, and by databases on two servers that one process serves.

    python -m benchmarks.load.scaling --rows 20000

The rows are shared out evenly. The servers, their clients and memoryd are on one machine, so it says where its cores are the
limit, and not what more machines bring.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import asyncpg

from benchmarks.corpus import Corpus
from benchmarks.harness import arguments, daemon, embedded, report, wait_for
from benchmarks.load.databases import copies, listed

DAEMONS = (1, 2, 4)
DATABASES = (1, 2, 4, 8, 16)
BATCH = 100
INSERT = (
    "insert into agent_memory (agent_id, kind, content) select 'alice', 'note', c from unnest($1::text[]) c"
)
SEARCHABLE = "select not exists (select from memoryd.jobs) and not exists (select from memoryd.unindexed)"


async def pour(url: str, texts: Sequence[str]) -> None:
    """Inserts them, and waits until all are found."""
    connection = await asyncpg.connect(url)
    for begin in range(0, len(texts), BATCH):
        await connection.execute(INSERT, list(texts[begin : begin + BATCH]))
    await wait_for(connection, SEARCHABLE, pause=0.02)
    await connection.close()


async def rate(urls: Sequence[str], texts: Sequence[str]) -> float:
    """Rows a second."""
    share = len(texts) // len(urls)
    began = time.perf_counter()
    await asyncio.gather(*(pour(url, texts[n * share : (n + 1) * share]) for n, url in enumerate(urls)))
    return round(share * len(urls) / (time.perf_counter() - began), 1)


async def measure(servers: Sequence[str], rows: int) -> dict[str, float]:
    """Rows a second by daemons, and by databases."""
    corpus = Corpus(1)
    texts = [corpus.text() for _ in range(rows)]
    wanted = sum(DATABASES) + len(DAEMONS)
    urls = [url for pair in zip(*[await copies(s, wanted) for s in servers], strict=True) for url in pair]
    figures = {}
    for number in DAEMONS:
        url = urls.pop()
        async with AsyncExitStack() as stack:
            for _ in range(number):
                await stack.enter_async_context(daemon(url))
            figures[f"{number}_daemons_rows_s"] = await rate([url], texts)
    for number in DATABASES:
        used = [urls.pop() for _ in range(number)]
        with tempfile.TemporaryDirectory() as folder:
            async with daemon(used[0], database_urls=listed(folder, used), databases_at_once=16):
                figures[f"{number}_databases_rows_s"] = await rate(used, texts)
    return figures


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args()
    options = {"max_connections": "400"}
    with embedded(options=options) as one, embedded(options=options) as other:
        figures = asyncio.run(measure([one.socket_url, other.socket_url], given.rows))
    report("scaling", {"rows": given.rows, **figures}, given.json)


if __name__ == "__main__":
    main()
