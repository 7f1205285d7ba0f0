"""Tenants: databases added from the template, and one with memories moved: seconds.

    python -m benchmarks.load.tenants --tenants 20 --rows 10000

Measured without the start of a Python process: what `memoryd tenant add` and `memoryd tenant move` do. The rows are those of
benchmarks.load.ingest, indexed and associated; they are moved to another embedded Postgres.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import asyncpg

from benchmarks.harness import LOCAL, arguments, embedded, percentiles, report
from benchmarks.load.ingest import measure as ingest
from daemon.cli.operations.migrate import migrate_database
from daemon.embedded.server import EmbeddedPostgres
from daemon.settings import load_settings
from daemon.tenants.add import add_tenant
from daemon.tenants.listed import read_listed
from daemon.tenants.look import look
from daemon.tenants.move import move_tenant
from daemon.tenants.template import Migrate
from daemon.tenants.urls import on_database

SIZE = "select pg_database_size(current_database())"


def migrating() -> Migrate:
    """As the command does it."""
    settings = load_settings()
    return lambda url: migrate_database(settings, url)


async def add(url: str, file: Path, count: int) -> dict[str, object]:
    """The first one makes the template; the others are copies."""
    took = []
    for number in range(count + 1):
        began = time.perf_counter()
        await add_tenant(file, f"t{number}", url, model=LOCAL, admin_roles=[], migrate=migrating())
        took.append(time.perf_counter() - began)
    began = time.perf_counter()
    found = await look(read_listed(file))
    listed = time.perf_counter() - began
    assert all(one.up_to_date for one in found)
    return {
        "first_with_template_seconds": round(took[0], 2),
        "tenants": count,
        **{f"add_{name}": value for name, value in percentiles(took[1:]).items()},
        "size_mb": round((found[0].bytes or 0) / 1e6, 1),
        "list_seconds": round(listed, 2),
    }


async def move(url: str, other: str, file: Path, rows: int) -> dict[str, object]:
    """Fills the first tenant and moves it."""
    await ingest(on_database(url, "t0"), "agent_memory", rows, 4)
    connection = await asyncpg.connect(on_database(url, "t0"))
    size = await connection.fetchval(SIZE)
    await connection.close()
    steps: list[float] = []
    began = time.perf_counter()
    moved = await move_tenant(
        file,
        read_listed(file)[0],
        on_database(other, "t0"),
        dump=file.with_name("dump"),
        migrate=migrating(),
        tell=lambda _: steps.append(time.perf_counter() - began),
    )
    return {
        "memories": rows,
        "rows": moved.rows,
        "database_mb": round(size / 1e6),
        "dumped_after_seconds": round(steps[1], 1),
        "restored_after_seconds": round(steps[2], 1),
        "moved_after_seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    if options.database_url is not None:
        parser.error("it needs a server of its own: leave --database-url away")
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder, embedded() as server:
        file = Path(folder) / "tenants"
        figures = asyncio.run(add(server.socket_url, file, options.tenants))
        other = EmbeddedPostgres(Path(folder) / "other")
        other.start()
        try:
            figures |= asyncio.run(move(server.socket_url, other.socket_url, file, options.rows))
        finally:
            other.stop("immediate")
    report("tenants", figures, options.json)


if __name__ == "__main__":
    main()
