"""A daemon at rest: memory, processor, queries; how long from its start until the first command is ready to be claimed; and the
HTTP port: time of a probe and of a scrape, and the processor time that a scrape every 15 seconds costs.

python -m benchmarks.load.rest --seconds 60 --jobs 200000
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated

import asyncpg
import psutil

from benchmarks.harness import Figures, Times, command, cpu, daemon, megabytes, until_idle, wait_for
from benchmarks.load.pipeline import INSERT, tasks

LOG_STATEMENTS = {"log_statement": "all", "log_line_prefix": "app=%a "}
OURS = "app=memoryd"
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


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    seconds: Annotated[float, "how long the idle daemon is watched"] = 60.0,
    warm: Annotated[int, "tasks done before, so that everything that is loaded on demand is loaded"] = 2000,
    probes: Annotated[int, "requests of /health/live"] = 2000,
    scrapes: Annotated[int, "scrapes, each with a new reading of the database"] = 60,
    jobs: Annotated[int, "jobs that wait meanwhile"] = 0,
) -> Figures:
    """Watches a daemon do nothing, then asks its port."""
    # One that waits when the daemon comes up: its way is part of the start.
    await connection.execute(
        "insert into agent_commands (agent_id, message) values ('alice', 'the first one')"
    )
    port = _free_port()
    async with daemon(url, http=port) as running:
        await wait_for(connection, "select exists (select from agent_commands where status = 'ready')")
        await connection.fetch("select * from claim_command('alice')")
        first_claim = time.perf_counter() - running.started
        await connection.execute(INSERT, *map(list, zip(*tasks(None, 1, warm), strict=True)))
        await until_idle(connection)
        await asyncio.sleep(2)
        figures: Figures = {"start_to_first_claim_s": round(first_claim, 2)}
        figures |= await _at_rest(connection, running.process.pid, seconds)
        await connection.execute(BACKLOG, jobs)
        return figures | await _asked(port, running.process.pid, probes, scrapes) | {"jobs_waiting": jobs}


async def _at_rest(connection: asyncpg.Connection, pid: int, seconds: float) -> Figures:
    # The log of the embedded server stands beside its data.
    log = Path(await connection.fetchval("show data_directory")).parent / "postgres.log"
    if not log.exists():
        raise SystemExit("Statements are counted in the embedded server's log: leave --database-url away.")
    spent, queries = cpu(pid), _statements(log)
    await asyncio.sleep(seconds)
    return {
        "resident_mb": round(psutil.Process(pid).memory_info().rss / 1e6, 1),
        "peak_resident_mb": round(megabytes(pid), 1),
        "cpu_percent": round(100 * (cpu(pid) - spent) / seconds, 2),
        "queries_per_second": round((_statements(log) - queries) / seconds, 2),
    }


def _statements(log: Path) -> int:
    """Statements of the daemon so far."""
    return sum(line.startswith(OURS) for line in log.read_text("utf-8", "replace").splitlines())


async def _asked(port: int, pid: int, probes: int, scrapes: int) -> Figures:
    times = Times()
    for _ in range(probes):
        _ask(port, "/health/live", times)
    size, spent = 0, dict[str, float]()
    for path in ("", "/health/ready", "/metrics"):  # "": nobody asks, for comparison
        before = cpu(pid)
        for _ in range(scrapes):
            await asyncio.sleep(OLD_SECONDS)
            size = _ask(port, path, times) if path else 0
        spent[path] = cpu(pid) - before
    one = max(0.0, spent["/metrics"] - spent[""]) / scrapes
    return times.figures() | {
        "metrics_kb": round(size / 1000, 1),
        "cpu_of_a_scrape_ms": round(one * 1000, 2),
        "cpu_percent_at_one_in_15_s": round(100 * one / SCRAPED_EVERY, 3),
    }


def _ask(port: int, path: str, times: Times) -> int:
    """Bytes of the answer."""
    with times.of(path), closing(HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", path, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        answer = connection.getresponse()
        size = len(answer.read())
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status}")
    return size


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


if __name__ == "__main__":
    command(__doc__, measure, server=LOG_STATEMENTS)
