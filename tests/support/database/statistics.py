"""Lexeme statistics against a count from scratch."""

from __future__ import annotations

import asyncpg

RECOUNT = """
select scope, lexeme, sum(count)::integer as rows
from (
    select scope, unnest(('#' || source) || tsvector_to_array(lexemes)) as lexeme, 1 as count from memoryd.entries
    union all
    select scope, '=' || language, 1 from memoryd.entries
    union all
    select scope, '+', length from memoryd.entries where length > 0
) l
group by scope, lexeme
"""


async def miscounted(connection: asyncpg.Connection) -> list[tuple[int, str, int]]:
    """Scope, lexeme and rows that stand in the statistics or in a count from scratch, but not in both."""
    stored = await connection.fetch("select scope, lexeme, rows from memoryd.lexeme_statistics")
    return sorted({tuple(r) for r in stored} ^ {tuple(r) for r in await connection.fetch(RECOUNT)})
