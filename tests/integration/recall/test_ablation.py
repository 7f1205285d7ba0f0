"""benchmarks.search.ablation takes parts of recall away by fragments of its functions: they are all there, once each."""

from __future__ import annotations

import asyncpg

from benchmarks.search.ablation import check


async def test_every_part_of_recall_can_be_taken_away(scratch: asyncpg.Connection) -> None:
    await check(scratch)
