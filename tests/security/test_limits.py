"""What is too big, too deep or too long to be carried on is refused, in words that say what may be."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.access.refusals import refused
from tests.support.rows import insert

CHECK = "23514"
SESSION = UUID(int=0x5E55)
MINE: dict[str, dict[str, object]] = {
    "agent_memory": {"agent_id": "alice", "user_id": ANN, "content": "x"},
    "agent_commands": {"agent_id": "alice", "user_id": ANN, "message": "x"},
    "memory_requests": {"kind": "recall", "user_id": ANN, "query": "x"},
    "memory_queries": {"agent_id": "alice", "user_id": ANN},
    "conversation_sessions": {"user_id": ANN},
    "conversation_messages": {"session_id": SESSION, "user_id": ANN, "role": "user", "content": "x"},
    "documents": {"user_id": ANN, "title": "x"},
    "memory_chunks": {"document_id": SESSION, "chunk_index": 0, "chunk_text": "x"},
    "agent_sessions": {"user_id": ANN},
}
"""The least that a user's row needs, of each table that users write."""
AGENTS: dict[str, dict[str, object]] = {
    "agents": {"agent_id": "bob"},
    "chat_groups": {"platform": "web"},
    "shared_knowledge": {
        "tier": "core",
        "category": "team",
        "title": "x",
        "content": "x",
        "created_by": "alice",
    },
    "agent_execution_logs": {"step_name": "x", "action_type": "reasoning"},
    "memory_anchors": {"agent_id": "alice", "category": "decision", "payload": "{}", "content_hash": b"x"},
    "user_memory_access": {"user_id": ANN},
}
"""The same of those that agents write."""

WRITABLE = """
select c.table_name::text as place, c.column_name::text as name, c.udt_name::text as type
from information_schema.column_privileges p
join information_schema.columns c using (table_schema, table_name, column_name)
where p.grantee = 'memoryd_user' and p.privilege_type in ('INSERT', 'UPDATE') and c.table_schema = 'public'
  and c.udt_name in ('text', 'jsonb', '_text', '_uuid', '_float8')
group by 1, 2, 3
order by 1, 2
"""
CHOICES = {"kind", "memory_type", "status", "role", "speaker"}
"""Texts of which few are allowed, or whose length is bounded already; agent_id is, too, where a command or a memory has one."""
BOUNDED = {("agent_memory", "agent_id"), ("agent_memory", "key"), ("agent_commands", "agent_id"),
           ("conversation_sessions", "agent_id"), ("conversation_messages", "agent_id")}  # fmt: skip
DEEP = "[" * 66 + "]" * 66
JSON = {
    "deep": ('{"a": ' + DEEP + "}", "is nested deeper than 64 levels"),
    "very deep": ('{"a":' * 3000 + "1" + "}" * 3000, "is nested deeper than 64 levels"),
    "long number": ('{"n": ' + "9" * 1001 + "}", "holds a number of more than 1,000 digits"),
    "short number of many digits": ('{"n": [1, -1e9999]}', "holds a number of more than 1,000 digits"),
    "many digits behind the point": ('{"n": 1e-9999}', "holds a number of more than 1,000 digits"),
    "many numbers of many digits": (
        '{"n": [' + "1e99999," * 100_000 + "1]}",
        "holds a number of more than 1,000",
    ),
    "many bytes": ('{"a": "' + "x" * 1_048_576 + '"}', "has 1048585 bytes as text"),
}
SOUND = {
    "deep enough": '{"a": ' + "[" * 62 + "1" + "]" * 62 + "}",
    "a number": '{"n": ' + "9" * 1000 + ', "m": 0.' + "1" * 1000 + "}",
    "digits in a text": '{"n": "' + "9" * 5000 + '"}',
    "a megabyte": '{"a": "' + "x" * 1_000_000 + '"}',
}
TOO_LONG = {"content": 10_000_001, "chunk_text": 10_000_001, "message": 10_000_001, "query": 10_000_001,
            "output": 250_000_001, "error_message": 1_000_001, "agent_id": 201}  # fmt: skip


@pytest.fixture
async def mine(scratch: asyncpg.Connection) -> asyncpg.Connection:
    """A database with what the rows of MINE refer to."""
    await insert(scratch, "conversation_sessions", {"id": SESSION, "user_id": ANN})
    await insert(scratch, "documents", {"id": SESSION, "user_id": ANN, "title": "a document"})
    await scratch.execute("insert into agents (agent_id, open_to_users) values ('alice', true)")
    return scratch


def statement(row: dict[str, object], table: str, name: str, cast: str) -> tuple[str, list[object]]:
    """An insert of a row, column `name` given as the last parameter."""
    given = {k: v for k, v in row.items() if k != name}
    columns = ", ".join([*given, name])
    places = ", ".join([f"${n}" for n in range(1, len(given) + 1)] + [f"${len(given) + 1}::text::{cast}"])
    return f"insert into {table} ({columns}) values ({places})", list(given.values())


async def test_every_text_that_a_user_may_write_is_bounded(mine: asyncpg.Connection) -> None:
    seen = set()
    for place, name, kind in await mine.fetch(WRITABLE):
        if name in CHOICES or (place, name) in BOUNDED:
            continue
        seen.add(place)
        match kind:
            case "text":
                most = TOO_LONG.get(name, 10_000_001)
                # Distinct words: what compresses well is refused like all else.
                value, cast, said = "word " * (most // 5 + 1), "text", f"{name} has "
            case "jsonb":
                value, cast, said = '{"a": ' + DEEP + "}", "jsonb", f"{name} is nested deeper"
            case "_text":
                value, cast, said = "{" + "a," * 1000 + "a}", "text[]", f"{name} has 1001 entries"
            case "_float8":
                value, cast, said = "{" + "1," * 1000 + "1}", "float8[]", f"{name} has 1001 entries"
            case _:
                value, cast, said = (
                    "{" + ",".join([str(ANN)] * 1001) + "}",
                    "uuid[]",
                    f"{name} has 1001 entries",
                )
        sql, given = statement(MINE[place], place, name, cast)
        async with acting_as(mine, ANN):
            state, message, hint = await refused(mine, sql, *given, value)
        assert (state, message[: len(said)], hint[:8]) == (CHECK, said, "At most "), (place, name)
    assert seen == set(MINE)


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("table", ["agent_memory", "conversation_messages"])
async def test_json_that_is_too_deep_for_parsers_is_refused(
    mine: asyncpg.Connection, table: str, name: str
) -> None:
    value, said = JSON[name]
    sql, given = statement(MINE[table], table, "metadata", "jsonb")
    async with acting_as(mine, ANN):
        state, message, hint = await refused(mine, sql, *given, value)
    assert (state, hint) == (
        CHECK, "At most 1,048,576 bytes of JSON, 64 levels deep, its numbers of 1,000 digits.")  # fmt: skip
    assert message.startswith(f"metadata {said}")


@pytest.mark.parametrize("name", SOUND)
async def test_json_up_to_the_limit_is_accepted(mine: asyncpg.Connection, name: str) -> None:
    async with acting_as(mine, ANN):
        kept = await insert(mine, "agent_memory", MINE["agent_memory"] | {"metadata": SOUND[name]})
        read = await mine.fetchval("select metadata from agent_memory where id = $1", kept)
    assert json.loads(read) == json.loads(SOUND[name])


@pytest.mark.parametrize("table", AGENTS)
async def test_every_text_that_agents_write_is_bounded(mine: asyncpg.Connection, table: str) -> None:
    columns = await mine.fetch(
        "select column_name::text as name, udt_name::text as kind from information_schema.columns "
        "where table_name = $1 and table_schema = 'public' and udt_name in ('text', 'jsonb', '_text', '_uuid')", table,
    )  # fmt: skip
    chosen = {"tier", "confidence", "status", "action_type", "user_role", "visibility_scope", "chunk_text"}
    if table in {"memory_anchors", "shared_knowledge"}:
        chosen |= {"category"} if table == "memory_anchors" else set()
    for name, kind in columns:
        if name in chosen or (table, name) == ("agents", "agent_id"):
            continue
        value, cast = {
            "text": ("x" * 10_000_001, "text"),
            "jsonb": ('{"a": ' + DEEP + "}", "jsonb"),
            "_text": ("{" + "a," * 1000 + "a}", "text[]"),
            "_uuid": ("{" + ",".join([str(ANN)] * 1001) + "}", "uuid[]"),
        }[kind]
        sql, given = statement(AGENTS[table], table, name, cast)
        async with acting_as(mine, None, role="memoryd_service"):
            state, message, hint = await refused(mine, sql, *given, value)
        assert (state, message.split()[0], hint[:7]) == (CHECK, name, "At most"), name


async def test_ten_million_characters_of_content_are_accepted(mine: asyncpg.Connection) -> None:
    said = "wörd " * 2_000_000
    async with acting_as(mine, ANN):
        for table, name in (
            ("agent_memory", "content"), ("agent_commands", "message"), ("memory_requests", "query"),
            ("conversation_messages", "content"), ("documents", "content"), ("memory_chunks", "chunk_text"),
        ):  # fmt: skip
            sql, given = statement(MINE[table], table, name, "text")
            await mine.execute(sql, *given, said)


async def test_the_limit_applies_to_updates(mine: asyncpg.Connection) -> None:
    async with acting_as(mine, ANN):
        kept = await insert(mine, "agent_memory", MINE["agent_memory"])
        _, message, _ = await refused(
            mine, "update agent_memory set content = repeat('word ', 2000001) where id = $1", kept
        )
        assert message == "content has 10000005 characters"
        state, _, _ = await refused(
            mine, "update agent_memory set metadata = $2::text::jsonb where id = $1", kept, DEEP
        )
        assert state == CHECK


async def test_an_agents_name_of_any_length_still_gets_an_empty_context(mine: asyncpg.Connection) -> None:
    """A context logs what was asked for: the log's own limit is no reason to fail."""
    async with acting_as(mine, ANN):
        assert await mine.fetchval("select build_context($1, 'anything')", "x" * 5000) == ""
        assert await mine.fetchval("select max(length(agent_id)) from memory_queries") == 200


async def test_an_import_beyond_a_limit_names_the_limit(mine: asyncpg.Connection) -> None:
    row = {
        "id": str(uuid4()),
        "user_id": str(ANN),
        "agent_id": "alice",
        "content": "x",
        "metadata": json.loads(DEEP),
    }
    state, message, _ = await refused(
        mine, "select memoryd.import_rows($1, $1, 'agent_memory', $2)", ANN, json.dumps([row])
    )
    assert (state, message) == (CHECK, "metadata is nested deeper than 64 levels")
