"""The view conversation_history: messages under the names of another design, read and written."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import asyncpg

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.rows import column, embedding, one_row, say


async def test_the_history_view_has_the_columns_of_its_design(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    await say(scratch, session, "hello", speaker="Ann Lee", user_id=ANN)
    await say(scratch, session, "hi", role="assistant")
    rows = await scratch.fetch("select * from conversation_history order by message_index")
    assert [(row["speaker"], row["message_text"]) for row in rows] == [("Ann Lee", "hello"), ("agent", "hi")]
    assert set(rows[0].keys()) >= {
        "id", "user_id", "session_id", "message_index", "speaker", "message_text", "timestamp", "embedding",
        "access_level", "visibility_tags",
    }  # fmt: skip
    async with acting_as(scratch, BOB):
        assert await scratch.fetch("select * from conversation_history") == []


async def test_a_turn_written_into_the_history_becomes_a_message(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    async with acting_as(scratch, None, role="memoryd_service"):
        write = "insert into conversation_history (session_id, user_id, speaker, message_text) values ($1, $2, $3, $4)"
        await scratch.execute(write, session, ANN, "user", "what is ripe?")
        made = await one_row(
            scratch,
            f'{write} returning id, role, message_index, "timestamp"',
            session,
            ANN,
            "Agent",
            "the plums",
        )
        assert (made["role"], made["message_index"]) == ("assistant", 1)
        await scratch.execute(
            "insert into conversation_history (session_id, speaker, role, message_text) values ($1, 'Ann', 'user', 'fine')",
            session,
        )
        given = write.replace(")", ", embedding)", 1).replace("$4)", "$4, $5::text::vector)")
        await scratch.execute(given, uuid4(), ANN, "user", "x", embedding(0.6, 0.8))
        assert await column(
            scratch,
            "select 1 - (embedding <=> $1::text::vector) from conversation_messages "
            "where embedding is not null",
            embedding(0.6, 0.8),
        ) == [1]
        found = await scratch.fetch("select role, speaker, content from load_context($1)", session)
        assert [tuple(row) for row in found] == [
            ("user", None, "what is ripe?"), ("assistant", None, "the plums"), ("user", "Ann", "fine"),
        ]  # fmt: skip
        for speaker, said in (("Ann", "speaker is 'Ann', and role is null"), (None, "speaker is null")):
            state, message, hint = await refused(scratch, write, session, ANN, speaker, "x")
            assert (state, hint[:28]) == ("23514", "A speaker is user or agent; ")
            assert said in message


async def test_the_names_of_both_designs_are_read_and_written(scratch: asyncpg.Connection) -> None:
    """One says message_text, timestamp and speaker, the other content, created_at and role."""
    session = uuid4()
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    async with acting_as(scratch, None, role="memoryd_service"):
        made = await one_row(
            scratch,
            "insert into conversation_history (session_id, user_id, role, content, created_at) "
            'values ($1, $2, $3, $4, $5) returning content, created_at, message_text, "timestamp", speaker, role',
            session, ANN, "user", "what is ripe?", at,
        )  # fmt: skip
        assert tuple(made)[:4] == ("what is ripe?", at, "what is ripe?", at)
        await scratch.execute(
            "insert into conversation_history (session_id, user_id, role, content) values ($1, $2, 'agent', 'the plums')",
            session, ANN,
        )  # fmt: skip
        both = 'select role, content, message_text, created_at = "timestamp" from conversation_history order by message_index'
        assert [tuple(row) for row in await scratch.fetch(both)] == [
            ("user", "what is ripe?", "what is ripe?", True), ("assistant", "the plums", "the plums", True),
        ]  # fmt: skip
    async with acting_as(scratch, ANN):
        assert await column(scratch, "select content from conversation_history order by created_at") == [
            "what is ripe?", "the plums",
        ]  # fmt: skip
