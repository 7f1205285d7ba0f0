"""The lexeme statistics that search goes by equal those computed from scratch, whatever happened to the rows before."""

from __future__ import annotations

from uuid import UUID, uuid4

import asyncpg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.content.index import index_rows
from tests.support.content.sources import TABLES, one_of_each
from tests.support.database.statistics import miscounted
from tests.support.rows import insert

USERS = (None, UUID(int=1), UUID(int=2))
SENTENCES = ("red red fish", "blue fish", "@at #hash", "the of and", "Fish's 'fish'", "x" * 3000, "ناقة 斑马")

Step = tuple[str, str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "insert",
                "insert",
                "change",
                "delete",
                "index",
                "index",
                "rename",
                "give",
                "share",
                "undo",
                "keep",
                "fold",
            ]
        ),
        st.sampled_from(sorted(TABLES)),
        st.integers(0, 6),
        st.integers(0, 2),
    ),
    min_size=5,
    max_size=40,
)

THIRD = "('x' || left(id::text, 1))::bit(4)::int % 3"
"""A part of the rows, by chance."""


async def step(connection: asyncpg.Connection, what: str, source: str, text: int, user: int) -> None:
    """One thing that happens to the rows; to several rows at once where there are."""
    table, name = TABLES[source]
    parent = {"conversation": "conversation_sessions", "document": "documents"}.get(source, table)
    whose = {"document": "documents", "knowledge": "agent_memory"}.get(source, table)
    shared = "conversation_messages" if source == "conversation" else "memory_chunks"
    if what == "insert":
        await one_of_each(connection, SENTENCES[text])
        said: dict[str, object] = {"session_id": uuid4(), "role": "user", "speaker": "Mary Fish"}
        await insert(
            connection, "conversation_messages", said | {"content": SENTENCES[text], "user_id": USERS[user]}
        )
        return
    if what == "index":
        await index_rows(connection, source)
        return
    statements: dict[str, tuple[str, list[object]]] = {
        "change": (f"update {table} set {name} = $1 where {THIRD} = $2", [SENTENCES[text], user]),
        "delete": (f"delete from {parent} where {THIRD} = $1", [user]),
        "rename": ("update conversation_messages set speaker = $1", [("Fish", "mary fish", None)[user]]),
        "give": (f"update {whose} set user_id = $1 where {THIRD} = $2", [USERS[user], text % 3]),
        "share": (f"update {shared} set access_level = $1", [(None, 0, 5)[user]]),
        "fold": ("select memoryd.fold_lexeme_changes($1)", [text + 1]),
    }
    statement, arguments = statements[what]
    await connection.execute(statement, *arguments)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
async def test_statistics_equal_a_count_from_scratch(
    connection: asyncpg.Connection, steps: list[Step]
) -> None:
    outer = connection.transaction()
    await outer.start()
    try:
        inner = connection.transaction()
        await inner.start()
        for what, source, text, user in steps:
            if what in ("undo", "keep"):
                await (inner.rollback() if what == "undo" else inner.commit())
                inner = connection.transaction()
                await inner.start()
            else:
                await step(connection, what, source, text, user)
                assert (
                    await connection.fetchval("select coalesce(min(rows), 1) from memoryd.lexeme_statistics")
                    > 0
                )
        await inner.commit()
        while await connection.fetchval("select memoryd.fold_lexeme_changes()"):
            pass
        assert await miscounted(connection) == []
    finally:
        await outer.rollback()
