"""Words that most rows have."""

from __future__ import annotations

import asyncpg

from tests.support.index import index_rows
from tests.support.rows import column

ROWS = """
insert into agent_memory (agent_id, content, kind)
select 'alice', case when n % 40 = 0 then 'the lantern and the ladder of house ' else 'the lantern of house ' end || n, 'fact'
from generate_series(1, 900) n
"""


async def test_one_common_word_alone_is_found(connection: asyncpg.Connection) -> None:
    await connection.execute(ROWS)
    await index_rows(connection, "memory")
    await connection.execute("select memoryd.fold_lexeme_changes()")
    assert len(await column(connection, "select id from recall('lantern', 'alice')")) == 10
    both = await column(connection, "select content from recall('lantern ladder', 'alice')")
    assert all("ladder" in str(content) for content in both)
