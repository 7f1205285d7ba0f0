"""The doctor's checks of the trail: whether checkpoints are signed, and whether the ledgers are usable."""

from __future__ import annotations

import asyncpg

from daemon.plugins import Check, split_advice
from daemon.settings import Settings
from plugins.trail.build import build_ledgers
from plugins.trail.keys import key_file, signing_key
from plugins.trail.settings import Trail

LATE = 10.0
"""How many times the usual pause a checkpoint may be late."""

READ = """
select t.size, coalesce(c.size, 0) as signed,
       extract(epoch from now() - c.signed_at)::float8 as since,
       (select extract(epoch from now() - min(a.created_at))::float8
        from memoryd.trail_leaves l join public.memory_anchors a on a.id = l.anchor_id
        where l.position is null) as waiting_seconds,
       (select string_agg(distinct r.ledger, ', ') from memoryd.trail_receipts r
        where not r.final and r.attempts >= 3) as failing
from memoryd.trail t
left join lateral (select c.size, c.signed_at from memoryd.trail_checkpoints c order by c.size desc limit 1) c on true
"""


async def check_ledgers(settings: Settings) -> Check:
    """Whether the ledgers of the settings here can be used. They are not called."""
    try:
        ledgers, left_out = build_ledgers(settings)
    except ValueError as error:
        return Check("ledgers", "problem", *split_advice(str(error)))
    for one in ledgers:
        await one.close()
    if left_out:
        found = "; ".join(f"{one.name} is left out: {one.reason}" for one in left_out)
        advice = "Set or install what is missing (docs/ledgers.md), or take the name out of MEMORYD_LEDGERS."
        return Check("ledgers", "warning", f"{found}.", advice)
    if not ledgers:
        return Check("ledgers", "ok", "None is set: only this database keeps the trail.")
    return Check("ledgers", "ok", f"{', '.join(one.name for one in ledgers)} (not called now).")


async def check_trail(connection: asyncpg.Connection, settings: Settings) -> Check:
    """The trail of this database, and the key that the settings here name."""
    [row] = await connection.fetch(READ)
    try:
        key = signing_key(settings)
    except ValueError as error:
        return Check("trail", "problem", *split_advice(str(error)))
    found = f"{row['size']:,} leaves, {row['signed']:,} of them signed."
    if row["failing"]:
        return Check("trail", "warning", f"Ledgers fail: {row['failing']}.", "See why: memoryd anchors")
    if key is None and key_file(settings) is None:
        if not row["size"] and not row["waiting_seconds"]:
            return Check("trail", "ok", "Nothing is anchored, and no key is set (MEMORYD_TRAIL_KEY).")
        advice = "Run: memoryd anchors new-key FILE, and set MEMORYD_TRAIL_KEY to file:FILE."
        return Check("trail", "warning", f"{found} No key is set here, so none is signed from here.", advice)
    late = LATE * settings.section(Trail).trail_checkpoint_minutes * 60
    if (row["waiting_seconds"] or 0.0) > late or (
        row["size"] > row["signed"] and (row["since"] or 0.0) > late
    ):
        return Check(
            "trail", "warning", f"{found} The next checkpoint is late.", "See why: memoryd verify --all"
        )
    return Check("trail", "ok", f"{found} Counted, not verified: memoryd verify --all does that.")
