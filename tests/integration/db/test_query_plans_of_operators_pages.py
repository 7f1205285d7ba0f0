"""No page of dreams, the trail, or Now reads a big table from end to end: see test_query_plans.py."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from plugins.web import names
from plugins.web.lists import Conditions
from plugins.web.pages import dreams, now, trail
from tests.integration.db.test_query_plans import IDS, TOPICS, busy, seeded
from tests.support.database.big_tables import BIG
from tests.support.database.plans import scans

__all__ = ["busy", "seeded"]

ONE, TIME = UUID(int=1), datetime.now(UTC)
CONFIDENT = Conditions()
CONFIDENT.scan_for("i.confidence >= {}", 0.4)
STATEMENTS: dict[str, tuple[str, tuple[object, ...]]] = {
    "dream": (dreams.ONE, (ONE, 48)),
    "insights of a dream": (dreams.ITS_INSIGHTS, (ONE, TIME, None)),
    "insights, the newest": (dreams.INSIGHTS.page_sql(CONFIDENT), (0.4,)),
    "insights by ids": (dreams.INSIGHTS.rows_sql, (IDS,)),
    "insight": (dreams.INSIGHT, (ONE,)),
    "sources of an insight": (dreams.SOURCES, (IDS,)),
    "leaves, the newest": (trail.LEAVES, (None,)),
    "leaves further back": (trail.LEAVES, (5000,)),
    "anchors by ids": (trail.ROWS, (IDS,)),
    "anchor": (trail.ONE, (ONE,)),
    "leaf": (trail.LEAF, (ONE,)),
    "who keeps an anchor": (trail.KEPT, (ONE, 3)),
    "state of the trail": (trail.STATE, ()),
    "ledgers": (trail.LEDGERS, ()),
    "topics with work": (now.TOPICS, ()),
    "now": (now.READ, (15.0, TOPICS)),
    "tasks that wait": (now.TASKS, ()),
    "users": (names.USERS, (TIME, ONE, 20, "ann", ONE, 20)),
    "retrievals, how they were judged": (now.JUDGED, ()),
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_a_page_reads_no_big_table_whole(busy: asyncpg.Connection, name: str) -> None:
    sql, arguments = STATEMENTS[name]
    plan = json.loads(await busy.fetchval(f"explain (format json) {sql}", *arguments))
    assert scans(plan) & BIG == set()


async def test_the_first_page_of_users_is_read_by_indexes(busy: asyncpg.Connection) -> None:
    await busy.execute("set local enable_seqscan = off")  # as by_indexes()
    plan = json.loads(
        await busy.fetchval(f"explain (format json) {names.USERS}", *names.FIRST, 20, "", ONE, 20)
    )
    assert scans(plan) & BIG == set()
