"""updated_at moves with each change that a writer makes of a row, and with nothing that memoryd computes or counts."""

from __future__ import annotations

import asyncpg

from tests.support.access.acting import ANN, BOB
from tests.support.access.users import whole_user
from tests.support.rows import remember

COLUMNS = """
select c.oid::regclass::text as name, a.attname, case when t.typcategory = 'A' then 'array' else t.typname end as kind
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
join pg_type t on t.oid = a.atttypid
where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
  and exists (select from pg_attribute u where u.attrelid = c.oid and u.attname = 'updated_at')
  and a.attname not in ('id', 'created_at', 'updated_at')
order by 1, a.attnum
"""
WORDS = (
    *(
        "x",
        "goal",
        "task_memory",
        "low",
        "learning",
        "insight",
        "paused",
        "error",
        "resolved",
        "causal",
        "sequential",
    ),
    *("admin", "employee", "all", "own", "active", "conflict"),
)
OTHER = {
    "uuid": [
        f"'{BOB}'",
        "null",
        f"(select id from agent_memory where user_id = '{ANN}' order by ctid desc limit 1)",
        "(select id from agent_memory where content = 'another')",
    ],
    "text": [f"'{word}'" for word in WORDS],
    "jsonb": ["'{\"x\": 1}'", "'{\"success\": true}'", '\'{"reasoning": "x"}\''],
    "array": ["'{x}'", f"array['{BOB}'::uuid]"],
    "timestamptz": ["'2031-02-03'", "now() + interval '1 minute'"],
    "int4": ["7"],
    "int2": ["7"],
    "int8": ["7"],
    "bytea": ["sha256('x')"],
    "bool": ["not {0}"],
    "float4": ["0.5"],
    "float8": ["0.5", "0.25"],
    "vector": ["array_fill(0.5, array[memoryd.dimensions()])::vector"],
}
INTERNAL = {
    "memory_associations": {"strength", "automatic", "rested_at"},
    "agent_memory": {"embedding", "command_id", "last_modified_human", "text_changed_at"},
    "shared_knowledge": {
        "embedding",
        "accessed_count",
        "last_accessed_at",
        "said_again",
        "last_modified_human",
    },
}
"""What memoryd computes or counts. The rows of other tables are their writers' alone."""


async def test_each_column_that_a_writer_changes_moves_updated_at_and_no_other(
    connection: asyncpg.Connection,
) -> None:
    await whole_user(connection, ANN, "wombat")
    await remember(connection, "another")
    unchanged: set[tuple[str, str]] = set()
    moved: set[tuple[str, str]] = set()
    for name, column, kind in await connection.fetch(COLUMNS):
        key = "user_id" if name == "memory_settings" else "ctid"
        row = await connection.fetchval(f"select {key}::text from {name} order by 1 limit 1")
        assert row is not None, name
        state = f"select updated_at, {column}::text from {name} where {key}::text = $1"
        for value in OTHER[kind]:
            step = connection.transaction()
            await step.start()
            change = f"update {name} set {column} = {value.replace('{0}', column)} where {key}::text = $1"
            try:
                before = await connection.fetchrow(state, row)
                returned = await connection.fetchrow(f"{change} returning updated_at, {column}::text", row)
            except asyncpg.PostgresError:
                continue  # a value that the column refuses
            finally:
                await step.rollback()
            assert before is not None
            assert returned is not None
            if returned[1] != before[1]:
                (moved if returned[0] > before[0] else unchanged).add((name, column))
    assert unchanged == {(name, column) for name, columns in INTERNAL.items() for column in columns}
    assert not moved & unchanged
    every = {(name, column) for name, column, _ in await connection.fetch(COLUMNS)}
    # It is the key of the row's own text, or null: no other value is taken.
    assert every - moved - unchanged == {("agent_memory", "said_key")}


async def test_how_long_a_users_memories_are_kept_counts_from_their_text(
    connection: asyncpg.Connection,
) -> None:
    """Else a writer keeps them for ever who touches their metadata; and what the setting writes is no change."""
    await connection.execute("insert into memory_settings (user_id, memory_ttl_hours) values ($1, 5)", ANN)
    made = await remember(connection, "a secret", user_id=ANN)
    left = "select extract(epoch from expires_at - created_at) / 3600 from agent_memory where id = $1"
    await connection.execute("update agent_memory set created_at = created_at - interval '3 h', updated_at = updated_at "
                             "- interval '3 h', text_changed_at = updated_at - interval '3 h' where id = $1", made)  # fmt: skip
    changed = "select updated_at from agent_memory where id = $1"
    before = await connection.fetchval(changed, made)
    await connection.execute("update agent_memory set metadata = '{\"a\": 1}' where id = $1", made)
    touched = await connection.fetchval(changed, made)
    assert touched > before
    await connection.execute(
        "update agent_memory set expires_at = now() + interval '40 h' where id = $1", made
    )
    assert round(await connection.fetchval(left, made)) == 5
    touched = await connection.fetchval(changed, made)
    await connection.execute("update memory_settings set memory_ttl_hours = 4 where user_id = $1", ANN)
    assert (round(await connection.fetchval(left, made)), await connection.fetchval(changed, made)) == (
        4,
        touched,
    )
