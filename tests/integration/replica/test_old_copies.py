"""Copies of files that programs still have open while others change the document."""

from __future__ import annotations

import re
from hashlib import sha256

import asyncpg
import pytest

from tests.support.replica.passes import Replicated
from tests.support.rows import column, insert

ONE: dict[str, object] = {"title": "One", "content": "Text.", "status": "active"}


async def test_who_saves_an_old_copy_takes_nothing_from_agents_unseen(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    document = await insert(connection, "documents", ONE)
    await replicated.settle()
    path = replicated.path("documents/documents/One.md")
    opened = path.read_text()
    await connection.execute("update documents set content = 'Text.\n\nAn agent''s.'")
    await replicated.settle()
    # Saved twice: the second time it is the same program that saves what it still has open.
    for text in ("Text, by a person.", "Text, by a person, twice."):
        path.write_text(opened.replace("Text.", text))
        await replicated.settle()
        assert await column(connection, "select content from documents") == [text]
        others = "select content from memoryd.replica_conflicts"
        assert await column(connection, others) == ["Text.\n\nAn agent's."]
    await connection.execute("select memoryd.end_conflicts(array(select id from memoryd.replica_conflicts))")
    await replicated.settle()
    # Without an agent's change there is no conflict, however old the copy is that is saved again.
    for number in range(3):
        path.write_text(opened.replace("Text.", f"Save {number}."))
        await replicated.settle()
    assert await column(connection, "select content from memoryd.replica_conflicts") == []

    # A file that a person made, and never opened again.
    (replicated.root / "new.md").write_text("Mine.")
    await replicated.settle()
    await connection.execute("update documents set content = 'Theirs.' where id <> $1", document)
    await replicated.settle()
    (replicated.root / "new.md").write_text("Mine, more.")
    await replicated.settle()
    assert await column(connection, "select content from memoryd.replica_conflicts") == ["Theirs."]


async def test_a_file_of_an_earlier_version_has_the_hash_of_its_text_alone(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    await insert(connection, "documents", ONE)
    await replicated.settle()
    path = replicated.path("documents/documents/One.md")
    old = re.sub("hash: .*", f"hash: {sha256(b'Text.').hexdigest()}", path.read_text())
    path.write_text(old.replace("Text.", "Mine."))
    await replicated.settle()
    assert await column(connection, "select content from documents") == ["Mine."]
    assert await column(connection, "select content from memoryd.replica_conflicts") == []
    await connection.execute("update documents set content = 'Theirs.'")
    await replicated.settle()
    path.write_text(old.replace("Text.", "Mine, more."))
    await replicated.settle()
    assert await column(connection, "select content from memoryd.replica_conflicts") == ["Theirs."]


@pytest.mark.parametrize("agent", ["before the other person", "after the other person", "never"])
async def test_a_copy_without_a_hash_takes_nothing_that_was_written_since_unseen(
    connection: asyncpg.Connection, replicated: Replicated, agent: str
) -> None:
    path = replicated.root / "new.md"
    path.write_text("Mine.")
    await replicated.settle()
    if agent == "before the other person":
        await connection.execute("update documents set content = 'An agent''s.'")
        await replicated.settle()
    path.write_text(re.sub(r"(Mine|An agent's)\.", "Another person's.", path.read_text()))
    await replicated.settle()
    seen = ["Another person's."]
    if agent == "after the other person":
        await connection.execute("update documents set content = 'An agent''s.'")
        await replicated.settle()
        seen = ["An agent's."]
    # The second time it is the same program that saves what it still has open.
    for text in ("Mine, more.", "Mine, still more."):
        path.write_text(text)
        await replicated.settle()
        assert await column(connection, "select content from documents") == [text]
        assert await column(connection, "select content from memoryd.replica_conflicts") == seen


@pytest.mark.parametrize("by", ["a save", "a move"])
async def test_a_file_over_that_of_a_conflict_ends_no_conflict(
    connection: asyncpg.Connection, replicated: Replicated, by: str
) -> None:
    await insert(connection, "documents", ONE)
    await insert(connection, "documents", ONE | {"title": "Two", "content": "Other."})
    await replicated.settle()
    path, other = replicated.path("documents/documents/One.md"), replicated.path("documents/documents/Two.md")
    opened = other.read_text()
    path.write_text(path.read_text().replace("Text.", "Mine."))
    await connection.execute("update documents set content = 'Theirs.' where title = 'One'")
    await replicated.settle()
    [conflict] = path.parent.glob("*conflict*")
    if by == "a save":
        conflict.write_text(opened.replace("Other.", "Other, more."))
        other.unlink()
    else:
        other.rename(conflict)
    await replicated.settle()
    assert await column(connection, "select content from memoryd.replica_conflicts") == ["Theirs."]
    own = "Other, more." if by == "a save" else "Other."
    texts = await column(connection, "select content from documents where status <> 'deleted' order by title")
    assert texts == ["Mine.", own]
    said = sorted(file.body for file in replicated.files().values())
    assert said == sorted(["Mine.", own, "Theirs."])
    # Who deletes it resolves it, as before.
    [again] = [one for one in path.parent.glob("*conflict*") if one != conflict]
    again.unlink()
    await replicated.settle()
    assert await column(connection, "select content from memoryd.replica_conflicts") == []


@pytest.mark.parametrize("by", ["a save", "a move"])
async def test_a_file_over_that_of_a_document_deletes_no_document(
    connection: asyncpg.Connection, replicated: Replicated, by: str
) -> None:
    for title in ("One", "Two"):
        await insert(connection, "documents", ONE | {"title": title, "content": f"Text {title}."})
    await replicated.settle()
    one, two = (replicated.path(f"documents/documents/{title}.md") for title in ("One", "Two"))
    opened = one.read_text()
    if by == "a save":
        # A program has the one open. Somebody exchanges both, and deletes that one.
        one.rename(two.with_suffix(".held"))
        two.rename(one)
        two.with_suffix(".held").rename(two)
        await replicated.settle()
        one.write_text(opened.replace("One.", "One, more."))
        two.unlink()
    else:
        one.rename(two)
    await replicated.settle()
    texts = "select content from documents where status <> 'deleted' order by title"
    assert await column(connection, texts) == [
        "Text One, more." if by == "a save" else "Text One.",
        "Text Two.",
    ]
    assert sorted(file.body for file in replicated.files().values()) == await column(connection, texts)


async def test_who_moves_the_file_of_a_conflict_over_their_own_takes_its_text(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    await insert(connection, "documents", ONE)
    await replicated.settle()
    path = replicated.path("documents/documents/One.md")
    path.write_text(path.read_text().replace("Text.", "Mine."))
    await connection.execute("update documents set content = 'Theirs.'")
    await replicated.settle()
    [conflict] = path.parent.glob("*conflict*")
    conflict.rename(path)
    await replicated.settle()
    assert await column(connection, "select content from documents") == ["Theirs."]
    assert [file.body for file in replicated.files().values()] == ["Theirs."]


async def test_who_deletes_a_document_gets_the_text_whose_file_was_overwritten(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    await insert(connection, "documents", ONE)
    await replicated.settle()
    path = replicated.path("documents/documents/One.md")
    path.write_text(path.read_text().replace("Text.", "Mine."))
    await connection.execute("update documents set content = 'Theirs.'")
    await replicated.settle()
    [conflict] = path.parent.glob("*conflict*")
    conflict.unlink()
    (replicated.root / "new.md").write_text("Other.")
    (replicated.root / "new.md").rename(conflict)
    path.unlink()
    await replicated.settle()
    rows = await connection.fetch("select content, status from documents order by content")
    assert [row["content"] for row in rows if row["status"] != "deleted"] == ["Other.", "Theirs."]
