"""Turns: who wants much gets no more of them than others."""

from __future__ import annotations

import asyncio

from plugins.tenants.turns import Turns


async def test_a_flood_delays_others_by_one_turn() -> None:
    turns, order = Turns(1), []

    async def work(whose: str) -> None:
        async with turns.turn(whose):
            order.append(whose)
            await asyncio.sleep(0)

    flood = [asyncio.create_task(work("flood")) for _ in range(6)]
    await asyncio.sleep(0)
    quiet = [asyncio.create_task(work(name)) for name in ("quiet", "other", "quiet")]
    await asyncio.gather(*flood, *quiet)
    assert order[:6] == ["flood", "flood", "quiet", "other", "flood", "quiet"]
    assert not turns.awaited.is_set()


async def test_who_is_cancelled_takes_no_turn_along() -> None:
    turns = Turns(1)
    held = asyncio.Event()

    async def hold() -> None:
        async with turns.turn("holder"):
            held.set()
            await asyncio.sleep(3600)

    async def want(name: str) -> str:
        async with turns.turn(name):
            return name

    holder = asyncio.create_task(hold())
    await held.wait()
    waiting = [asyncio.create_task(want(name)) for name in ("one", "one", "two", "three")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    # Cancelled in the same moment in which it gets the turn.
    holder.cancel()
    waiting[2].cancel()
    ended = await asyncio.gather(holder, *waiting, return_exceptions=True)
    assert [one for one in ended if isinstance(one, str)] == ["one", "three"]
    assert await asyncio.wait_for(want("later"), 1.0) == "later"


async def test_one_that_fails_gives_its_turn_on() -> None:
    turns = Turns(1)

    async def fail() -> None:
        async with turns.turn("one"):
            raise RuntimeError

    ended = await asyncio.gather(*(fail() for _ in range(3)), return_exceptions=True)
    assert all(isinstance(one, RuntimeError) for one in ended)
    async with turns.turn("two"):
        pass
