"""One statement over thousands of rows costs as much as its rows, not as their square: no caller can keep a processor busy with
it.

Triggers compare the rows before a statement with those after it. Their plans are kept from the first statement of a session,
which may have had one row; so the plans of that one are looked at, as the server prints them.
"""

from __future__ import annotations

import re

import asyncpg
import pytest

from tests.support.rows import insert

ROWS: dict[str, dict[str, object]] = {
    "agent_memory": {"agent_id": "alice", "content": "a boat"},
    "agent_commands": {"agent_id": "alice", "message": "sail"},
    "memory_requests": {"kind": "recall", "query": "boats"},
    "documents": {"title": "boats"},
    "conversation_sessions": {"title": "boats"},
    "shared_knowledge": {
        "tier": "core",
        "category": "team",
        "title": "boats",
        "content": "they float",
        "created_by": "alice",
    },
}
CHANGES = {
    "agent_memory": "content = 'a ship'",
    "agent_commands": "status = 'cancelled'",
    "memory_requests": "status = 'failed'",
    "documents": "user_id = gen_random_uuid()",
    "conversation_sessions": "user_id = gen_random_uuid()",
    "shared_knowledge": "content = 'they sink'",
}
BY_HASH = re.compile(r"\{HASHJOIN|\{MERGEJOIN|:useHashTable true")


@pytest.mark.parametrize("table", ROWS)
async def test_rows_before_and_after_a_change_are_compared_by_a_hash(
    connection: asyncpg.Connection, second: asyncpg.Connection, table: str
) -> None:
    await insert(connection, table, ROWS[table])
    plans: list[str] = []
    second.add_log_listener(lambda _connection, message: plans.append(f"{message.message} {message.detail}"))
    await second.execute(
        "set debug_print_plan = on; set debug_pretty_print = off; set client_min_messages = log"
    )
    assert await second.execute(f"update {table} set {CHANGES[table]}") == "UPDATE 1"
    joins = [plan for plan in plans if plan.count("{NAMEDTUPLESTORESCAN") >= 2]
    assert joins
    assert [plan for plan in joins if not BY_HASH.search(plan)] == []
    # A plan that the planner was forbidden costs 1e10 before Postgres 18, and is compiled for it each time.
    assert [plan for plan in plans if re.search(r":total_cost \d{10,}", plan)] == []
