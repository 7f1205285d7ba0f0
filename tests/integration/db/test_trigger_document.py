"""docs/triggers.md promises orders in which triggers fire: those of the database."""

from __future__ import annotations

import re

import asyncpg

from tests.support.repository import ROOT

ORDER = """
select array_agg(t.tgname::text order by t.tgname collate "C")
from pg_trigger t
where t.tgrelid = to_regclass($1) and t.tgname = any($2)
group by t.tgtype & 67 -- for each row, before, instead of
"""


async def test_the_orders_that_matter_are_those_of_the_database(connection: asyncpg.Connection) -> None:
    document = (ROOT / "docs/triggers.md").read_text("utf-8")
    promised = re.findall(r"^- `(\w+)`: `(\w+)` comes before `(\w+)`", document, re.MULTILINE)
    assert len(promised) == 3
    for table, *names in promised:
        assert await connection.fetchval(ORDER, table, names) == names, table
