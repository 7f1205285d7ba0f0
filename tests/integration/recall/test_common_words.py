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


# Entries are written in the order of the ids, so those with all three words come last.
TWO_OF_THREE = """
insert into agent_memory (id, agent_id, content, kind)
select lpad(n::text, 32, '0')::uuid, 'alice', 'the ' || w.words || ' of house ' || n, 'fact'
from generate_series(1, 1650) n
join (values (0, 'lantern and the ladder'), (1, 'lantern and the letter'), (2, 'ladder and the letter')) as w(rest, words)
    on w.rest = n % 3
union all
select lpad(n::text, 32, '0')::uuid, 'alice', 'the lantern, the ladder and the letter of house ' || n, 'fact'
from generate_series(2001, 2003) n
"""


async def test_rows_with_three_common_words_are_found_among_many_with_two(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(TWO_OF_THREE)
    await index_rows(connection, "memory")
    await connection.execute("select memoryd.fold_lexeme_changes()")
    best = await column(
        connection, "select content from recall('lantern ladder letter', 'alice', match_count => 3)"
    )
    assert all("lantern, the ladder and the letter" in str(content) for content in best)
