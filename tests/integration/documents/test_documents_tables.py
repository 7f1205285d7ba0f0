"""Documents and their chunks as tables: whose a chunk is, who is shown what is shared, and who may change what."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, NOBODY, acting_as
from tests.support.access.refusals import refused
from tests.support.database.schemas import connected
from tests.support.rows import column, insert, one_row
from tests.support.waiting import BLOCKED, until

SEEN = "select chunk_text from memory_chunks order by chunk_text"


async def write(connection: asyncpg.Connection, title: str = "Handbook", **columns: object) -> UUID:
    """A document, without a user unless one is given."""
    return await insert(connection, "documents", {"title": title} | columns)


async def cut(connection: asyncpg.Connection, document: UUID, text: str, **columns: object) -> UUID:
    """A chunk, the document's next."""
    place = await connection.fetchval(
        "select count(*)::int from memory_chunks where document_id = $1", document
    )
    values = {"document_id": document, "chunk_index": place, "chunk_text": text}
    return await insert(connection, "memory_chunks", values | columns)


async def admit(connection: asyncpg.Connection, user: UUID, **columns: object) -> None:
    """What a user may read of what is shared."""
    await insert(connection, "user_memory_access", {"user_id": user} | columns)


@pytest.mark.parametrize(
    ("table", "columns", "state", "said", "hint"),
    [
        ("documents", {"title": " "}, "23514", "title is blank", "A document has a title."),
        ("documents", {"title": None}, "23502", '"title"', ""),
        (
            "documents",
            {"status": "done"},
            "23514",
            "unknown status 'done'",
            "processing, active, deleted, conflict",
        ),
        ("documents", {"content_hash": b"short"}, "23514", "content_hash has 5 bytes", "A SHA-256 has 32."),
        ("documents", {"replica_path": "a.md"}, "23505", "documents_replica", ""),
        ("memory_chunks", {"chunk_text": "\t"}, "23514", "chunk_text is blank", "A chunk says something."),
        ("memory_chunks", {"chunk_index": -1}, "23514", "chunk_index is -1", "counted from 0"),
        ("memory_chunks", {"chunk_index": 0}, "23505", "chunk_position", ""),
        ("memory_chunks", {"access_level": -1}, "23514", "access_level is -1", "null keeps it"),
        ("memory_chunks", {"document_id": UUID(int=0)}, "23503", "document_id_fkey", ""),
        (
            "user_memory_access",
            {"user_role": "boss"},
            "23514",
            "unknown user_role 'boss'",
            "client, employee, admin",
        ),
        (
            "user_memory_access",
            {"visibility_scope": "team"},
            "23514",
            "unknown visibility_scope 'team'",
            "own (nothing",
        ),
        ("user_memory_access", {"access_level": -1}, "23514", "access_level is -1", "count from 0"),
        ("user_memory_access", {"user_id": None}, "23502", '"user_id"', ""),
        ("user_memory_access", {"user_id": BOB}, "23505", "user_id_key", ""),
    ],
)
async def test_an_invalid_row_is_refused_with_advice(
    scratch: asyncpg.Connection, table: str, columns: dict[str, object], state: str, said: str, hint: str
) -> None:
    document = await write(scratch, replica_path="a.md")
    await cut(scratch, document, "first")
    await admit(scratch, BOB)
    whole: dict[str, dict[str, object]] = {
        "documents": {"title": "x"},
        "memory_chunks": {"document_id": document, "chunk_index": 1, "chunk_text": "x"},
        "user_memory_access": {"user_id": ANN},
    }
    values = whole[table] | columns
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    sql = f"insert into {table} ({', '.join(values)}) values ({places})"
    found = await refused(scratch, sql, *values.values())
    assert found[0] == state
    assert said in found[1]
    assert hint in found[2]


async def test_a_change_sets_updated_at(scratch: asyncpg.Connection) -> None:
    await write(scratch)
    await admit(scratch, BOB)
    for table, what in (("documents", "status = 'active'"), ("user_memory_access", "access_level = 3")):
        row = await one_row(scratch, f"update {table} set {what} returning created_at, updated_at")
        assert row["updated_at"] > row["created_at"]


async def test_a_chunk_belongs_to_the_user_of_its_document(scratch: asyncpg.Connection) -> None:
    document = await write(scratch, user_id=ANN)
    # Whatever is said of it.
    await cut(scratch, document, "one", user_id=BOB)
    await cut(scratch, document, "two")
    owners = "select distinct user_id from memory_chunks"
    assert await column(scratch, owners) == [ANN]
    await scratch.execute("update memory_chunks set user_id = $1", BOB)
    assert await column(scratch, owners) == [ANN]
    for user in (BOB, None):
        await scratch.execute("update documents set user_id = $1", user)
        assert await column(scratch, owners) == [user]
    await scratch.execute("delete from documents")
    assert await column(scratch, owners) == []


async def test_a_chunk_inserted_while_its_document_changes_its_owner_follows(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    document = await write(connection, user_id=ANN)
    handing = connection.transaction()
    await handing.start()
    await connection.execute("update documents set user_id = $1", BOB)
    waiting = asyncio.create_task(cut(second, document, "meanwhile"))
    async with connected(database_url) as third:
        await until(third, BLOCKED)
    await handing.commit()
    await waiting
    assert await column(connection, "select user_id from memory_chunks") == [BOB]


@pytest.mark.parametrize(
    ("access", "seen"),
    [
        (None, []),
        ({}, ["public"]),
        ({"access_level": 1}, ["clients' garden", "public", "staff"]),
        (
            {"access_level": 1, "allowed_tags": ["hr", "board"]},
            ["clients' garden", "public", "staff", "tagged hr"],
        ),
        ({"access_level": 1, "allowed_contexts": ["office"]}, ["public", "staff"]),
        ({"access_level": 1, "allowed_contexts": []}, ["public", "staff"]),
        (
            {"access_level": 2, "visibility_scope": "all"},
            ["board only", "clients' garden", "public", "staff", "tagged hr"],
        ),
        ({"access_level": 9, "visibility_scope": "own", "user_role": "admin"}, []),
        ({"user_role": "admin"}, ["board only", "clients' garden", "public", "staff", "tagged hr"]),
    ],
)
async def test_shared_chunks_are_visible_by_level_tags_and_context(
    scratch: asyncpg.Connection, access: dict[str, object] | None, seen: list[str]
) -> None:
    document = await write(scratch, user_id=ANN)
    for text, columns in (
        ("private", {}),
        ("public", {"access_level": 0}),
        ("staff", {"access_level": 1}),
        ("tagged hr", {"access_level": 1, "visibility_tags": ["hr"]}),
        ("clients' garden", {"access_level": 1, "metadata": '{"project": "garden"}'}),
        ("board only", {"access_level": 2, "visibility_tags": ["board"]}),
    ):
        await cut(scratch, document, text, **columns)
    if access is not None:
        await admit(scratch, BOB, **access)
    async with acting_as(scratch, BOB):
        assert await column(scratch, SEEN) == seen
        assert await scratch.fetch("select * from documents") == []
    async with acting_as(scratch, None, claims=NOBODY):
        assert await column(scratch, SEEN) == []


async def test_a_shared_text_cannot_be_changed_by_its_owner(scratch: asyncpg.Connection) -> None:
    shared, private = (
        await write(scratch, "Shared", user_id=ANN),
        await write(scratch, "Private", user_id=ANN),
    )
    rules = await cut(scratch, shared, "the rules", access_level=0)
    await cut(scratch, shared, "a note of ann's")
    await admit(scratch, BOB)
    async with acting_as(scratch, ANN):
        assert await scratch.execute("update memory_chunks set chunk_text = 'poison'") == "UPDATE 1"
        assert await column(scratch, SEEN) == ["poison", "the rules"]
        await cut(scratch, shared, "added by ann")
        assert (
            await scratch.execute("update documents set title = 'renamed', content = 'poison'") == "UPDATE 1"
        )
        assert await scratch.fetchval("select title from documents where id = $1", private) == "renamed"
    async with acting_as(scratch, BOB):
        assert await column(scratch, SEEN) == ["the rules"]
        assert await scratch.execute("update memory_chunks set chunk_text = 'x'") == "UPDATE 0"
        assert await scratch.fetchval("select forget($1, 'chunk')", [rules]) == 0
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval("select forget($1, 'chunk')", [rules]) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "insert into documents (title, user_id) values ('x', '{bob}')",
        "insert into documents (title) values ('x')",
        "insert into documents (title, user_id, status) values ('x', '{ann}', 'active')",
        "insert into documents (title, user_id, replica_path) values ('x', '{ann}', '../passwd')",
        "update documents set user_id = '{bob}'",
        "update documents set replica_path = 'x'",
        "insert into memory_chunks (document_id, chunk_index, chunk_text) values ('{bobs}', 7, 'x')",
        "insert into memory_chunks (document_id, chunk_index, chunk_text) values ('{nobodys}', 7, 'x')",
        "insert into memory_chunks (document_id, chunk_index, chunk_text) values (gen_random_uuid(), 7, 'x')",
        "insert into memory_chunks (document_id, chunk_index, chunk_text, access_level) values ('{anns}', 7, 'x', 0)",
        "update memory_chunks set access_level = 0",
        "update memory_chunks set document_id = '{bobs}'",
        "update memory_chunks set user_id = '{bob}'",
        "insert into user_memory_access (user_id, user_role) values ('{ann}', 'admin')",
        "update user_memory_access set access_level = 9",
        "delete from user_memory_access",
        "truncate documents cascade",
    ],
)
async def test_columns_that_a_user_may_not_write_are_refused(
    scratch: asyncpg.Connection, statement: str
) -> None:
    names = {"ann": ANN, "bob": BOB}
    for name, user in (("anns", ANN), ("bobs", BOB), ("nobodys", None)):
        names[name] = await write(scratch, name, user_id=user)
        await cut(scratch, names[name], f"of {name}")
    await admit(scratch, ANN)
    async with acting_as(scratch, ANN):
        assert (await refused(scratch, statement.format(**names)))[0] == "42501"


@pytest.mark.parametrize(("user", "role"), [(None, "memoryd_service"), (ANN, "memoryd_user")])
async def test_a_chunk_without_a_place_is_the_documents_next(
    scratch: asyncpg.Connection, user: UUID | None, role: str
) -> None:
    document = await write(scratch, user_id=user)
    await cut(scratch, document, "the first")
    async with acting_as(scratch, user, role=role):
        more = (
            "insert into memory_chunks (document_id, chunk_text) values ($1, 'the second'), ($1, 'the third')"
        )
        await scratch.execute(more, document)
    assert await column(scratch, "select chunk_text from memory_chunks order by chunk_index") == [
        "the first", "the second", "the third",
    ]  # fmt: skip


async def test_access_tags_in_the_metadata_share_nothing(scratch: asyncpg.Connection) -> None:
    """Who writes the metadata, such as the author of a file's front matter, does not decide who reads it."""
    document = await write(scratch, metadata='{"access_level": 0, "visibility_tags": []}')
    await cut(
        scratch, document, "says that it is open", metadata='{"access_level": 0, "visibility_tags": []}'
    )
    await admit(scratch, ANN)
    async with acting_as(scratch, ANN):
        assert await column(scratch, SEEN) == []


async def test_a_document_that_says_that_it_is_processing_is_not_found_until_it_is_active(
    scratch: asyncpg.Connection,
) -> None:
    for status in ("processing", "active", "conflict", None):
        named = {} if status is None else {"status": status}
        await cut(scratch, await write(scratch, str(status), **named), f"saplings, {status}")
    found = "select content from recall('saplings') order by 1"
    assert await column(scratch, found) == ["saplings, None", "saplings, active", "saplings, conflict"]
    assert await column(scratch, "select status from documents where title = 'None'") == ["active"]
    await scratch.execute("update documents set status = 'active' where status = 'processing'")
    assert len(await column(scratch, found)) == 4
    await scratch.execute("update documents set status = 'processing' where title = 'None'")
    assert len(await column(scratch, found)) == 3
    # With content it is processing until its chunks stand, whatever was given.
    for given in ({}, {"status": "processing"}):
        document = await write(scratch, content="more saplings", **given)
        status = "select status from documents where id = $1"
        assert await scratch.fetchval(status, document) == "processing"
        # Without the text there is nothing to wait for.
        await scratch.execute("update documents set content = null where id = $1", document)
        assert await scratch.fetchval(status, document) == "active"


async def test_users_do_not_see_the_access_of_others(scratch: asyncpg.Connection) -> None:
    for user in (ANN, BOB):
        await admit(scratch, user, user_role="admin")
    async with acting_as(scratch, ANN):
        assert await column(scratch, "select user_id from user_memory_access") == [ANN]


@pytest.mark.parametrize(
    "sparse", ['{"indices": [4, 9], "values": [0.5, 0.1]}', '{"plum": 1.5}', "[0, 0.5]", None]
)
async def test_a_sparse_embedding_is_kept_as_it_is_given(
    scratch: asyncpg.Connection, sparse: str | None
) -> None:
    document = await insert(scratch, "documents", {"title": "Fruit"})
    async with acting_as(scratch, None, role="memoryd_service"):
        chunk = await scratch.fetchval(
            "insert into memory_chunks (document_id, chunk_text, sparse_embedding) values ($1, 'Plums are ripe.', $2::jsonb) "
            "returning id",
            document, sparse,
        )  # fmt: skip
        kept = await scratch.fetchval("select sparse_embedding from memory_chunks where id = $1", chunk)
    assert (None if kept is None else json.loads(kept)) == (None if sparse is None else json.loads(sparse))
