"""A daemon at rest: memory, processor, queries; and how long from its start until the first command is ready to be claimed.

python -m benchmarks.load.rest --seconds 60
"""

from __future__ import annotations

import asyncio
import time

import asyncpg
import psutil

from benchmarks.harness import arguments, daemon, embedded, megabytes, report, wait_for
from benchmarks.load.pipeline import INSERT, tasks
from plugins.embedded.server import EmbeddedPostgres

LOG_STATEMENTS = {"log_statement": "all", "log_line_prefix": "app=%a "}
OURS = "app=memoryd"


async def measure(server: EmbeddedPostgres, seconds: float, warm_tasks: int) -> dict[str, object]:
    """Does some work first, so that everything that is loaded on demand is loaded; then watches the daemon do nothing."""
    url = server.socket_url
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
        before_cpu, before_queries = process.cpu_times(), _statements(server)
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        after_cpu, after_queries = process.cpu_times(), _statements(server)
        watched = time.perf_counter() - began
        resident = process.memory_info().rss
        peak = round(megabytes(running.process.pid), 1)
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


def _statements(server: EmbeddedPostgres) -> int:
    """Statements of the daemon so far, from the server's log."""
    return sum(line.startswith(OURS) for line in server.log_path.read_text("utf-8", "replace").splitlines())


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the idle daemon is watched")
    parser.add_argument("--warm", type=int, default=2000, help="tasks done before")
    options = parser.parse_args()
    if options.database_url is not None:
        parser.error("statements are counted in the server's log: this one needs the embedded Postgres")
    with embedded(options=LOG_STATEMENTS) as server:
        figures = asyncio.run(measure(server, options.seconds, options.warm))
    report("rest", figures, options.json)


if __name__ == "__main__":
    main()
