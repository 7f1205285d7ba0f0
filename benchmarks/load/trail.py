"""The trail's figures: verifying 100,000 leaves, making and checking one proof, and captures with and without anchoring.

    python -m benchmarks.load.trail
    python -m benchmarks.load.trail --leaves 10000 --tasks 2000 --pairs 2

Captures are measured in pairs, one after the other on the same database: with no word anchored, then with one outcome in
twenty, which is more than usual. Every other pair begins with the other half.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.harness import arguments, daemon, database, percentiles, report, wait_for
from benchmarks.load.pipeline import INSERT, tasks
from daemon.db.pool import Database
from daemon.logs import configure_logs, get_logger
from plugins.trail.log import Pace, Trail
from plugins.trail.reading import prove, read_keys, verify_all
from plugins.trail.rules.proof import Proof, check

FILL = """
insert into memory_anchors (agent_id, category, payload)
select 'agent' || n % 50, 'decision',
       jsonb_build_object('content', 'step ' || n || ' of a long plan', 'nonce', gen_random_uuid())
from generate_series(1, $1::integer) n
"""
IDS = "select anchor_id from memoryd.trail_leaves order by md5(anchor_id::text) limit $1"
PROOFS = 200
ANCHORED = 20
"""One outcome in this number has a word that anchors it."""
EMPTY = """
truncate agent_commands, agent_memory, memory_associations, memory_anchors, memory_queries, memoryd.fact_sources,
    memoryd.memory_uses, memoryd.quotes, memoryd.trail_leaves
"""


async def measure_log(url: str, leaves: int) -> dict[str, object]:
    """A log of this number of leaves: written, given places and signed, proved and verified."""
    connection = await asyncpg.connect(url)
    opened = await Database.open(url, size=3, pooled=False, logger=get_logger())
    began = time.perf_counter()
    await connection.execute(FILL, leaves)
    written = time.perf_counter() - began
    await connection.execute("analyze")
    began = time.perf_counter()
    key = Ed25519PrivateKey.generate()
    await Trail(opened, key=key, pace=Pace(1000, 300), ledgers=None, logger=get_logger()).advance()
    placed = time.perf_counter() - began
    keys = await read_keys(opened)
    ids = await connection.fetch(IDS, PROOFS + 1)
    proving: list[float] = []
    checking: list[float] = []
    for row in ids:
        began = time.perf_counter()
        text = str(await prove(connection, row["anchor_id"], with_row=True))
        proving.append(time.perf_counter() - began)
        began = time.perf_counter()
        check(Proof.parse(text), keys)
        checking.append(time.perf_counter() - began)
    began = time.perf_counter()
    found = await verify_all(opened, keys)
    verified = time.perf_counter() - began
    assert (found.leaves, found.breaks) == (leaves, []), found.breaks[:3]
    await opened.close()
    await connection.close()
    return {
        "leaves": leaves,
        "written_seconds": round(written, 2),
        "placed_and_signed_seconds": round(placed, 2),
        "verified_seconds": round(verified, 2),
        # The first one prepares the statements.
        **{f"prove_{name}": value for name, value in percentiles(proving[1:]).items()},
        **{f"check_{name}": value for name, value in percentiles(checking[1:]).items()},
    }


async def measure_captures(url: str, count: int, pairs: int) -> dict[str, object]:
    """Finished tasks a second, remembered and associated, with and without anchoring."""
    connection = await asyncpg.connect(url)
    rows = {
        anchoring: [
            (*row[:2], row[2] + f"\nrolled out {word}" * (n % ANCHORED == 0), *row[3:])
            for n, row in enumerate(tasks(None, 1, count))
        ]
        for anchoring, word in ((True, "milestone"), (False, "zyx"))
    }
    rates: dict[bool, list[float]] = {False: [], True: []}
    anchors = 0
    for pair in range(pairs + 1):
        for anchoring in (bool(pair % 2), not pair % 2):
            await connection.execute(EMPTY)
            async with daemon(url):
                began = time.perf_counter()
                await connection.execute(INSERT, *map(list, zip(*rows[anchoring], strict=True)))
                await wait_for(connection, "select not exists (select from memoryd.jobs)", pause=0.02)
                if pair:  # the first pair warms the server
                    rates[anchoring].append(count / (time.perf_counter() - began))
            if anchoring:
                anchors = await connection.fetchval("select count(*) from memory_anchors")
    await connection.close()
    ratios = [w / o for w, o in zip(rates[True], rates[False], strict=True)]
    return {
        "tasks": count,
        "pairs": pairs,
        "anchored_of_them": anchors,
        "without_tasks_per_second": [round(one) for one in rates[False]],
        "with_tasks_per_second": [round(one) for one in rates[True]],
        "with_to_without_median": round(statistics.median(ratios), 3),
        "with_to_without": [round(one, 3) for one in ratios],
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--leaves", type=int, default=100_000, help="leaves of the log")
    parser.add_argument(
        "--tasks", type=int, default=4000, help="finished tasks of each half of a pair; 0: none"
    )
    parser.add_argument("--pairs", type=int, default=4, help="pairs of captures, after one that warms up")
    options = parser.parse_args()
    configure_logs(level="warning", style="json")
    figures: dict[str, object] = {}
    with database(options.database_url) as url:
        figures |= asyncio.run(measure_log(url, options.leaves))
    if options.tasks:
        with database(options.database_url) as url:
            figures |= asyncio.run(measure_captures(url, options.tasks, options.pairs))
    report("trail", figures, options.json)


if __name__ == "__main__":
    main()
