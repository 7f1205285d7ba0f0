"""The HTTP port: time of a probe and of a scrape, and the processor time that a scrape every 15 seconds costs.

python -m benchmarks.load.probes --jobs 200000
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import closing
from http.client import HTTPConnection

import asyncpg

from benchmarks.harness import arguments, cpu, daemon, embedded, percentiles, report, wait_for
from benchmarks.load.pipeline import INSERT, tasks
from plugins.embedded.server import EmbeddedPostgres

OLD_SECONDS = 1.1
"""Until what was read of the database is too old to be shown again."""
SCRAPED_EVERY = 15.0

# In lanes that rest: nobody claims them, and each reading counts them.
BACKLOG = """
with held as (
    insert into memoryd.lanes (topic, lane, not_before)
    select t, 'lane ' || n, 'infinity' from unnest(array['capture', 'associate', 'facts']) t, generate_series(0, 499) n
    where $1 > 0
)
insert into memoryd.jobs (topic, lane)
select (array['capture', 'associate', 'facts'])[1 + n % 3], 'lane ' || n / 3 % 500 from generate_series(1, $1::integer) n
"""


async def measure(server: EmbeddedPostgres, *, probes: int, scrapes: int, jobs: int) -> dict[str, object]:
    """Does some work first, so that every histogram is there."""
    connection = await asyncpg.connect(server.socket_url)
    port = _free_port()
    async with daemon(server.socket_url, http=port) as running:
        pid = running.process.pid
        rows = tasks(None, 1, 500)
        await connection.execute(INSERT, *map(list, zip(*rows, strict=True)))
        await wait_for(connection, "select not exists (select from memoryd.jobs)", pause=0.05)
        await connection.execute(BACKLOG, jobs)
        live = [_ask(port, "/health/live")[0] for _ in range(probes)]
        before = cpu(pid)
        await asyncio.sleep(scrapes * OLD_SECONDS)
        at_rest = cpu(pid) - before
        ready, _ = await _ask_each(port, "/health/ready", scrapes)
        before = cpu(pid)
        metrics, size = await _ask_each(port, "/metrics", scrapes)
        one = max(0.0, cpu(pid) - before - at_rest) / scrapes
    await connection.close()
    return {
        "jobs_waiting": jobs,
        "live": percentiles(live),
        "ready": percentiles(ready),
        "metrics": percentiles(metrics),
        "metrics_kb": round(size / 1000, 1),
        "cpu_of_a_scrape_ms": round(one * 1000, 2),
        "cpu_percent_at_one_in_15_s": round(100 * one / SCRAPED_EVERY, 3),
    }


async def _ask_each(port: int, path: str, times: int) -> tuple[list[float], int]:
    """How long each took that was answered by a new reading of the database; bytes of the last answer."""
    found, size = [], 0
    for _ in range(times):
        await asyncio.sleep(OLD_SECONDS)
        seconds, size = _ask(port, path)
        found.append(seconds)
    return found, size


def _ask(port: int, path: str) -> tuple[float, int]:
    began = time.perf_counter()
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", path, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        answer = connection.getresponse()
        size = len(answer.read())
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status}")
    return time.perf_counter() - began, size


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--probes", type=int, default=2000, help="requests of /health/live")
    parser.add_argument(
        "--scrapes", type=int, default=60, help="scrapes, each with a new reading of the database"
    )
    parser.add_argument("--jobs", type=int, default=0, help="jobs that wait meanwhile")
    options = parser.parse_args()
    if options.database_url is not None:
        parser.error("this one needs the embedded Postgres")
    with embedded() as server:
        figures = asyncio.run(
            measure(server, probes=options.probes, scrapes=options.scrapes, jobs=options.jobs)
        )
    report("probes", figures, options.json)


if __name__ == "__main__":
    main()
