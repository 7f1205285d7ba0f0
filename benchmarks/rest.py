"""A daemon at rest: memory, processor, queries; and how long from its start until the first command is ready to be claimed.

python -m benchmarks.rest --seconds 60
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import asyncpg
import psutil

from benchmarks.harness import arguments, daemon, database, report, wait_for
from benchmarks.pipeline import INSERT, tasks

STATEMENTS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


async def measure(url: str, seconds: float, warm_tasks: int) -> dict[str, object]:
    """Does some work first, so that everything that is loaded on demand is loaded; then watches the daemon do nothing."""
    connection = await asyncpg.connect(url)
    # One that waits when the daemon comes up: its way is part of the start.
    await connection.execute(
        "insert into agent_commands (agent_id, message) values ('alice', 'the first one')"
    )
    async with daemon(url) as running:
        await wait_for(connection, "select exists (select from agent_commands where status = 'ready')")
        await connection.fetch("select * from claim_command('alice')")
        first_claim = time.perf_counter() - running.started
        rows = tasks(None, 1, warm_tasks)
        await connection.execute(INSERT, *map(list, zip(*rows, strict=True)))
        await wait_for(connection, "select not exists (select from memoryd.jobs)", pause=0.05)
        process = psutil.Process(running.process.pid)
        await asyncio.sleep(2)
        before_cpu, before_queries = process.cpu_times(), await _settled(connection)
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        after_cpu, after_queries = process.cpu_times(), await _settled(connection)
        watched = time.perf_counter() - began
        resident = process.memory_info().rss
        peak = _peak(running.process.pid)
    await connection.close()
    spent = after_cpu.user + after_cpu.system - before_cpu.user - before_cpu.system
    return {
        "start_to_first_claim_s": round(first_claim, 2),
        "resident_mb": round(resident / 1e6, 1),
        "peak_resident_mb": peak,
        "cpu_percent": round(100 * spent / watched, 2),
        "queries_per_second": round((after_queries - before_queries) / watched, 2),
        "seconds_watched": round(watched),
    }


async def _settled(connection: asyncpg.Connection) -> int:
    """Transactions of the database so far, its own background workers' included: an upper bound."""
    await connection.execute("select pg_stat_force_next_flush()")
    return int(await connection.fetchval(STATEMENTS))


def _peak(pid: int) -> float | None:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return round(int(line.split()[1]) * 1024 / 1e6, 1)
    except OSError:
        pass
    return None


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the idle daemon is watched")
    parser.add_argument("--warm", type=int, default=2000, help="tasks done before")
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, options.seconds, options.warm))
    report("rest", figures, options.json)


if __name__ == "__main__":
    main()
