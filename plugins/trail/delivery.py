"""Makes items of the current rows of the database, delivers them to the ledgers, and stores their receipts: at least once,
without delaying other work.

Promise: each step that a ledger reached is stored before the next one, so a crash repeats no successful step; a ledger that
hangs or fails delays neither other ledgers nor other work, and an unusable ledger is called once a tick; no transaction is
open during a call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from structlog.typing import FilteringBoundLogger

from daemon.db.pool import Database
from memory.text import one_line
from plugins.trail.ports import Ledger, LedgerItem, Receipt
from plugins.trail.rules.canonical import cid_of
from providers.ports import RejectionError, UnavailableError

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
    key: str
    anchor: str | None
    position: int | None
    entrusted: LedgerItem | None
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


def _entrusted(row: Any, *, payloads: bool) -> LedgerItem | None:
    if row["content"] is None or row["category"] is None:
        return None
    content = str(row["content"]).encode()
    return LedgerItem(
        key=row["key"],
        category=row["category"],
        agent_id=row["agent_id"],
        content_hash=sha256(content).digest(),
        cid=cid_of(content),
        payload=content if payloads or row["anchor_id"] is None else None,
    )


CALL_SECONDS = 120.0
"""The longest call of a ledger. A longer one is cancelled, and continues from its last stored step."""
CLAIM_SECONDS = CALL_SECONDS + 30.0
ITEMS = 50
"""Items that a ledger gets in one tick."""
PLANNED = 1000
FIRST_PAUSE, LONGEST_PAUSE, REJECTED_PAUSE = 5.0, 3600.0, 3600.0
CHAINS = frozenset({"evm"})
"""Ledgers whose reference is the transaction of an anchor (memory_anchors.chain_tx)."""

REGISTER = """
insert into memoryd.trail_ledgers (name, from_position, next_position, from_size)
select n.name, t.size, t.size, coalesce((select max(c.size) from memoryd.trail_checkpoints c), 0)
from unnest($1::text[]) as n(name) cross join memoryd.trail t
where not exists (select from memoryd.trail_ledgers g where g.name = n.name)
on conflict (name) do nothing
"""
# The newest checkpoint covers all before it: of the checkpoints that were not begun, only the newest is sent.
PLAN_CHECKPOINT = """
with newest as materialized (
    select c.size from memoryd.trail_checkpoints c
    join memoryd.trail_ledgers g on g.name = $1 and c.size >= g.from_size
    order by c.size desc limit 1
), superseded as (
    delete from memoryd.trail_receipts r using newest n
    where r.ledger = $1 and not r.final and r.size < n.size and r.steps = '{}' and r.reference is null
      and r.claimed_until < now()
)
insert into memoryd.trail_receipts (ledger, key, size)
select $1, 'checkpoint/' || n.size, n.size from newest n
on conflict (ledger, key) do nothing
"""
PLAN_ANCHORS = """
with ledger as materialized (
    select g.next_position from memoryd.trail_ledgers g where g.name = $1 for update
), due as materialized (
    select l.anchor_id, l.position, l.salt from ledger g
    join memoryd.trail_leaves l on l.position >= g.next_position
    where l.position < (select max(c.size) from memoryd.trail_checkpoints c)
    order by l.position
    limit $2
), planned as (
    insert into memoryd.trail_receipts (ledger, key, anchor_id)
    select $1, d.anchor_id::text, d.anchor_id from due d where d.salt is not null order by d.position
    on conflict (ledger, key) do nothing
)
update memoryd.trail_ledgers g set next_position = d.next
from (select max(d.position) + 1 as next from due d) d
where g.name = $1 and d.next is not null
"""
CLAIM = """
with due as materialized (
    select t.key from memoryd.trail_receipts t
    where t.ledger = $1 and not t.final and t.next_at <= now() and t.claimed_until < now()
    order by t.next_at, t.key
    limit 1
    for update skip locked
)
update memoryd.trail_receipts r
set claimed_until = now() + make_interval(secs => $2), attempts = r.attempts + 1
from due d
where r.ledger = $1 and r.key = d.key
returning r.key, r.steps, r.attempts
"""
DROP = "delete from memoryd.trail_receipts where ledger = $1 and key = $2"
KEEP = """
update memoryd.trail_receipts set steps = steps || jsonb_build_object($3::text, $4::text) where ledger = $1 and key = $2
"""
# Lock the anchor first, as the deletion of its memory does.
RECEIVED = """
with anchor as materialized (
    select a.id from memoryd.trail_receipts r join public.memory_anchors a on a.id = r.anchor_id
    where r.ledger = $1 and r.key = $2 and $7
    for no key update of a
), received as (
    update memoryd.trail_receipts
    set reference = $3, proof = $4, final = $5, last_error = null, attempts = 0, claimed_until = '-infinity',
        next_at = now() + make_interval(secs => $6)
    where ledger = $1 and key = $2 and (select count(*) from anchor) >= 0
    returning anchor_id
)
update public.memory_anchors a set chain_tx = $3 from received r where a.id = r.anchor_id and $7
"""
FAILED = """
update memoryd.trail_receipts
set last_error = $3, claimed_until = '-infinity', next_at = now() + make_interval(secs => $4)
where ledger = $1 and key = $2
"""


class _Steps:
    def __init__(self, database: Database, ledger: str, key: str, steps: dict[str, str]) -> None:
        self._database = database
        self._of = (ledger, key)
        self._steps = steps

    def reached(self, step: str) -> str | None:
        return self._steps.get(step)

    async def keep(self, step: str, value: str) -> None:
        """See `Progress`. Also stores the step if the call is cancelled now: it has happened."""
        self._steps[step] = value
        await asyncio.shield(self._database.execute(KEEP, *self._of, step, value))


class Delivery:
    """Entrusts checkpoints and anchored memories to the ledgers that are set."""

    def __init__(
        self,
        database: Database,
        ledgers: Sequence[Ledger],
        *,
        payloads: bool,
        logger: FilteringBoundLogger,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        """`payloads`: whether the anchored rows leave the machine, and not only their hashes."""
        self._database = database
        self.ledgers = tuple(ledgers)
        self._payloads = payloads
        self._log = logger
        self._call_seconds = call_seconds

    async def tick(self) -> int:
        """Plans new items and delivers due ones: to all ledgers at once, one item at a time each. Returns their number."""
        await self._database.execute(REGISTER, [one.name for one in self.ledgers])
        done = await asyncio.gather(*(self._serve(one) for one in self.ledgers), return_exceptions=True)
        served = 0
        for result in done:
            if isinstance(result, BaseException):
                raise result
            served += result
        return served

    async def _serve(self, ledger: Ledger) -> int:
        await self._database.execute(PLAN_CHECKPOINT, ledger.name)
        if ledger.keeps_memories:
            await self._database.execute(PLAN_ANCHORS, ledger.name, PLANNED)
        for served in range(ITEMS):
            claimed = await self._database.fetchrow(CLAIM, ledger.name, CLAIM_SECONDS)
            if claimed is None:
                return served
            if not await self._entrust(ledger, claimed):
                return served + 1
        return ITEMS

    async def _entrust(self, ledger: Ledger, claimed: Any) -> bool:
        """Whether the ledger can take more items now."""
        key, attempts = str(claimed["key"]), int(claimed["attempts"])
        items = await read_items(self._database, ledger.name, [key], payloads=self._payloads)
        item = items[0].entrusted if items else None
        if item is None:
            # It was erased meanwhile.
            await self._database.execute(DROP, ledger.name, key)
            return True
        steps = _Steps(self._database, ledger.name, key, json.loads(claimed["steps"]))
        try:
            async with asyncio.timeout(self._call_seconds):
                receipt = await ledger.entrust(item, steps)
        except Exception as error:  # noqa: BLE001 - a ledger's library may raise anything, and stops nothing else
            await self._failed(ledger, key, attempts, error)
            return not isinstance(error, (UnavailableError, TimeoutError))
        await self._received(ledger, key, attempts, receipt)
        return True

    async def _received(self, ledger: Ledger, key: str, attempts: int, receipt: Receipt) -> None:
        await self._database.execute(
            RECEIVED,
            ledger.name,
            key,
            receipt.reference,
            receipt.proof,
            receipt.final,
            _pause(attempts),
            receipt.final and ledger.name in CHAINS,
        )
        if receipt.final:
            self._log.info("ledger_kept", ledger=ledger.name, key=key)

    async def _failed(self, ledger: Ledger, key: str, attempts: int, error: Exception) -> None:
        pause = REJECTED_PAUSE if isinstance(error, RejectionError) else _pause(attempts)
        if isinstance(error, UnavailableError):
            pause = min(max(pause, error.retry_in), LONGEST_PAUSE)
        expected = isinstance(error, (UnavailableError, RejectionError))
        says = f"{type(error).__name__}: {error}" if expected else type(error).__name__
        await self._database.execute(FAILED, ledger.name, key, one_line(says, 500), pause)
        self._log.warning(
            "ledger_failed",
            ledger=ledger.name,
            key=key,
            attempts=attempts,
            error=type(error).__name__,
            retry_seconds=round(pause),
        )


def _pause(attempts: int) -> float:
    """Seconds until the next attempt: twice as long after each."""
    return float(min(FIRST_PAUSE * 2 ** min(attempts - 1, 20), LONGEST_PAUSE))
