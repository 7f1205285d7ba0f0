"""What is said about an anchor is found, below what was anchored."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.content.index import index_rows
from tests.support.rows import column, remember

ABOVE = "select id from recall('decision', agent_id => 'alice')"
IN_CONTEXT = """
select id from explain_context('alice', 'Which decision did we take on the queue?') where step = 'found' order by score desc
"""


@pytest.mark.parametrize("kind", ["outcome", "note"])
async def test_a_decision_stands_above_the_fact_that_it_was_anchored(
    connection: asyncpg.Connection, kind: str
) -> None:
    made = await remember(connection, "Decision: we go with Postgres for the queue", kind=kind)
    said = "A decision was anchored: CID bafkreigh2akiscaildc, leaf {} of the trail."
    anchors = [
        await remember(connection, said.format(n), kind="fact", source="anchor", ttl_hours=None)
        for n in range(3)
    ]
    await index_rows(connection, "memory")
    for question in (ABOVE, IN_CONTEXT):
        found = await column(connection, question)
        assert found[0] == made
        assert set(found) == {made, *anchors}
