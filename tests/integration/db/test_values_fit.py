"""What every client can read and see: no time beyond the years of its driver, no text without anything that is seen."""

from __future__ import annotations

from contextlib import suppress

import asyncpg
import pytest

from tests.support.access.acting import ANN
from tests.support.access.refusals import refused
from tests.support.access.users import whole_user
from tests.support.content.index import index_rows
from tests.support.rows import column, insert, remember

TIMES = """
select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.atttypid = 'timestamptz'::regtype
order by 1, 2
"""
BLANK = [
    "\u00a0",
    "\u200b",
    "\u3000",
    "\u2800\u3164",
    "\u1680\u2003\ufeff",
    "\t\u202f\u205f\n",
    "\u00ad\u034f\ufe0f\U000e0020",
]
TEXTS = {
    "agent_commands": ["message"],
    "agent_execution_logs": ["step_name"],
    "agent_memory": ["content"],
    "chat_groups": ["platform"],
    "conversation_messages": ["speaker", "content"],
    "documents": ["title"],
    "dream_insights": ["insight"],
    "memory_chunks": ["chunk_text"],
    "shared_knowledge": ["category", "title", "content", "created_by"],
}


async def test_no_column_holds_a_time_that_drivers_do_not_read(scratch: asyncpg.Connection) -> None:
    await whole_user(scratch, ANN, "wombat")
    await insert(scratch, "dream_sessions", {"started_by": "manual"})
    tried = 0
    for table, name in await scratch.fetch(TIMES):
        for time in ("infinity", "-infinity", "10000-01-01", "0001-12-31 BC"):
            with suppress(asyncpg.CheckViolationError):
                async with scratch.transaction():
                    await scratch.execute(f"update {table} set {name} = $1::text::timestamptz", time)
            # Some are set by memoryd, whatever is written.
            kept = f"select count({name}) from {table} where {name} not between '0001-01-01' and '9999-12-31'"
            assert await scratch.fetchval(kept) == 0, (table, name, time)
            tried += 1
        assert await scratch.fetch(f"select * from {table}")
    assert tried > 150


@pytest.mark.parametrize(("hours", "stays"), [(70_000_000, False), (2**31 - 1, False), (876_000, True)])
async def test_hours_to_live_end_within_the_years_of_drivers(
    scratch: asyncpg.Connection, hours: int, stays: bool
) -> None:
    order = (
        "insert into agent_memory (agent_id, user_id, content, ttl_hours) values ('a', $1, 'kept long', $2)"
    )
    if not stays:
        assert (await refused(scratch, order, ANN, hours))[0] == "23514"
        later = "update agent_memory set ttl_hours = $2 where id = $1"
        assert (await refused(scratch, later, await remember(scratch, "x", user_id=ANN), hours))[0] == "23514"
        return
    await scratch.execute(order, ANN, hours)
    assert await scratch.fetchval("select expires_at > now() from agent_memory") is True


@pytest.mark.parametrize("blank", BLANK, ids=ascii)
async def test_a_text_without_anything_that_is_seen_is_blank(scratch: asyncpg.Connection, blank: str) -> None:
    await whole_user(scratch, ANN, "wombat")
    await scratch.execute("update conversation_messages set metadata = '{}'")
    for table, names in TEXTS.items():
        for name in names:
            code, said, _ = await refused(scratch, f"update {table} set {name} = $1", blank)
            assert code == "23514", (table, name)
            # What '\\S' sees as blank has been refused by the checks of the tables.
            assert f"{name} is blank" in said or f"{name}_check" in said, (table, said)
    command = "insert into agent_commands (agent_id, message) values ($1, $2)"
    assert (await refused(scratch, command, "alice", blank))[1] == "message is blank"
    for table in ("agents", "agent_commands", "conversation_sessions"):
        code, said, _ = await refused(scratch, f"update {table} set agent_id = $1", blank)
        assert code == "23514", table
    # What only calls a tool, and what was there before and stays as it is.
    await scratch.execute("update conversation_messages set content = $1, metadata = '{\"a\": 1}'", blank)
    assert await scratch.fetchval("select every(memoryd.is_blank(content)) from conversation_messages")


@pytest.mark.parametrize(
    "question", ["", "   ", "\n\t", "???", "...", "-", "\u3002\uff01", "\u00bf\u2026?", *BLANK], ids=ascii
)
async def test_blanks_and_punctuation_ask_for_nothing(scratch: asyncpg.Connection, question: str) -> None:
    for said in ("Anna likes tea", "## Contents\n\n- (To)\n\n- \n\n- ", "1\n2\n3", "what??? \u2026 -"):
        await remember(scratch, said, user_id=ANN)
    await index_rows(scratch, "memory")
    assert await column(scratch, "select content from recall($1, user_id => $2)", question, ANN) == []
    assert await column(scratch, "select text from memoryd.read_question($1, null, $2)", question, ANN) == [
        ""
    ]
    assert (
        await scratch.fetchval(
            "select count(*) from match_memory(query => $1, filter_user_id => $2)", question, ANN
        )
        == 0
    )
    assert await column(scratch, "select content from recall('tea', user_id => $1)", ANN) == [
        "Anna likes tea"
    ]
