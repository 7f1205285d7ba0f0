"""Makes the proof of one anchor from a few rows: its leaf, the last checkpoint, and the tiles on the way to its root."""

from __future__ import annotations

from uuid import UUID

from daemon.db.pool import Database
from daemon.trail.log import read_tiles
from handlers.shared.ports import AnyConnection
from memory.trail.merkle import consistency as path_of_consistency
from memory.trail.merkle import inclusion
from memory.trail.note import BadNote, Note
from memory.trail.proof import Proof
from memory.trail.tiles import TileMissing, nodes_of, tiles_for

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
CHECKPOINT = """
select c.size, c.note,
       (select r.proof from memoryd.trail_receipts r
        where r.size = c.size and r.final and r.ledger = 'witness' and r.proof is not null limit 1) as witnessed
from memoryd.trail_checkpoints c
order by c.size desc
limit 1
"""

SIZE = "select size from memoryd.trail"


class NoProof(Exception):
    """There is no proof of it; the message says why."""


class NotSigned(NoProof):
    """The anchor is in no checkpoint yet."""


async def prove(connection: AnyConnection, anchor: UUID, *, with_row: bool) -> Proof:
    """The proof of the anchor with this id, or of the newest anchor of the memory with it. Raises NoProof."""
    leaf = await connection.fetchrow(FIND, anchor)
    if leaf is None:
        raise NoProof(
            "There is no anchor, and no anchored memory, with this id. To see them: memoryd anchors"
        )
    checkpoint = await connection.fetchrow(CHECKPOINT)
    index = leaf["position"]
    if index is None or checkpoint is None or index >= checkpoint["size"]:
        raise NotSigned(
            "The anchor is in no signed checkpoint yet. A daemon with a key signs one within "
            "MEMORYD_TRAIL_CHECKPOINT_MINUTES. To see when the last one was signed: memoryd anchors"
        )
    size = int(checkpoint["size"])
    tiles = await read_tiles(connection, tiles_for(lambda nodes: inclusion(index, size, nodes)))
    try:
        path = inclusion(index, size, nodes_of(tiles))
    except TileMissing as error:
        raise NoProof(f"{str(error).capitalize()}. To see what is broken: memoryd verify --all") from None
    shown = with_row and leaf["said"] is not None
    return Proof(
        index,
        path,
        _witnessed(Note.parse(checkpoint["note"]), checkpoint["witnessed"]),
        leaf["leaf"],
        leaf["said"] if shown else None,
        leaf["salt"] if shown else None,
    )


async def consistency(database: Database, old: int, size: int) -> list[bytes]:
    """The proof that the log of `old` leaves is the beginning of that of `size`. Raises LookupError where there is none."""
    async with database.connection() as connection:
        if not 0 < old <= size or size > await connection.fetchval(SIZE):
            raise LookupError(f"the trail has no {size} leaves")
        tiles = await read_tiles(connection, tiles_for(lambda nodes: path_of_consistency(old, size, nodes)))
    try:
        return path_of_consistency(old, size, nodes_of(tiles))
    except TileMissing as error:
        raise LookupError(str(error)) from None


def _witnessed(note: Note, lines: bytes | None) -> Note:
    """The checkpoint with the signatures of its witness, where these are lines of a note."""
    try:
        return note if not lines else Note.parse(str(note) + lines.decode())
    except (BadNote, UnicodeDecodeError):
        return note
