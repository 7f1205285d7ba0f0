"""Asks the ledgers of the settings whether they still have the items that they confirmed.

Promise: it changes nothing, and ends within `SECONDS` for each ledger; all are asked at the same time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from daemon.db.pool import Database
from daemon.settings import Settings
from memory.text import one_line
from plugins.trail.build import build_ledgers
from plugins.trail.delivery import Item, read_items
from plugins.trail.ports import Ledger
from plugins.trail.rules.audit import Break
from plugins.trail.settings import Trail
from providers.ports import RejectionError, UnavailableError

RECEIPTS = 100
"""The newest receipts of each ledger that are checked."""
SECONDS = 120.0
BATCH = 10
KEPT = (
    "select ledger, count(*) as kept from memoryd.trail_receipts where final group by ledger order by ledger"
)
# In turn, so that many anchors do not keep checkpoints from being asked about.
NEWEST = """
select n.key from (
    select r.key, row_number() over (partition by r.size is null order by r.created_at desc, r.size desc, r.key) as nth
    from memoryd.trail_receipts r where r.ledger = $1 and r.final
) n
order by n.nth, n.key limit $2
"""


@dataclass(slots=True)
class LedgerAnswer:
    ledger: str
    kept: int
    """How many items it confirmed to keep for good."""
    answered: int = 0
    erased: int = 0
    """Items that were erased here, so that they cannot be checked."""
    disputed: int = 0
    could_not: bool = False
    """Whether it is set here, and could not answer."""
    reason: str | None = None
    """Why not all of its items were checked."""

    @property
    def not_queried(self) -> int:
        return max(0, self.kept - self.answered - self.erased)


async def query_ledgers(settings: Settings, database: Database) -> tuple[list[LedgerAnswer], list[Break]]:
    """Asks each ledger about its newest confirmed items. Raises ValueError with the setting to change."""
    kept = {str(row["ledger"]): int(row["kept"]) for row in await database.fetch(KEPT)}
    ledgers, left_out = build_ledgers(settings)
    breaks: list[Break] = []
    asked = [LedgerAnswer(one.name, kept.pop(one.name, 0)) for one in ledgers]
    try:
        await asyncio.gather(
            *(
                _query(database, one, found, breaks, payloads=settings.section(Trail).trail_payloads)
                for one, found in zip(ledgers, asked, strict=True)
            )
        )
    finally:
        for one in ledgers:
            await one.close()
    for missing in left_out:
        count = kept.pop(missing.name, 0)
        asked.append(
            LedgerAnswer(missing.name, count, could_not=count > 0 and not missing.gone, reason=missing.reason)
        )
    asked += [LedgerAnswer(name, kept[name], reason="MEMORYD_LEDGERS does not name it here") for name in kept]
    return asked, breaks


async def _query(
    database: Database, ledger: Ledger, found: LedgerAnswer, breaks: list[Break], *, payloads: bool
) -> None:
    keys = [row["key"] for row in await database.fetch(NEWEST, ledger.name, RECEIPTS)]
    if found.kept > len(keys):
        found.reason = f"only the newest {RECEIPTS} are asked about"
    try:
        async with asyncio.timeout(SECONDS):
            for start in range(0, len(keys), BATCH):
                batch = keys[start : start + BATCH]
                for item in await read_items(database, ledger.name, batch, payloads=payloads):
                    await _query_about(ledger, item, found, breaks)
    except Exception as error:  # noqa: BLE001 - a ledger's library may raise anything, and stops nothing else
        found.could_not = True
        expected = isinstance(error, (UnavailableError, RejectionError))
        found.reason = one_line(str(error), 500) if expected else type(error).__name__
        if isinstance(error, TimeoutError):
            found.reason = f"it has not answered within {SECONDS:g} s"


async def _query_about(ledger: Ledger, item: Item, found: LedgerAnswer, breaks: list[Break]) -> None:
    if item.erased or item.receipt is None:
        found.erased += item.erased
        return
    says = "the ledger keeps it, and it is not in the database"
    if item.entrusted is not None:
        disputed = await ledger.dispute(item.entrusted, item.receipt)
        if disputed is None:
            found.answered += 1
            return
        says = one_line(disputed, 500)
    found.answered += 1
    found.disputed += 1
    breaks.append(Break("disputed", item.position, item.anchor, f"{ledger.name}, {item.key}: {says}"))
