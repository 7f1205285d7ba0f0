"""What users take along of their memory, and bring back."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.users import decide, kept_of, whole_user
from tests.support.content.index import INDEXED_MEMORIES
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import ask, column, insert, remember
from tests.support.waiting import IDLE, until


async def export(connection: asyncpg.Connection, user: UUID) -> dict[str, list[dict[str, Any]]]:
    """The tables of a user's export."""
    document = json.loads(await connection.fetchval("select export_user_memory($1)", user))
    assert (document["format"], document["version"], document["user_id"]) == ("memoryd-export", 1, str(user))
    tables: dict[str, list[dict[str, Any]]] = document["tables"]
    return tables


async def put_back(
    connection: asyncpg.Connection, tables: dict[str, Any], *, user: UUID = ANN, to: UUID | None = None
) -> dict[str, int]:
    """Imports tables; how many rows of each were new."""
    known = await column(connection, "select name from memoryd.user_tables()")
    async with connection.transaction():
        return {
            name: await connection.fetchval(
                "select memoryd.import_rows($1, $2, $3, $4)", user, to or user, name, json.dumps(tables[name])
            )
            for name in sorted(tables, key=lambda n: known.index(n) if n in known else 0)
        }


async def test_an_export_holds_every_table_that_has_users(connection: asyncpg.Connection) -> None:
    ids = await whole_user(connection, ANN, "wombat")
    await whole_user(connection, BOB, "numbat")
    await remember(connection, "the agents' own wombat")
    tables = await export(connection, ANN)
    assert {name for name, rows in tables.items() if not rows} == set()
    assert set(await kept_of(connection, ANN)) <= set(tables)
    for name, made in ids.items():
        assert str(made) in {row.get("id") for row in tables[name]}, name
    text = json.dumps(tables)
    assert str(BOB) not in text
    assert "numbat" not in text
    assert "the agents' own" not in text
    # What is computed from the rest, and what the agents know.
    columns = {column for rows in tables.values() for row in rows for column in row}
    assert not columns & {
        "embedding",
        "sparse_embedding",
        "dense_embedding",
        "keywords",
        "context",
        "code",
        "scope",
    } - {"context"}
    assert not any("context" in row for row in tables["agent_commands"])


async def test_an_export_holds_no_answers(connection: asyncpg.Connection) -> None:
    """They repeat rows: exports before it, and what others wrote. A file of an earlier memoryd has them."""
    await remember(connection, "once is enough", user_id=ANN)
    for kind in ("export", "recall"):
        asked: dict[str, object] = {
            "kind": kind,
            "user_id": ANN,
            "query": "?",
            "status": "done",
            "result": '["before"]',
        }
        await insert(connection, "memory_requests", asked)
    await insert(connection, "memory_requests", {"kind": "erase", "user_id": ANN})
    requests = (await export(connection, ANN))["memory_requests"]
    assert [request["kind"] for request in requests] == ["export", "recall"]
    assert not any("result" in request for request in requests)
    await connection.execute("delete from memory_requests")
    await put_back(
        connection, {"memory_requests": [request | {"result": ["before"]} for request in requests]}
    )
    assert await column(connection, "select status from memory_requests where result is null") == ["done"] * 2


async def test_an_import_restores_erased_rows_unchanged(connection: asyncpg.Connection) -> None:
    await whole_user(connection, ANN, "wombat")
    await whole_user(connection, BOB, "numbat")
    await connection.execute(
        "update agent_memory set created_at = '2024-02-29 12:34:56.789012+02' where user_id = $1", ANN
    )
    await decide(connection, ANN, conversation_retention_minutes=77)
    others = await kept_of(connection, BOB)
    before = await export(connection, ANN)
    await connection.execute("select erase_user_memory($1)", ANN)
    assert not any((await export(connection, ANN)).values())
    await connection.execute("delete from agent_execution_logs where user_id = $1", ANN)
    await connection.execute("set timezone = 'Asia/Kathmandu'")
    counts = await put_back(connection, before)
    assert counts == {name: len(rows) for name, rows in before.items()}
    assert await export(connection, ANN) == before
    assert await kept_of(connection, BOB) == others


async def test_imported_rows_are_indexed_and_not_captured_again(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    remembered = await ask(connection, "paint the shed", user_id=ANN, status="completed", output="green")
    forgotten = await ask(connection, "paint the fence", user_id=ANN, status="completed", output="blue")
    await until(connection, IDLE)
    await connection.execute("delete from agent_memory where command_id = $1", forgotten)
    tables = await export(connection, ANN)
    await connection.execute("select erase_user_memory($1)", ANN)
    await put_back(connection, tables)
    await until(connection, IDLE)
    rows = await connection.fetch(
        f"select command_id, id in ({INDEXED_MEMORIES}) as indexed from agent_memory"
    )
    assert [tuple(r) for r in rows] == [(remembered, True)]
    assert await column(connection, "select distinct status from agent_commands") == ["completed"]


async def test_importing_twice_changes_nothing(connection: asyncpg.Connection) -> None:
    await whole_user(connection, ANN, "wombat")
    tables = await export(connection, ANN)
    await connection.execute("delete from agent_execution_logs where step_name = 'export'")
    assert set((await put_back(connection, tables)).values()) == {0}
    assert await export(connection, ANN) == tables


async def test_an_import_can_give_the_rows_to_another_user(connection: asyncpg.Connection) -> None:
    await whole_user(connection, ANN, "wombat")
    tables = await export(connection, ANN)
    await connection.execute("select erase_user_memory($1)", ANN)
    counts = await put_back(connection, tables, to=BOB)
    assert counts == {name: len(rows) for name, rows in tables.items()}
    assert set((await kept_of(connection, ANN)).values()) == {0}
    assert (await export(connection, BOB))["agent_memory"][0]["user_id"] == str(BOB)


async def test_an_import_while_memory_is_off_leaves_it_off(connection: asyncpg.Connection) -> None:
    await remember(connection, "wombat", user_id=ANN)
    await decide(connection, ANN, memory_enabled=False)
    tables = await export(connection, ANN)
    await connection.execute("select erase_user_memory($1)", ANN)
    assert (await put_back(connection, tables))["agent_memory"] == 1
    assert await connection.fetchval("select memoryd.memory_is_off($1)", ANN)


async def test_an_import_overwrites_nothing_and_refers_to_nothing_of_others(
    connection: asyncpg.Connection,
) -> None:
    """A forged file: its rows bear the ids of another's, or hang on them."""
    theirs = await whole_user(connection, BOB, "numbat")
    mine = await whole_user(connection, ANN, "wombat")
    everything = await export(connection, BOB)
    forged = await export(connection, ANN)
    for name, rows in forged.items():
        for row in rows:
            if "id" in row and name in theirs:
                row["id"] = str(theirs[name])
    await connection.execute("select erase_user_memory($1)", ANN)
    await connection.execute("delete from agent_execution_logs where action_type <> 'tool_call'")
    counts = await put_back(
        connection, {name: rows for name, rows in forged.items() if name in theirs and "id" in rows[0]}
    )
    assert set(counts.values()) == {0}
    hung: dict[str, Any] = {
        "conversation_messages": {"user_id": str(ANN), "session_id": str(theirs["conversation_sessions"]), "message_index": 99,
                                  "role": "user", "content": "obey me"},
        "memory_chunks": {"user_id": str(ANN), "document_id": str(theirs["documents"]), "chunk_index": 9,
                          "chunk_text": "obey me"},
        "agent_execution_logs": {"user_id": str(ANN), "session_id": str(theirs["agent_sessions"]), "step_name": "obey me",
                                 "action_type": "decision"},
        "memory_associations": {"memory_id": str(theirs["agent_memory"]), "related_memory_id": str(mine["agent_memory"]),
                                "association_type": "causal", "strength": 1},
        "memory_anchors": {"id": str(theirs["memory_anchors"]), "memory_id": str(theirs["agent_memory"]), "payload": "obey me",
                           "agent_id": "alice", "category": "decision", "content_hash": "\\x68617368"},
    }  # fmt: skip
    for name, row in hung.items():
        columns = {
            "metadata": {},
            "visibility_tags": [],
            "status": "success",
            "created_at": "2024-01-01T00:00:00+00:00",
        }
        own = await connection.fetchval("select memoryd.own_columns($1)", name)
        whole = {"id": str(uuid4())} | row | {k: v for k, v in columns.items() if k in own}
        assert await put_back(connection, {name: [whole]}) == {name: 0}
    outcome = {"id": str(uuid4()), "agent_id": "alice", "user_id": str(ANN), "kind": "outcome", "content": "it went wrong",
               "command_id": str(theirs["agent_commands"]), "metadata": {}, "ttl_hours": 5,
               "created_at": "2024-01-01T00:00:00Z", "updated_at": "2024-01-01T00:00:00Z"}  # fmt: skip
    await put_back(connection, {"agent_memory": [outcome]})
    assert await connection.fetchval("select count(*) from agent_memory where command_id is not null") == 0
    await connection.execute("delete from agent_execution_logs where action_type <> 'tool_call'")
    after = await export(connection, BOB)
    everything["agent_execution_logs"] = [
        r for r in everything["agent_execution_logs"] if r["action_type"] == "tool_call"
    ]
    assert after == everything


NAMED = {
    "session_id": "conversation_sessions",
    "chat_id": "chat_groups",
    "command_id": "agent_commands",
    "document_id": "documents",
    "dream_id": None,
    "insight_ids": "dream_insights",
    "knowledge_ids": "shared_knowledge",
    "related_ids": "shared_knowledge",
} | dict.fromkeys(
    (
        "memory_id",
        "related_memory_id",
        "superseded_by",
        "retrieved_memory_ids",
        "source_memories",
    ),
    "agent_memory",
)
"""Of each column of ids the table whose rows it names; None: nobody's."""
ID_COLUMNS = """
select c.relname, a.attname, a.atttypid = 'uuid[]'::regtype as is_list
from pg_attribute a join pg_class c on c.oid = a.attrelid
where a.atttypid in ('uuid'::regtype, 'uuid[]'::regtype) and c.relname = any($1) and c.relkind = 'r'
  and a.attname not in ('id', 'user_id', 'org_id', 'said_key')
"""


async def test_no_imported_row_names_a_row_of_another_user(connection: asyncpg.Connection) -> None:
    """An edited file, whose rows are new and the user's own: each id that it can name, one at a time, is another's."""
    ids = await whole_user(connection, BOB, "numbat")
    await whole_user(connection, ANN, "wombat")
    group, group_talk = uuid4(), uuid4()
    await insert(connection, "chat_groups", {"id": group, "platform": "slack"})
    said = {"session_id": group_talk, "chat_id": group, "user_id": BOB, "role": "user", "content": "hush"}
    await insert(connection, "conversation_messages", said)
    theirs = {name: [made] for name, made in ids.items()} | {"chat_groups": [group]}
    theirs["conversation_sessions"] += [group_talk]
    file = await export(connection, ANN)
    await connection.execute("select erase_user_memory($1)", ANN)
    tables = [name for name in file if name not in ("memory_anchors", "chat_group_members")]
    for name, column_name, is_list in await connection.fetch(ID_COLUMNS, tables):
        target = "agent_sessions" if name == "agent_execution_logs" else NAMED[column_name]
        # Nor one that is another's later.
        later = [uuid4()] if column_name == "command_id" else []
        for other in (*theirs[target], *later) if target else []:
            forged = {"id": str(uuid4()), column_name: [str(other)] if is_list else str(other)}
            await put_back(connection, {name: [file[name][0] | forged]})
            named = f"select count(*) from {name} where id = $1::text::uuid and {column_name}::text like '%' || $2 || '%'"
            assert not await connection.fetchval(named, forged["id"], str(other)), (name, column_name)
    outcome = {"success": True, "result": "it squeaks", "scored_by": str(ids["shared_knowledge"])}
    decision = {"id": str(uuid4()), "category": "decision", "outcome": outcome}
    await put_back(connection, {"shared_knowledge": [file["shared_knowledge"][0] | decision]})
    told = "select coalesce(outcome ->> 'scored_by', 'nobody') from shared_knowledge where id = $1"
    assert await column(connection, told, decision["id"]) == ["nobody"]
    rest = "select content from conversation_messages where chat_id = $1 or session_id = $2"
    assert await column(connection, rest, group, group_talk) == ["hush"]


@pytest.mark.parametrize(
    ("table", "rows", "error"),
    [
        ("jobs", [], "the file has a table 'jobs', which this memoryd does not know"),
        ("agents", [{"agent_id": "x"}], "does not know"),
        ("agent_memory", {}, "is no array of rows"),
        ("agent_memory", [1], "is no array of rows"),
        ("agent_memory", None, "is no array of rows"),
        ("agent_memory", [{"content": "x", "embedding": "[1]"}], "has a column 'embedding'"),
        ("agent_memory", [{"content": "x", "user_id); drop table agents; --": 1}], "has a column"),
        ("agent_memory", [{"content": "x", "user_id": str(BOB)}], "rows of another user than the file"),
        ("agent_memory", [{"content": "x", "user_id": None}], "rows of another user"),
        ("agent_memory", [{"content": "x"}], "rows of another user"),
        ("shared_knowledge", [{"created_by": "alice"}], "rows of another user"),
        ("agent_memory", [{"user_id": str(ANN), "id": "x"}], "invalid input syntax for type uuid"),
        (
            "memory_settings",
            [{"user_id": str(ANN), "memory_ttl_hours": 10**12}],
            "out of range for type integer",
        ),
    ],
)
async def test_a_document_that_is_not_an_export_is_refused(
    scratch: asyncpg.Connection, table: str, rows: object, error: str
) -> None:
    with pytest.raises(asyncpg.DataError, match=error):
        async with scratch.transaction():
            await put_back(scratch, {table: rows})


async def test_only_the_owner_imports(scratch: asyncpg.Connection) -> None:
    for role in ("memoryd_user", "memoryd_admin", "memoryd_service"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with acting_as(scratch, ANN, role=role):
                await scratch.execute("select memoryd.import_rows($1, $1, 'agent_memory', '[]')", ANN)
