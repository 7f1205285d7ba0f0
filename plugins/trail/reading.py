"""Reads the whole trail of a database, and reports its breaks (plugins/trail/rules/audit.py); and makes the proof of one anchor
from a few rows: its leaf, the last checkpoint, and the tiles up to its root.

Promise: it changes nothing. Rows are read some thousands at a time, each with its leaf in one statement: concurrent writes and
erasures are no breaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from daemon.db.pool import Database
from daemon.settings import Settings
from handlers.shared.ports import AnyConnection
from plugins.trail.answers import LedgerAnswer, query_ledgers
from plugins.trail.delivery import CHAINS as CHAIN_LEDGERS
from plugins.trail.log import LAST, origin_of, read_tiles
from plugins.trail.rules.audit import Break, How, Leaf, check_notes, check_tiles, compare
from plugins.trail.rules.merkle import MissingTileError, Tiles, inclusion, leaf_hash, nodes_of, tiles_for
from plugins.trail.rules.note import BadNote, Checkpoint, Note, Verifier
from plugins.trail.rules.proof import Proof, leaf_of

FIND = """
select l.anchor_id, l.position, l.leaf, l.salt, a.id is not null as there,
       case when l.salt is not null and a.id is not null then memoryd.anchor_text(a, l.memory_id, l.chained) end as said
from memoryd.trail_leaves l
left join public.memory_anchors a on a.id = l.anchor_id
where l.anchor_id = $1
   or l.anchor_id = (select a.id from public.memory_anchors a where a.memory_id = $1
                     order by a.created_at desc, a.id limit 1)
order by l.anchor_id = $1 desc
limit 1
"""


class ProofError(Exception):
    """There is no proof; the message says why."""


class MissingSignatureError(ProofError):
    """The anchor is in no checkpoint yet."""


async def prove(connection: AnyConnection, anchor: UUID, *, with_row: bool) -> Proof:
    """The proof of the anchor with this id, or of the newest anchor of the memory with it. Raises ProofError."""
    leaf = await connection.fetchrow(FIND, anchor)
    if leaf is None:
        raise ProofError(
            "There is no anchor, and no anchored memory, with this id. To see them: memoryd anchors"
        )
    checkpoint = await connection.fetchrow(LAST)
    index = leaf["position"]
    if index is None or checkpoint is None or index >= checkpoint["size"]:
        raise MissingSignatureError(
            "The anchor is in no signed checkpoint yet. A daemon with a key signs one within "
            "MEMORYD_TRAIL_CHECKPOINT_MINUTES. To see when the last one was signed: memoryd anchors"
        )
    size = int(checkpoint["size"])
    tiles = await read_tiles(connection, tiles_for(lambda nodes: inclusion(index, size, nodes)))
    try:
        path = inclusion(index, size, nodes_of(tiles))
    except MissingTileError as error:
        raise ProofError(f"{str(error).capitalize()}. To see what is broken: memoryd verify --all") from None
    shown = with_row and leaf["said"] is not None
    return Proof(
        index,
        path,
        Note.parse(checkpoint["note"]),
        leaf["leaf"],
        leaf["said"] if shown else None,
        leaf["salt"] if shown else None,
    )


ROWS = 5000
GAP = 1_000_000
"""Consecutive missing leaves that are reported one by one."""
STATE = "select id, size, carried from memoryd.trail"
KEYS = "select verifier from memoryd.trail_checkpoints group by verifier order by min(size), verifier"
CHECKPOINTS = "select size, root, note, verifier from memoryd.trail_checkpoints order by size"
# is_empty: it shows nothing beyond its leaf. filled_again: an import by an older memoryd brought its row back without the salt;
# so nobody can verify it any more.
LEAVES = """
select l.id, l.position, l.anchor_id, l.leaf, l.salt, a.id is not null as there,
       a.payload = '{"erased": true}' and a.category is null and a.created_at is null and a.cid is null
           and a.chain_tx is null and a.memory_id is null and l.user_id is null and l.memory_id is null
           and (a.previous_hash is null or not l.chained) as is_empty,
       l.memory_id is not null and a.payload <> '{"erased": true}' as filled_again,
       a.memory_id is not distinct from l.memory_id or (a.memory_id is null and m.id is null) as own_memory,
       l.chained and a.previous_hash is null as unchained,
       (m.id is not null or u.id is not null)
           and l.user_id is distinct from m.user_id and l.user_id is distinct from u.id as of_another,
       a.chain_tx is distinct from c.reference and c.reference is not null as other_transaction,
       a.chain_tx is not null and c.reference is null as unknown_transaction,
       case when l.salt is not null and a.id is not null then memoryd.anchor_text(a, l.memory_id, l.chained) end as said
from memoryd.trail_leaves l
left join public.memory_anchors a on a.id = l.anchor_id
left join public.agent_memory m on m.id = l.memory_id
left join lateral (
    select (a.payload ->> 'user_id')::uuid as id where pg_input_is_valid(a.payload ->> 'user_id', 'uuid')) u on true
left join lateral (
    select r.reference from memoryd.trail_receipts r where r.anchor_id = a.id and r.final and r.ledger = any($3) limit 1
) c on true
"""
PLACED = f"{LEAVES} where l.position > $1 order by l.position limit $2"
WAITING = f"{LEAVES} where l.position is null and l.id > $1 order by l.id limit $2"
# In one statement: a row that is erased, linked again or given a position meanwhile is no break.
CHAINS = """
select c.id, c.position
from (select a.id, l.position, l.chained, a.previous_hash,
             lag(a.content_hash) over (partition by a.agent_id order by l.position) as before
      from memoryd.trail_leaves l join public.memory_anchors a on a.id = l.anchor_id
      where l.position is not null) c
where not c.chained and c.previous_hash is distinct from c.before
order by c.position
limit 1000
"""
AGENTS = """
select count(*)
from (select distinct on (a.agent_id) a.agent_id, count(*) over (partition by a.agent_id) as anchors, a.content_hash
      from memoryd.trail_leaves l join public.memory_anchors a on a.id = l.anchor_id
      where l.position is not null
      order by a.agent_id, l.position desc) c
full join memoryd.trail_agents g using (agent_id)
where c.anchors is distinct from g.anchors or c.content_hash is distinct from g.last_hash
"""
TILES = "select level, number, hashes from memoryd.trail_tiles order by level, number"
STRAYS = """
select a.id from public.memory_anchors a
where not exists (select from memoryd.trail_leaves l where l.anchor_id = a.id)
order by a.created_at, a.id
limit 1000
"""
LEAFLESS = """
select count(*) from public.memory_anchors a
where not exists (select from memoryd.trail_leaves l where l.anchor_id = a.id)
"""
CHANGED = """
select a.id, m.id as memory_id from public.memory_anchors a
join memoryd.trail_leaves l on l.anchor_id = a.id and l.salt is not null
join public.agent_memory m on m.id = l.memory_id
where case when a.payload ? 'content' then a.payload ->> 'content' is distinct from m.content
           when a.payload ? 'content_sha256'
               then a.payload ->> 'content_sha256' is distinct from encode(sha256(convert_to(m.content, 'UTF8')), 'hex')
           end
order by l.position
limit 1000
"""


@dataclass(slots=True)
class Verification:
    origin: str
    leaves: int = 0
    sealed: int = 0
    """Leaves whose rows were erased."""
    unsigned: int = 0
    """Leaves after the last checkpoint."""
    waiting: int = 0
    """Anchors that have no position in the log yet."""
    checkpoints: int = 0
    breaks: list[Break] = field(default_factory=list)
    unverifiable: list[Break] = field(default_factory=list)
    """Rows that no signature confirms or refutes."""
    changed: list[dict[str, str]] = field(default_factory=list)
    """Anchors whose memory has changed."""
    ledgers: list[LedgerAnswer] = field(default_factory=list)
    """The answers of the ledgers, if they were asked."""


async def read_keys(database: Database) -> list[Verifier]:
    """The readable public keys of the database itself."""
    keys: list[Verifier] = []
    for row in await database.fetch(KEYS):
        with suppress(BadNote):
            keys.append(Verifier.parse(row["verifier"]))
    return keys


async def verify_all(
    database: Database,
    keys: Sequence[Verifier],
    *,
    known: Sequence[Checkpoint] = (),
    tell: Callable[[int], None] = lambda _: None,
    ask: Settings | None = None,
) -> Verification:
    """Compares every row with its leaf, and the log with every checkpoint.

    `known`: checkpoints from outside of the database, with a valid signature. `tell`: called with the number of leaves read.
    `ask`: the settings of ledgers that are asked, too. Raises ValueError.
    """
    # Before the leaves: none of those that are signed is missing when these are read.
    stored = await database.fetch(CHECKPOINTS)
    state = await _state(database)
    found = Verification(origin_of(state["id"]))
    checkpoints, found.breaks = check_notes(stored, found.origin, keys)
    checkpoints = sorted({*checkpoints, *known}, key=lambda one: one.size)
    found.checkpoints = len(checkpoints)
    waiting = await _waiting(database, found)
    now = await _leaves(database, found, tell)
    tiles = {(row["level"], row["number"]): row["hashes"] for row in await database.fetch(TILES)}
    after = await _state(database)
    broken = {one.position for one in found.breaks}
    differences = await asyncio.to_thread(compare, now, tiles, checkpoints)
    found.breaks += [one for one in differences if one.position is None or one.position not in broken]
    if not found.breaks:
        # With a missing or misplaced leaf, the tables made from the leaves cannot be right either.
        found.breaks += await _derived(database, now, tiles, sizes=(state["size"], after["size"]))
    found.breaks += [
        Break("inserted", None, str(row["id"]), "it has no leaf: it was not written as others are")
        for row in (await database.fetch(STRAYS) if state["carried"] else ())
    ]
    # One may have got its position meanwhile.
    known_breaks = {one.anchor for one in found.breaks}
    found.breaks += [one for one in waiting if one.anchor not in known_breaks]
    if not state["carried"]:
        found.waiting += (await database.fetch(LEAFLESS))[0]["count"]
        says = "anchors from before the log wait for their leaves: a daemon gives them"
        found.unverifiable.append(Break("unverifiable", None, None, says))
    found.unsigned = max(0, len(now) - max((one.size for one in checkpoints), default=0))
    found.changed = [
        {"anchor": str(row["id"]), "memory": str(row["memory_id"])} for row in await database.fetch(CHANGED)
    ]
    if ask is not None:
        found.ledgers, disputed = await query_ledgers(ask, database)
        found.breaks += disputed
    return found


async def _state(database: Database) -> Any:
    rows = await database.fetch(STATE)
    if not rows:
        raise ValueError("memoryd.trail has no row. It says which trail this is: restore it from a backup.")
    return rows[0]


async def _waiting(database: Database, found: Verification) -> list[Break]:
    """Counts the leaves without a position, and compares their rows; returns what these break."""
    breaks: list[Break] = []
    last = -1
    while rows := await database.fetch(WAITING, last, ROWS, list(CHAIN_LEDGERS)):
        last = rows[-1]["id"]
        found.waiting += len(rows)
        for row, (_, own) in zip(rows, await asyncio.to_thread(_hashed, rows), strict=True):
            how, says = _of_row(row, own=own)
            if how is not None:
                kind = found.unverifiable if how == "unverifiable" else breaks
                kind.append(Break(how, None, str(row["anchor_id"]), says))
    return breaks


async def _leaves(database: Database, found: Verification, tell: Callable[[int], None]) -> list[Leaf | None]:
    """The leaves by position; what their rows break is added to `found`."""
    now: list[Leaf | None] = []
    last = -1
    while rows := await database.fetch(PLACED, last, ROWS, list(CHAIN_LEDGERS)):
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
            how, says = _of_row(row, own=own)
            if how is not None:
                kind = found.unverifiable if how == "unverifiable" else found.breaks
                kind.append(Break(how, position, anchor, says))
        tell(found.leaves)
    return now


def _of_row(row: Any, *, own: bool) -> tuple[How | None, str]:
    """How a row differs from its leaf; None if it does not."""
    if not row["there"]:
        return "removed", "the row is gone"
    if row["salt"] is None:
        if row["is_empty"]:
            return None, ""
        if row["filled_again"]:
            return "unverifiable", "it was erased, and its row was put back without the salt of its leaf"
        return "altered", "it was erased, and shows something again"
    if not own or row["unchained"]:
        return "altered", "the row is not what was anchored"
    if not row["own_memory"]:
        return "altered", "its memory is there, and the row does not name it"
    if row["other_transaction"]:
        return "altered", "chain_tx is not the transaction that the ledger gave"
    if row["unknown_transaction"]:
        return "unverifiable", "chain_tx is of no ledger that this memoryd has asked"
    if row["of_another"]:
        return "unverifiable", "its leaf does not belong to the user of its memory"
    return None, ""


async def _derived(
    database: Database, now: Sequence[Leaf | None], tiles: Tiles, *, sizes: tuple[int, int]
) -> list[Break]:
    """The tables that differ from an intact log. `sizes`: of the log before and after it was read."""
    says = "previous_hash is not the hash of the agent's anchor before"
    breaks = [Break("altered", row["position"], str(row["id"]), says) for row in await database.fetch(CHAINS)]
    if not sizes[0] <= len(now) <= sizes[1]:
        says = f"memoryd.trail says that there are {sizes[0]} leaves, and there are {len(now)}"
        breaks.append(Break("copy", None, None, says))
    hashes = [leaf.hash for leaf in now if leaf is not None]
    breaks += await asyncio.to_thread(check_tiles, hashes, tiles, grown=sizes[1] > len(now))
    [row] = await database.fetch(AGENTS)
    if row["count"] and not breaks:
        says = f"memoryd.trail_agents is not what the anchors of {row['count']} agents say"
        breaks.append(Break("copy", None, None, says))
    return breaks


def _hashed(rows: Sequence[Any]) -> list[tuple[bytes, bool]]:
    return [(leaf_hash(row["leaf"]), _is_own(row)) for row in rows]


def _is_own(row: Any) -> bool:
    """Whether a row fits its leaf; True if the leaf was erased."""
    salt: bytes | None = row["salt"]
    if salt is None or row["said"] is None:
        return True
    # HMAC treats a salt with trailing zeros as the same salt.
    return len(salt) == 32 and leaf_of(row["said"], salt) == row["leaf"]
