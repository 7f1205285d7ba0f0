"""Makes the proof of one anchor from a few rows: its leaf, the last checkpoint, and the tiles up to its root."""

from __future__ import annotations

from uuid import UUID

from handlers.shared.ports import AnyConnection
from plugins.trail.log import read_tiles
from plugins.trail.rules.merkle import inclusion
from plugins.trail.rules.note import Note
from plugins.trail.rules.proof import Proof
from plugins.trail.rules.tiles import TileMissing, nodes_of, tiles_for

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
CHECKPOINT = "select size, note from memoryd.trail_checkpoints order by size desc limit 1"


class NoProof(Exception):
    """There is no proof; the message says why."""


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
        Note.parse(checkpoint["note"]),
        leaf["leaf"],
        leaf["said"] if shown else None,
        leaf["salt"] if shown else None,
    )
