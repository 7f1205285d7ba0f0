"""The plugin trail: proofs of memories and their times, kept by ledgers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

from daemon.plugins import Check, Command, Core, Examination, Plugin
from daemon.schedule import Tick
from plugins.trail.settings import Ledgers, Trail


class MemoryTrail(Plugin):
    name = "trail"
    settings = (Trail, Ledgers)
    commands = {
        "anchors": Command("plugins.trail.cli.anchors:anchors", "Prove"),
        "prove": Command("plugins.trail.cli.verify:prove", "Prove"),
        "verify": Command("plugins.trail.cli.verify:verify", "Prove"),
    }

    def ticks(self, core: Core) -> Iterable[Tick]:
        from plugins.trail.build import build_ledgers
        from plugins.trail.delivery import Delivery
        from plugins.trail.keys import signing_key
        from plugins.trail.log import BrokenTrailError, build_trail

        ledgers, left_out = build_ledgers(core.settings)
        for ledger in ledgers:
            core.closing.push_async_callback(ledger.close)
        for one in left_out:
            core.logger.warning("ledger_left_out", ledger=one.name, reason=one.reason)
        key = signing_key(core.settings, make=True)
        # Of one of several databases it would be told whenever work begins.
        if key is None and core.settings.database is None:
            core.logger.info(
                "trail_unsigned", hint="memoryd anchors new-key FILE, then MEMORYD_TRAIL_KEY=file:FILE"
            )
        keep = [one.name for one in ledgers if one.keeps_memories]
        trail = build_trail(core.settings, core.database, key, ledgers=keep, logger=core.logger)

        async def sign_now() -> None:
            with suppress(BrokenTrailError):
                await trail.advance(sign_now=True)

        # A daemon without the key does not take the turns of those that sign.
        name = "trail" if trail.signs else "trail_positions"
        yield Tick(name, trail.tick_seconds, trail.tick, before_rest=sign_now)
        if ledgers:
            payloads = core.settings.section(Trail).trail_payloads
            delivery = Delivery(core.database, ledgers, payloads=payloads, logger=core.logger)
            yield Tick("ledgers", trail.tick_seconds, delivery.tick, before_rest=delivery.tick)

    async def checks(self, examination: Examination) -> AsyncIterator[Check]:
        from plugins.trail.check import check_ledgers, check_trail

        yield await check_ledgers(examination.settings)
        if examination.connection is not None:
            yield await check_trail(examination.connection, examination.settings)


PLUGIN = MemoryTrail()
