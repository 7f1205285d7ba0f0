"""The nearest by embedding, of however many dimensions it is."""

from __future__ import annotations

import asyncpg
import numpy as np
import pytest
from pgvector import Vector
from pgvector.asyncpg import register_vector

from daemon.db.migrator import migrate
from tests.support.database.schemas import connected
from tests.support.rows import DIMENSIONS, column

# Each nearest to itself, and then to those beside it. With one dimension there are only two directions.
REMEMBER = """
insert into agent_memory (agent_id, content, embedding)
select 'alice', 'number ' || n,
       array(select sin(n * 0.01 * (d % 7 + 1)) + cos(n * 0.01 * d) from generate_series(1, $1) d)::real[]::vector
from generate_series(1, $2) n
"""
NEAREST = """
select content
from recall('', 'alice', query_embedding => (select embedding from agent_memory where content = $1), match_count => $2)
"""
REMEMBER_ALL = """
insert into agent_memory (agent_id, content, embedding) select 'alice', 'the same', e from unnest($1::vector[]) e
"""
EXACTLY = "select id from agent_memory order by embedding <=> $1 limit 10"
BY_RECALL = "select id from recall('', 'alice', query_embedding => $1, match_count => 10)"


@pytest.mark.parametrize("dimensions", [1, 3, 8000, 8001, 16000])
async def test_the_nearest_rows_are_found_with_any_dimensions(empty_url: str, dimensions: int) -> None:
    rows = 30 if dimensions < 100 else 5
    async with connected(empty_url) as connection:
        await migrate(connection, dimensions=dimensions, embedder="openai/test")
        await connection.execute(REMEMBER, dimensions, rows)
        for n in range(1, rows + 1):
            found = await column(connection, NEAREST, f"number {n}", rows)
            # Of fewer dimensions some have the very same direction.
            assert found[0] == f"number {n}" if dimensions >= 3 else f"number {n}" in found


async def test_at_least_95_percent_of_the_nearest_rows_are_found(connection: asyncpg.Connection) -> None:
    await register_vector(connection)
    chance = np.random.default_rng(5)
    # As embeddings are: many numbers, of which far fewer are free.
    directions = chance.normal(size=(40, DIMENSIONS))
    embeddings, asked = (
        list(map(Vector, (chance.normal(size=(count, 40)) @ directions).astype(np.float32)))
        for count in (3000, 40)
    )
    await connection.execute(REMEMBER_ALL, embeddings)
    parts = []
    for embedding in asked:
        nearest = set(await column(connection, EXACTLY, embedding))
        found = set(await column(connection, BY_RECALL, embedding))
        parts.append(len(nearest & found) / 10)
    assert sum(parts) / len(parts) >= 0.95
