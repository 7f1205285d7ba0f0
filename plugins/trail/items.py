"""The items for ledgers, made from the current rows of the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from daemon.db.pool import Database
from plugins.trail.ports import Entrusted, Receipt
from plugins.trail.rules.cid import cid_of

READ = """
select r.key, r.anchor_id, l.position, r.reference, r.proof, r.final,
       l.anchor_id is not null and l.salt is null as erased,
       case when r.anchor_id is null then 'checkpoint' else a.category end as category,
       coalesce(a.agent_id, '') as agent_id,
       case when r.anchor_id is null then c.note else a.payload::text end as content
from unnest($2::text[]) with ordinality as k(key, nth)
join memoryd.trail_receipts r on r.ledger = $1 and r.key = k.key
left join memoryd.trail_leaves l on l.anchor_id = r.anchor_id
left join public.memory_anchors a on a.id = l.anchor_id and l.salt is not null
left join memoryd.trail_checkpoints c on c.size = r.size
order by k.nth
"""


@dataclass(frozen=True, slots=True)
class Item:
    """A row of memoryd.trail_receipts with its item."""

    key: str
    anchor: str | None
    position: int | None
    entrusted: Entrusted | None
    """None if it does not exist any more."""
    erased: bool
    """Whether it was erased, not lost."""
    receipt: Receipt | None
    """The ledger's receipt, if there is one."""


async def read_items(
    database: Database, ledger: str, keys: Sequence[str], *, payloads: bool
) -> Sequence[Item]:
    """The items with these keys, in this order. `payloads`: whether the anchored rows leave the machine."""
    return [
        Item(
            row["key"],
            None if row["anchor_id"] is None else str(row["anchor_id"]),
            row["position"],
            _entrusted(row, payloads=payloads),
            row["erased"],
            None if row["reference"] is None else Receipt(row["reference"], row["proof"], row["final"]),
        )
        for row in await database.fetch(READ, ledger, keys)
    ]


def _entrusted(row: Any, *, payloads: bool) -> Entrusted | None:
    if row["content"] is None or row["category"] is None:
        return None
    content = str(row["content"]).encode()
    return Entrusted(
        key=row["key"],
        category=row["category"],
        agent_id=row["agent_id"],
        content_hash=sha256(content).digest(),
        cid=cid_of(content),
        payload=content if payloads or row["anchor_id"] is None else None,
    )
