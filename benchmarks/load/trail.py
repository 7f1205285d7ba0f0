"""The trail's figures: a log of many leaves written, signed and verified; one proof made and checked.

python -m benchmarks.load.trail --leaves 10000
"""

from __future__ import annotations

from typing import Annotated

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.harness import Figures, Times, command
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


async def measure(
    url: str, connection: asyncpg.Connection, *, leaves: Annotated[int, "leaves of the log"] = 100_000
) -> Figures:
    """A log of this number of leaves: written, given places and signed, proved and verified."""
    configure_logs(level="warning", style="json")
    opened = await Database.open(url, size=3, pooled=False, logger=get_logger())
    once, times = Times(), Times(warm=1)  # the first one prepares the statements
    with once.of("written"):
        await connection.execute(FILL, leaves)
    await connection.execute("analyze")
    key = Ed25519PrivateKey.generate()
    with once.of("placed_and_signed"):
        await Trail(opened, key=key, pace=Pace(1000, 300), ledgers=None, logger=get_logger()).advance()
    keys = await read_keys(opened)
    ids = await connection.fetch(IDS, PROOFS + 1)
    for row in ids:
        with times.of("prove"):
            text = str(await prove(connection, row["anchor_id"], with_row=True))
        with times.of("check"):
            check(Proof.parse(text), keys)
    with once.of("verified"):
        found = await verify_all(opened, keys)
    assert (found.leaves, found.breaks) == (leaves, []), found.breaks[:3]
    await opened.close()
    seconds = {
        f"{name}_seconds": round(once[name][0], 2) for name in ("written", "placed_and_signed", "verified")
    }
    return {"leaves": leaves, **seconds, **times.figures()}


if __name__ == "__main__":
    command(__doc__, measure)
