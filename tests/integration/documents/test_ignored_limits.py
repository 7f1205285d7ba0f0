"""Nothing is shared with more readers than its metadata say: fields that limit nobody are refused on a shared row."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.access.refusals import refused
from tests.support.processes.commands import Commands
from tests.support.rows import column, insert

SHARED = ("documents", "memory_chunks", "conversation_messages")
LIMITS: tuple[dict[str, object], ...] = (
    {"context": "board"},
    {"contexts": ["board"]},
    {"Context": "board"},
    {"allowed_contexts": ["board"]},
    {"allowedContexts": ["board"]},
    {"access_level": 2},
    {"accessLevel": 9},
    {"access-level": "confidential"},
    {"access": {"roles": ["admin"]}},
    {"visibility_tags": ["board"]},
    {"allowed_tags": ["board"]},
    {"visibility_scope": "own"},
    {"visibility": "private"},
    {"user_role": "admin"},
    {"allowed_roles": ["admin"]},
    {"required_role": "admin"},
    {"restricted_to": "the board"},
    {"confidentiality": "high"},
    {"confidential": True},
    {"acl": ["u1"]},
)
AGREED: tuple[dict[str, object], ...] = (
    {"page": 4},
    {"context": "garden", "project": "garden"},
    {"contexts": ["garden"], "project": "garden"},
    {"context": None},
    {"allowed_contexts": []},
    {"access_level": 1},
    {"access_level": 0},
    {"visibility_tags": ["employee"]},
    {"visibility_tags": ["client", "employee"]},
    {"allowed_roles": "employee"},
    {"visibility": "public"},
    {"confidential": False},
    {"accessed_at": "2026-01-01"},
    {"role": "assistant"},
    {"content": "context", "subcontext": 1},
)


async def row(
    connection: asyncpg.Connection, table: str, metadata: object = None, *, level: int | None = 1
) -> UUID:
    """A row for employees, or a private one."""
    said: dict[str, object] = {
        "metadata": json.dumps(metadata or {}),
        "access_level": level,
        "visibility_tags": ["employee"],
    }
    if table == "documents":
        return await insert(connection, table, {"title": "Minutes", **said})
    if table == "memory_chunks":
        document = await insert(connection, "documents", {"title": "Minutes"})
        return await insert(connection, table, {"document_id": document, "chunk_text": "Saplings", **said})
    return await insert(
        connection, table, {"session_id": uuid4(), "role": "user", "content": "Saplings", **said}
    )


async def refuses(connection: asyncpg.Connection, sql: str, *args: object) -> tuple[str, str]:
    """The message and hint of a row that is not shared."""
    state, said, hint = await refused(connection, sql, *args)
    assert state == "23514"
    assert "keeps nobody from reading a shared row" in said
    return said, hint


@pytest.mark.parametrize("table", SHARED)
async def test_a_row_with_a_limit_that_has_no_effect_is_not_shared(
    scratch: asyncpg.Connection, table: str
) -> None:
    for metadata in LIMITS:
        with pytest.raises(asyncpg.CheckViolationError, match="metadata"):
            async with scratch.transaction():
                await row(scratch, table, metadata)
        private = await row(scratch, table, metadata, level=None)
        await refuses(scratch, f"update {table} set access_level = 1 where id = $1", private)
        shared = await row(scratch, table)
        change = f"update {table} set metadata = $2 where id = $1"
        said, hint = await refuses(scratch, change, shared, json.dumps(metadata))
        assert next(iter(metadata)) in said
        assert ("allowed_contexts" in hint) == ("ontext" in said)
        assert ("visibility_tags" in hint) == ("ontext" not in said)
    assert await scratch.fetchval(f"select count(*) from {table} where access_level = 1") == len(LIMITS)


@pytest.mark.parametrize("table", SHARED)
async def test_what_says_no_less_than_the_columns_is_shared(scratch: asyncpg.Connection, table: str) -> None:
    for metadata in AGREED:
        await row(scratch, table, metadata)
        private = await row(scratch, table, metadata, level=None)
        await scratch.execute(f"update {table} set access_level = 1 where id = $1", private)
    for odd in ("[1]", "5", '"context"', '["context"]'):
        await row(scratch, table, json.loads(odd))
    # It says less as soon as the columns say more.
    wider = await row(scratch, table, {"access_level": 1, "visibility_tags": ["employee"]})
    await refuses(scratch, f"update {table} set access_level = 0 where id = $1", wider)
    await refuses(scratch, f"update {table} set visibility_tags = '{{client,employee}}' where id = $1", wider)
    await refuses(scratch, f"update {table} set visibility_tags = '{{}}' where id = $1", wider)


async def test_what_may_only_describe_a_row_is_warned_of_once_a_transaction(
    connection: asyncpg.Connection,
) -> None:
    warned: list[str] = []
    connection.add_log_listener(lambda _, message: warned.append(message.message))
    for metadata in ({"department": "sales"}, {"roles": ["gardener"]}, {"classification": "internal"}):
        warned.clear()
        async with connection.transaction():
            await row(connection, "documents", metadata)
            await row(connection, "documents", metadata)
        (field,) = metadata
        assert warned == [f"metadata.{field} keeps nobody from reading a shared row"]
    warned.clear()
    await row(connection, "documents", {"department": "employee"})
    await row(connection, "documents", {"department": "sales"}, level=None)
    assert warned == []


async def test_a_shared_chunk_keeps_to_what_its_document_says(scratch: asyncpg.Connection) -> None:
    board = await insert(scratch, "documents", {"title": "Minutes", "metadata": '{"project": "board"}'})
    share = (
        "insert into memory_chunks (document_id, chunk_text, access_level, metadata) values ($1, $2, 1, $3)"
    )
    await scratch.execute(share, board, "wages", '{"page": 1}')
    await scratch.execute(share, board, "garden", '{"project": "garden"}')
    await insert(
        scratch, "user_memory_access", {"user_id": ANN, "access_level": 1, "allowed_contexts": ["garden"]}
    )
    async with acting_as(scratch, ANN):
        assert await column(scratch, "select chunk_text from memory_chunks") == ["garden"]
        assert await column(scratch, "select content from recall('wages')") == []
    # A chunk of the document's project moves with it.
    await scratch.execute('update documents set metadata = \'{"project": "garden"}\'')
    async with acting_as(scratch, ANN):
        assert await column(scratch, "select chunk_text from memory_chunks order by 1") == ["garden", "wages"]
        assert await column(scratch, "select content from recall('wages')") == ["wages"]
    await refuses(scratch, 'update documents set metadata = metadata || \'{"context": "board"}\'')
    private = await insert(scratch, "documents", {"title": "Plans", "metadata": '{"context": "board"}'})
    await refuses(scratch, share, private, "plans", "{}")


async def test_what_an_import_brings_stays_private(scratch: asyncpg.Connection) -> None:
    await scratch.execute("set local memoryd.importing = 'on'")
    for table in SHARED:
        await row(scratch, table, {"context": "board"})
        assert await column(scratch, f"select access_level from {table}") == [None]
        await scratch.execute("delete from documents")


async def test_the_doctor_counts_what_was_shared_before(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    async def verdict() -> tuple[str, str]:
        checks = (await Commands(database_url, tmp_path)("doctor", "--json")).json
        (found,) = [one for one in checks if one["name"] == "shared rows"]
        return found["verdict"], found["found"]

    for table in SHARED:
        await row(connection, table, {"project": "garden", "page": 4})
    assert (await verdict())[0] == "ok"
    for table in SHARED:
        await connection.execute(f"alter table {table} disable trigger check_sharing_insert")
        await row(connection, table, {"context": "board"})
    document = await insert(
        connection, "documents", {"title": "Plans", "metadata": '{"allowed_roles": ["admin"]}'}
    )
    chunk = {"document_id": document, "chunk_text": "plans", "access_level": 1}
    await insert(connection, "memory_chunks", chunk)
    said = await verdict()
    assert said[0] == "problem"
    assert "metadata.allowed_roles of 1, metadata.context of 3." in said[1]


async def test_a_row_that_was_shared_before_can_still_be_written(scratch: asyncpg.Connection) -> None:
    await scratch.execute("alter table documents disable trigger check_sharing_insert")
    before = await row(scratch, "documents", {"context": "board"})
    await scratch.execute("update documents set metadata = metadata || '{\"page\": 4}'")
    await scratch.execute("update documents set access_level = null")
    await refuses(scratch, "update documents set access_level = 1 where id = $1", before)
