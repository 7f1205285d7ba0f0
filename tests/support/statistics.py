"""Lexeme statistics against a count from scratch."""

from __future__ import annotations

import asyncpg

RECOUNT = """
select scope, lexeme, count(*)::integer as rows
from (
    select scope, unnest(text '#memory' || tsvector_to_array(lexemes)) as lexeme from agent_memory where lexemes is not null
    union all
    select scope, unnest(text '#conversation' || tsvector_to_array(lexemes))
    from conversation_messages where lexemes is not null
    union all
    select scope, unnest(text '#document' || tsvector_to_array(lexemes)) from memory_chunks where lexemes is not null
    union all
    select scope, unnest(text '#knowledge' || tsvector_to_array(lexemes)) from shared_knowledge where lexemes is not null
    union all
    select scope, unnest(text '#insight' || tsvector_to_array(lexemes)) from dream_insights where lexemes is not null
) l
group by scope, lexeme
"""


async def miscounted(connection: asyncpg.Connection) -> list[tuple[int, str, int]]:
    """Scope, lexeme and rows that stand in the statistics or in a count from scratch, but not in both."""
    stored = await connection.fetch("select scope, lexeme, rows from memoryd.lexeme_statistics")
    return sorted({tuple(r) for r in stored} ^ {tuple(r) for r in await connection.fetch(RECOUNT)})
