"""The plugin trail: proofs of memories and their times, kept by ledgers.

Its SQL is migrations/functions/trail/; it stays in migrations/, where all SQL has one order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from daemon.health.check import Check
from daemon.plugins import Command, Core, Examination, Plugin
from daemon.schedule import Tick
from plugins.trail.settings import Ledgers, Trail

if TYPE_CHECKING:
    from plugins.trail.log import Trail as Log
    from plugins.trail.ports import Ledger


class MemoryTrail(Plugin):
    name = "trail"
    settings = (Trail, Ledgers)
    commands = {
        "anchors": Command("plugins.trail.cli.anchors:anchors", "Prove"),
        "prove": Command("plugins.trail.cli.prove:prove", "Prove"),
        "verify": Command("plugins.trail.cli.verify:verify", "Prove"),
    }

    def ticks(self, core: Core) -> Iterable[Tick]:
        """The ticks that give leaves their positions, sign checkpoints, and deliver them to the ledgers."""
        from plugins.trail.delivery import Delivery
        from plugins.trail.log import TrailBroken

        ledgers = _ledgers(core)
        trail = _trail(core, ledgers)

        async def sign_now() -> None:
            with suppress(TrailBroken):
                await trail.advance(sign_now=True)

        # A daemon without the key does not take the turns of those that sign.
        name = "trail" if trail.signs else "trail_positions"
        yield Tick(name, trail.tick_seconds, trail.tick, before_rest=sign_now)
        if ledgers:
            payloads = core.settings.section(Trail).trail_payloads
            delivery = Delivery(core.database, ledgers, payloads=payloads, logger=core.logger)
            yield Tick("ledgers", trail.tick_seconds, delivery.tick, before_rest=delivery.tick)

    async def checks(self, examination: Examination) -> AsyncIterator[Check]:
        """The ledgers that are named, and whether checkpoints are signed."""
        from plugins.trail.check import check_ledgers, check_trail

        yield await check_ledgers(examination.settings)
        if examination.connection is not None:
            yield await check_trail(examination.connection, examination.settings)


def _ledgers(core: Core) -> tuple[Ledger, ...]:
    """Those that keep what the trail says. Raises ValueError with the setting to change."""
    from plugins.trail.build import build_ledgers

    ledgers, left_out = build_ledgers(core.settings)
    for ledger in ledgers:
        core.closing.push_async_callback(ledger.close)
    for one in left_out:
        core.logger.warning("ledger_left_out", ledger=one.name, reason=one.reason)
    return ledgers


def _trail(core: Core, ledgers: Iterable[Ledger]) -> Log:
    """Raises ValueError with what to do, where there is a key that cannot be used."""
    from plugins.trail.keys import key_file, signing_key
    from plugins.trail.log import LEAVES, Pace
    from plugins.trail.log import Trail as Log

    settings = core.settings
    key = signing_key(settings, make=True)
    # Of one of several databases it would be told whenever work begins.
    if key is None and settings.database is None:
        core.logger.info(
            "trail_unsigned", hint="memoryd anchors new-key FILE, then MEMORYD_TRAIL_KEY=file:FILE"
        )
    return Log(
        core.database,
        key=key,
        pace=Pace(LEAVES, settings.section(Trail).trail_checkpoint_minutes * 60),
        ledgers=[one.name for one in ledgers if one.keeps_memories],
        logger=core.logger,
        key_file=key_file(settings),
    )


PLUGIN = MemoryTrail()
