"""Several daemons, all kinds of writers, a fault every few seconds; then an account only from the data.

    python -m benchmarks.soak --seconds 240 --seed 1

All of it works as a plain owner, as on a managed Postgres; the faults alone are a superuser's. Exit code 1 when a promise was
broken. The seed decides the texts and the order of faults, not their exact moments.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from benchmarks.harness import Figures, arguments, embedded, percentiles, prepare, report
from benchmarks.soak.account import account
from benchmarks.soak.faults import Daemons, Faults
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.writers import BROKEN, Writers
from plugins.embedded.server import EmbeddedPostgres
from tests.support.database.owners import as_role, make_owner

OWNER = "keeper"
SETTINGS = {"dream_idle_hours": "0.001"}
DRAIN_SECONDS = 600.0
WAITING = "select count(*) from memoryd.jobs"
SLOW_SECONDS = 5.0
"""Statements of clients that take longer are written to the log, with what they wait for."""
# The text of a writer's statement shows no content, since the content is in the arguments.
SLOW = """
select jsonb_build_object(
    'event', 'slow_statement', 'pid', a.pid, 'seconds', round(extract(epoch from clock_timestamp() - a.query_start), 1),
    'query', left(a.query, 200), 'waits_for', a.wait_event,
    'blocked_by', (select jsonb_agg(jsonb_build_object(
                       'pid', b.pid, 'application', b.application_name, 'state', b.state, 'query', left(b.query, 200),
                       'waits_for', b.wait_event, 'seconds', round(extract(epoch from clock_timestamp() - b.xact_start), 1)))
                   from pg_stat_activity b where b.pid = any(pg_blocking_pids(a.pid))))
from pg_stat_activity a
where a.datname = current_database() and a.state = 'active' and a.application_name not like 'memoryd%'
  and a.query_start < clock_timestamp() - make_interval(secs => $1)
"""


async def soak(
    server: EmbeddedPostgres, log: Path, folder: Path, given: argparse.Namespace
) -> tuple[Figures, Figures]:
    """The figures, and what is wrong."""
    url = await _owned(server.tcp_url)
    ledger = Ledger(random.Random(given.seed))
    writers = Writers(url, ledger, given.seed)
    stopping = asyncio.Event()
    (folder / "backups").mkdir()
    with log.open("ab") as stream:
        processes = Daemons(url, stream, SETTINGS | {"trail_key": f"file:{folder / 'key'}"})
        await processes.command("anchors", "new-key", str(folder / "key"))
        processes.start(given.daemons)
        faults = Faults(server, url, processes, random.Random(given.seed), folder / "backups")
        try:
            writing = asyncio.create_task(writers.run(given.write_pause))
            failing = asyncio.create_task(faults.run(stopping, given.fault_pause))
            watching = asyncio.create_task(_watch_slow(url, log))
            await asyncio.sleep(given.seconds)
            stopping.set()
            writers.stop()
            watching.cancel()
            await asyncio.gather(failing, writing)
            processes.replace_dead()
            drained = await _drain(url)
            connection = await asyncpg.connect(url)
            wrong = await account(connection, ledger)
            if drained is None:
                left = await connection.fetch("select topic, count(*) from memoryd.jobs group by 1")
                wrong["jobs_left"] = {r[0]: r[1] for r in left}
            await connection.close()
            last = str(folder / "last")
            for check in (["verify", "--all"], ["backup", last], ["backup", "--verify", last]):
                try:
                    await processes.command(*check)
                except OSError as error:
                    wrong[" ".join(check[:2])] = str(error)
        finally:
            processes.stop()
    figures: Figures = {
        "seconds": given.seconds,
        "daemons": given.daemons,
        "acknowledged_rows": ledger.acknowledged,
        "users_erased": sum(u.erased for u in ledger.users),
        "statements_broken": ledger.broken,
        "faults": dict(faults.done),
        "stopped_by_another_fault": dict(faults.failed),
        "seconds_until_a_command_had_its_context_at_worst": faults.recovered,
        "rows_by_table": {table: len(rows) for table, rows in sorted(ledger.rows.items())},
        "drained_in_seconds": drained,
        "recall": percentiles(ledger.recalls) if len(ledger.recalls) > 1 else None,
        "log": _events(log),
    }
    return figures, wrong


async def _owned(admin: str) -> str:
    """A migrated database of a plain owner; its URL."""
    await make_owner(admin, OWNER)
    connection = await asyncpg.connect(admin)
    await connection.execute(f"create database soak owner {OWNER}")
    await connection.close()
    soaked = urlunsplit(urlsplit(admin)._replace(path="/soak"))
    connection = await asyncpg.connect(soaked)
    await connection.execute("create extension vector with schema public")
    await connection.close()
    url = as_role(soaked, OWNER)
    await prepare(url)
    return url


async def _watch_slow(url: str, log: Path) -> None:
    """Writes to the log, every few seconds, which statements of clients take long, until cancelled."""
    while True:
        await asyncio.sleep(SLOW_SECONDS)
        with contextlib.suppress(*BROKEN):
            connection = await asyncpg.connect(url, timeout=5)
            try:
                slow = await connection.fetch(SLOW, SLOW_SECONDS)
            finally:
                connection.terminate()
            with log.open("a", encoding="utf-8") as stream:
                stream.writelines(f'{row[0][:-1]}, "level": "warning"}}\n' for row in slow)


async def _drain(url: str) -> float | None:
    """Seconds until nothing is left to do; None when that takes too long."""
    began = time.perf_counter()
    while time.perf_counter() - began < DRAIN_SECONDS:
        with contextlib.suppress(*BROKEN):
            connection = await asyncpg.connect(url, timeout=5)
            try:
                while time.perf_counter() - began < DRAIN_SECONDS:
                    if await connection.fetchval(WAITING) == 0:
                        return round(time.perf_counter() - began, 1)
                    await asyncio.sleep(0.2)
            finally:
                connection.terminate()
    return None


def _events(log: Path) -> dict[str, int]:
    """Warnings and errors of all daemons, counted; what is no JSON as such."""
    counts: Counter[str] = Counter()
    for line in log.read_text("utf-8", "replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            counts["not_json"] += 1
            continue
        if entry.get("level") in ("warning", "error"):
            counts[f"{entry['level']} {entry['event']}"] += 1
    return dict(counts.most_common())


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=240, help="of writing")
    parser.add_argument("--daemons", type=int, default=3, help="at work")
    parser.add_argument("--fault-pause", type=float, default=4.0, help="seconds between two faults")
    parser.add_argument(
        "--write-pause", type=float, default=0.02, help="seconds between two statements of a writer"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the texts and of the faults' order")
    parser.add_argument("--log", type=Path, help="keep the daemons' log here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, embedded() as server:
        log = options.log or Path(folder, "log")
        figures, wrong = asyncio.run(soak(server, log, Path(folder), options))
    report("soak", figures | {"wrong": wrong or "nothing"}, options.json)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
