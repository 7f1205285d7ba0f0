"""No record of another user keeps the id of an erased row, and no export has ids of others' rows."""

from __future__ import annotations

import json
from typing import Literal

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB
from tests.support.access.users import ERASE
from tests.support.content.index import index_rows
from tests.support.processes.paused import meanwhile
from tests.support.rows import insert, remember

NAMED = (
    "select id from memory_queries where $1::uuid = any(retrieved_memory_ids || knowledge_ids || insight_ids)"
)
RELATED = "select id from shared_knowledge where $1::uuid = any(related_ids)"


@pytest.mark.parametrize("moment", ["before", "during", "after"])
@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
async def test_no_record_of_others_names_an_erased_row_that_was_in_a_context_meanwhile(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    third: asyncpg.Connection,
    moment: str,
    isolation: Literal["read_committed", "repeatable_read"],
) -> None:
    """Committed while the erasure waits for somebody, while it ends, and after it."""
    noted: dict[str, object] = {
        "tier": "learning",
        "category": "decision",
        "created_by": str(ANN),
        "title": "The harbour crane",
        "content": "We decided that the harbour crane is painted green.",
    }
    known = await insert(connection, "shared_knowledge", noted)
    await remember(connection, "the harbour crane is old", user_id=ANN)
    await index_rows(connection, "knowledge")
    writing = second.transaction(isolation=isolation)
    await writing.start()
    context = await second.fetchval(
        "select build_context('alice', 'What did we decide about the harbour crane?')"
    )
    assert "painted green" in context
    assert await second.fetch(NAMED, known)
    if isolation == "read_committed":
        named = {**noted, "created_by": "alice", "title": "A correction", "related_ids": [known]}
        await insert(second, "shared_knowledge", named)
    if moment == "before":
        # The erasure has removed the ids that it found, and waits.
        holding = connection.transaction()
        await holding.start()
        await connection.execute("select memoryd.block_erasures()")
        erasing = await meanwhile(third, connection, ERASE, ANN)
        await writing.commit()
        await holding.commit()
        await erasing
    else:
        ending = third.transaction()
        await ending.start()
        await third.execute(ERASE, ANN)
        if moment == "during":
            await writing.commit()
        await ending.commit()
        if moment == "after":
            await writing.commit()
    assert await connection.fetch(NAMED, known) == []
    assert await connection.fetch(RELATED, known) == []


async def test_an_export_names_no_knowledge_of_another_user(connection: asyncpg.Connection) -> None:
    by: dict[str, object] = {"tier": "core", "category": "team", "title": "x", "content": "y"}
    theirs, agents, own = [
        await insert(connection, "shared_knowledge", by | {"created_by": who})
        for who in (str(ANN), "alice", str(BOB))
    ]
    await connection.execute(
        "insert into memory_queries (user_id, knowledge_ids) values ($1, $2)", BOB, [theirs, agents, own]
    )
    file = await connection.fetchval("select export_user_memory($1)", BOB)
    assert str(theirs) not in file
    [row] = json.loads(file)["tables"]["memory_queries"]
    assert row["knowledge_ids"] == [str(agents), str(own)]
