"""A statement that changes thousands of rows, in a session that has changed single rows: its triggers keep their plans."""

from __future__ import annotations

import time

import asyncpg

from tests.support.replica.passes import Replicated

FILL = "insert into agent_memory (agent_id, content) select 'a', 'Text ' || n from generate_series(1, 4000) n"
CHANGE_ONE = "update agent_memory set content = content || '.' where content = $1"
CHANGE_ALL = "update agent_memory set metadata = jsonb_build_object('at', clock_timestamp())"


async def test_notes_of_thousands_of_changes_are_written_by_a_plan_for_one(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    """With a plan that is made for them the same rows take about as long. Both are measured in turns."""
    await connection.execute(FILL)
    taken = {"kept": 0.0, "new": 0.0}
    for turn in range(2):
        for plans in taken:
            await connection.execute("discard plans")
            if plans == "kept":
                for n in range(8):
                    await connection.execute(CHANGE_ONE, f"Text {100 * turn + n}")
            began = time.perf_counter()
            await connection.execute(CHANGE_ALL)
            taken[plans] += time.perf_counter() - began
    assert taken["kept"] < 3 * taken["new"], taken
