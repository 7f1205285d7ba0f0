"""Reads the whole trail of a database, and says each break that it has (memory/trail/audit.py).

Promise: it changes nothing. Rows are read some thousands at a time, each with its leaf in one statement: what is written or
erased meanwhile is no break.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from daemon.db.pool import Database
from daemon.trail.ledgers import Asked
from daemon.trail.log import origin_of
from memory.trail.audit import Break, Leaf, Signed, check_notes, compare
from memory.trail.merkle import leaf_hash
from memory.trail.note import Checkpoint, Verifier
from memory.trail.proof import leaf_of
from memory.trail.tiles import split

ROWS = 5000
GAP = 1_000_000
"""Leaves that may be missing in one place: more are not counted one by one."""
STATE = "select id, size, carried from memoryd.trail"
KEYS = "select verifier from memoryd.trail_keys order by first_used, key_id"
CHECKPOINTS = "select size, note from memoryd.trail_checkpoints order by size"
LEAVES = """
select l.position, l.anchor_id, l.leaf, l.salt, l.chained, a.id is not null as there, a.agent_id, a.content_hash,
       a.previous_hash, a.memory_id is null or a.memory_id is not distinct from l.memory_id as own_memory,
       l.salt is null and l.memory_id is null and a.payload <> '{"erased": true}' as refilled,
       case when l.salt is not null and a.id is not null then memoryd.anchor_text(a, l.memory_id, l.chained) end as said
from memoryd.trail_leaves l
left join public.memory_anchors a on a.id = l.anchor_id
where l.position > $1
order by l.position
limit $2
"""
TILES = "select number, hashes from memoryd.trail_tiles where level = 0 order by number"
STRAYS = """
select a.id from public.memory_anchors a
where not exists (select from memoryd.trail_leaves l where l.anchor_id = a.id)
order by a.created_at, a.id
limit 1000
"""
CHANGED = """
select a.id, a.memory_id from public.memory_anchors a
join memoryd.trail_leaves l on l.anchor_id = a.id and l.salt is not null
join public.agent_memory m on m.id = a.memory_id
where a.payload ? 'content' and a.payload ->> 'content' is distinct from m.content
order by l.position
limit 1000
"""


@dataclass(slots=True)
class Found:
    """What was found of the trail of one database."""

    origin: str
    leaves: int = 0
    sealed: int = 0
    """Leaves whose rows were erased."""
    unsigned: int = 0
    """Leaves behind the last checkpoint."""
    checkpoints: int = 0
    breaks: list[Break] = field(default_factory=list)
    changed: list[dict[str, str]] = field(default_factory=list)
    """Anchors whose memory says something else now."""
    ledgers: list[Asked] = field(default_factory=list)
    """What ledgers were asked about, where they were."""


async def read_keys(database: Database) -> list[Verifier]:
    """The public keys that the database itself names."""
    return [Verifier.parse(row["verifier"]) for row in await database.fetch(KEYS)]


async def verify_all(
    database: Database, keys: Sequence[Verifier], *, known: Sequence[Checkpoint] = ()
) -> Found:
    """Compares every row with its leaf, and the log with every checkpoint.

    `known`: checkpoints that were kept outside of the database, with a good signature.
    """
    # Before the leaves: none of those that are signed is missing when these are read.
    stored = [Signed(row["size"], row["note"]) for row in await database.fetch(CHECKPOINTS)]
    [state] = await database.fetch(STATE)
    found = Found(origin_of(state["id"]))
    checkpoints, found.breaks = check_notes(stored, found.origin, keys)
    checkpoints = sorted({*checkpoints, *known}, key=lambda one: one.size)
    found.checkpoints = len(checkpoints)
    now, chain = await _leaves(database, found)
    copy = [one for row in await database.fetch(TILES) for one in split(row["hashes"])]
    broken = {one.position for one in found.breaks}
    differences = await asyncio.to_thread(compare, now, copy, checkpoints)
    found.breaks += [one for one in differences if one.position is None or one.position not in broken]
    if not found.breaks:
        # Where a leaf is missing or in another place, the chains cannot be right either.
        found.breaks += chain
    if state["carried"]:
        says = "it has no leaf: it was not written as others are"
        found.breaks += [
            Break("inserted", None, str(row["id"]), says) for row in await database.fetch(STRAYS)
        ]
    found.unsigned = max(0, len(now) - max((one.size for one in checkpoints), default=0))
    found.changed = [
        {"anchor": str(row["id"]), "memory": str(row["memory_id"])} for row in await database.fetch(CHANGED)
    ]
    return found


async def _leaves(database: Database, found: Found) -> tuple[list[Leaf | None], list[Break]]:
    """The leaves by position, and the breaks of agents' chains; what the rows break is added to `found`."""
    now: list[Leaf | None] = []
    chains: dict[str, bytes] = {}
    broken: list[Break] = []
    last = -1
    while rows := await database.fetch(LEAVES, last, ROWS):
        last = rows[-1]["position"]
        hashed = await asyncio.to_thread(_hashed, rows)
        for row, (hash_, own) in zip(rows, hashed, strict=True):
            position, anchor = int(row["position"]), str(row["anchor_id"])
            if position - len(now) > GAP:
                found.breaks.append(Break("reordered", position, anchor, "no log is so long"))
                continue
            now += [None] * (position - len(now))
            now.append(Leaf(anchor, hash_))
            found.leaves += 1
            found.sealed += row["salt"] is None
            if not row["there"]:
                found.breaks.append(Break("removed", position, anchor, "the row is gone"))
            elif row["refilled"]:
                # An import gives the leaf its memory again; nobody else writes into what was erased.
                found.breaks.append(
                    Break("altered", position, anchor, "it was erased, and says something again")
                )
            elif not own:
                found.breaks.append(Break("altered", position, anchor, "the row is not what was anchored"))
            elif not row["chained"] and row["previous_hash"] != chains.get(row["agent_id"]):
                says = "previous_hash is not the hash of the agent's anchor before"
                broken.append(Break("altered", position, anchor, says))
            if row["there"]:
                chains[row["agent_id"]] = row["content_hash"]
    return now, broken


def _hashed(rows: Sequence[Any]) -> list[tuple[bytes, bool]]:
    return [(leaf_hash(row["leaf"]), _is_own(row)) for row in rows]


def _is_own(row: Any) -> bool:
    """Whether a row is what its leaf says; True where the leaf says nothing any more."""
    if row["salt"] is None or row["said"] is None:
        return True
    return bool(row["own_memory"]) and leaf_of(row["said"], row["salt"]) == row["leaf"]
