"""One process that serves many databases: its cost at rest, how soon a command is ready, and what a flood in one is to others.

    python -m benchmarks.load.databases --databases 200

All are on one embedded Postgres, so what the server does for a flood is in the figures, too. The same flood is measured once
more where another process serves that database ("of_another_process"): the rest is what one process for all adds.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

from benchmarks.harness import Figures, command, cpu, daemon, percentiles, wait_for

RESTS = "select exists (select from memoryd.daemons where wake_up = 'rest')"
CONNECTIONS = """
select count(*)::float8 / $1 from pg_stat_activity
where application_name in ('memoryd', 'memoryd listener', 'memoryd resting') and backend_type = 'client backend'
"""
ASK = "insert into agent_commands (agent_id, message) values ('alice', 'deploy the staging server') returning id"
READY = "select status = 'ready' from agent_commands where id = $1"
FLOOD = """
insert into agent_memory (agent_id, content)
select 'alice', 'service ' || n || ' answers slowly after deploy ' || n * 7 from generate_series($1::integer, $1 + 99) n
"""


async def copies(admin: str, number: int) -> list[str]:
    """Databases copied from the one that is migrated; their URLs."""
    parts = urlsplit(admin)
    connection = await asyncpg.connect(urlunsplit(parts._replace(path="/postgres")))
    source = parts.path.strip("/")
    urls = []
    # Each of hundreds of files would be written through to the disk.
    await connection.execute("alter system set fsync = off")
    await connection.execute("select pg_reload_conf()")
    for n in range(number):
        await connection.execute(f'create database "tenant{n}" template "{source}" strategy file_copy')
        urls.append(urlunsplit(parts._replace(path=f"/tenant{n}")))
    await connection.execute("alter system reset fsync")
    await connection.execute("select pg_reload_conf()")
    await connection.close()
    return urls


def listed(folder: str, urls: Sequence[str]) -> str:
    """A file that lists them."""
    file = Path(folder) / f"databases-{len(urls)}"
    file.write_text("".join(f"tenant{n}={url}\n" for n, url in enumerate(urls)))
    return str(file)


async def ready_after(url: str, times: int, pause: float = 0.05) -> list[float]:
    """Seconds from an insert until the command has its context."""
    connection = await asyncpg.connect(url)
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await wait_for(connection, READY, await connection.fetchval(ASK), pause=0.002)
        took.append(time.perf_counter() - began)
        await asyncio.sleep(pause)
    await connection.close()
    return took


async def all_ready(urls: Sequence[str], times: int) -> list[float]:
    """The same of several databases at once."""
    taken = await asyncio.gather(*(ready_after(url, times) for url in urls))
    return [seconds for each in taken for seconds in each]


@asynccontextmanager
async def flood(url: str) -> AsyncIterator[None]:
    """Rows come in faster than they can be indexed."""
    connection = await asyncpg.connect(url)

    async def pour() -> None:
        number = 0
        while True:
            await connection.execute(FLOOD, number)
            number += 100
            await asyncio.sleep(0.02)

    pouring = asyncio.create_task(pour())
    try:
        await asyncio.sleep(3)
        yield
    finally:
        pouring.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pouring
        await connection.close()


async def all_rest(urls: Sequence[str]) -> None:
    """Waits until each of them is left alone."""
    for url in urls:
        connection = await asyncpg.connect(url)
        await wait_for(connection, RESTS, pause=0.05)
        await connection.close()


async def measure(
    admin: str,
    connection: asyncpg.Connection,
    *,
    databases: int = 200,
    seconds: Annotated[float, "of rest that are measured"] = 60,
) -> Figures:
    """All figures."""
    await connection.close()  # only a database that nobody uses can be copied
    figures: Figures = {"databases": databases}
    with tempfile.TemporaryDirectory() as folder:
        urls = await copies(admin, databases)
        async with daemon(
            urls[0], database_urls=listed(folder, urls), rest_seconds=5, databases_at_once=50
        ) as running:
            await all_rest(urls)
            figures["all_served_s"] = round(time.perf_counter() - running.started, 1)
            process = psutil.Process(running.process.pid)
            connection = await asyncpg.connect(urls[0])
            before = cpu(running.process.pid)
            await asyncio.sleep(seconds)
            figures["rest_core_percent"] = round((cpu(running.process.pid) - before) / seconds * 100, 2)
            figures["rest_mb"] = round(process.memory_info().rss / 1e6)
            figures["rest_connections_each"] = round(await connection.fetchval(CONNECTIONS, databases), 2)
            await connection.close()
            woken = [
                took for url in urls[1 : 1 + min(40, databases - 1)] for took in await ready_after(url, 1)
            ]
            figures |= percentiles(woken, "from_rest_")
        quiet = urls[1:5]
        async with daemon(urls[0], database_urls=listed(folder, urls[:6]), rest_seconds=600):
            await all_ready(quiet, 3)
            figures |= percentiles(await all_ready(quiet, 60), "awake_")
            async with flood(urls[0]):
                figures |= percentiles(await all_ready(quiet, 60), "beside_a_flood_")
        async with (
            daemon(urls[1], database_urls=listed(folder, urls[1:5]), rest_seconds=600),
            daemon(urls[0], rest_seconds=600),
        ):
            await all_ready(quiet, 3)
            async with flood(urls[0]):
                figures |= percentiles(await all_ready(quiet, 60), "beside_a_flood_of_another_process_")
    return figures


if __name__ == "__main__":
    command(__doc__, measure, server={"max_connections": "1000"})
