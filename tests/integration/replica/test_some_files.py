"""A pass that events started looks only at what they name: it finds what a pass over all files would, and deletes nothing."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from daemon.replica.folder import Listing
from daemon.replica.local_folder import LocalFolder
from daemon.replica.pass_state import Report
from daemon.replica.store.documents import FILES_AT
from daemon.replica.store.entries import HOMES
from memory.replica.paths import IDENTITY
from tests.support.replica.passes import Replicated

FILES = 12
TITLES = "select title from documents where status <> 'deleted' order by title"


class Watched(Replicated):
    """A replica whose passes are told of certain paths, and that knows which files they looked at."""

    def __init__(self, root: Path, database: Database) -> None:
        self.local = LocalFolder(root)
        self.told: set[str] | None = None
        self.listed = 0
        super().__init__(root, database, folder=self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def list(self) -> Listing:
        self.listed += 1
        return self.local.list()

    def look(self, paths: Collection[str]) -> Listing:
        return self.local.look(paths)

    def _changed(self) -> set[str]:
        return super()._changed() if self.told is None else self.told

    async def tell(self, *paths: str) -> Report:
        """Passes that are told of these paths, and of nothing else, until there is nothing left to do."""
        self.told, self.listed = set(paths), 0
        return await self.settle()


@pytest.fixture
async def watched(connection: asyncpg.Connection, root: Path, database: Database) -> Watched:
    """Some documents, at rest."""
    await connection.execute(
        "insert into documents (title, content, status) select 'Note ' || n, 'Text ' || n, 'active' "
        "from generate_series(1, $1::integer) n",
        FILES,
    )
    made = Watched(root, database)
    await made.settle()
    await made.tell()
    return made


def path_of(number: int) -> str:
    """The path of a document."""
    return f"documents/documents/Note {number}.md"


def edit(root: Path, path: str, old: str, new: str) -> None:
    """A person saves a file."""
    text = (root / path).read_text("utf-8")
    assert old in text
    (root / path).write_text(text.replace(old, new), "utf-8")


async def content(connection: asyncpg.Connection, title: str) -> object:
    """The text of a document."""
    return await connection.fetchval("select content from documents where title = $1", title)


async def test_an_edit_is_taken_and_no_folder_is_listed(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    edit(root, path_of(1), "Text 1", "A person's")
    edit(root, path_of(2), "Text 2", "Nobody was told")
    assert (await watched.tell(path_of(1))).counts["taken"] == 1
    assert watched.listed == 0
    assert await content(connection, "Note 1") == "A person's"
    assert await content(connection, "Note 2") == "Text 2"
    # A full comparison finds what no event told of.
    assert (await watched.once(is_whole=True)).counts["taken"] == 1
    assert await content(connection, "Note 2") == "Nobody was told"


async def test_an_agents_change_finds_the_edit_that_was_not_told_of(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    edit(root, path_of(1), "Text 1", "A person's")
    await connection.execute("update documents set content = 'An agent''s' where title = 'Note 1'")
    assert (await watched.tell()).counts["conflicts"] == 1
    assert await content(connection, "Note 1") == "A person's"
    assert watched.listed == 0
    assert len(watched.files()) == FILES + 1


@pytest.mark.parametrize("told", [0, 1, 2])
async def test_a_file_that_moved_is_followed_whichever_path_is_told(
    connection: asyncpg.Connection, watched: Watched, root: Path, told: int
) -> None:
    (root / "elsewhere").mkdir()
    (root / path_of(1)).rename(root / "elsewhere/moved.md")
    report = await watched.tell(*[(path_of(1),), ("elsewhere/moved.md",), ("elsewhere",)][told])
    assert (report.counts["moved"], report.counts["deleted"], report.counts["added"]) == (1, 0, 0)
    assert len(await connection.fetch(TITLES)) == FILES
    assert await connection.fetchval("select replica_path from documents where title = 'Note 1'") == (
        "elsewhere/moved.md"
    )


async def test_a_copy_becomes_a_document_and_the_other_one_stays(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    (root / "copy.md").write_bytes((root / path_of(1)).read_bytes())
    assert (await watched.tell("copy.md")).counts["added"] == 1
    assert watched.listed == 0
    assert await connection.fetchval("select replica_path from documents where title = 'Note 1' limit 1")
    assert len(watched.files()) == len(await connection.fetch(TITLES)) == FILES + 1


async def test_a_folder_that_is_renamed_or_gone_is_one_path(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    (root / "documents").rename(root / "papers")
    report = await watched.tell("documents", "papers")
    assert (report.counts["moved"], report.counts["deleted"], watched.listed) == (FILES, 0, 0)
    (root / "papers").rename(root.parent / "away")
    assert (await watched.tell("papers")).asked == FILES
    assert watched.listed > 0
    # While a person is asked, edits do not cost more; and when the files are back, nobody is asked.
    (root / "new.md").write_text("New.")
    assert (await watched.tell("new.md")).counts["added"] == 1
    assert watched.listed == 0
    (root.parent / "away").rename(root / "papers")
    assert (await watched.tell("papers")).asked == 0
    assert len(await connection.fetch(TITLES)) == FILES + 1


async def test_deletions_are_done_by_passes_over_all_files(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    (root / path_of(1)).unlink()
    assert (await watched.tell(path_of(1))).counts["deleted"] == 1
    assert watched.listed > 0
    assert len(await connection.fetch(TITLES)) == FILES - 1


async def test_a_document_whose_file_is_not_noted_gets_no_second_one(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    await connection.execute("delete from memoryd.replica_files where path = $1", path_of(1))
    await connection.execute("update documents set content = 'An agent''s' where title = 'Note 2'")
    await watched.tell()
    assert watched.listed == 0
    assert len(watched.files()) == FILES
    assert "An agent's" in (root / path_of(2)).read_text("utf-8")
    await connection.execute("select memoryd.rewrite_replica()")
    await watched.tell()
    assert len(watched.files()) == FILES
    assert await connection.fetchval("select count(*) from memoryd.replica_files") == FILES


async def test_new_documents_take_no_path_that_a_file_has(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    (root / "documents/documents/NOTE 99.md").write_bytes(b"\xff\xff")
    await watched.tell("documents/documents/NOTE 99.md")
    await connection.execute(
        "insert into documents (title, content, status) values ('Note 99', 'Mine.', 'active'), ('note 1', 'Too.', 'active')"
    )
    await watched.tell()
    assert watched.listed == 0
    paths = await connection.fetch(
        "select replica_path from documents where content in ('Mine.', 'Too.') order by 1"
    )
    assert [row[0] for row in paths] == [
        "documents/documents/Note 99 2.md",
        "documents/documents/note 1 2.md",
    ]


async def test_paths_of_events_lead_nowhere_else(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("Secret.")
    (root / "link").symlink_to(outside)
    (root / "one.md").symlink_to(outside / "secret.md")
    (root / ".hidden").mkdir()
    (root / ".hidden/note.md").write_text("Hidden.")
    os.mkfifo(root / "pipe.md")
    strange = (
        "x/" * 2_000 + "y.md",
        "a" * 300 + ".md",
        "nul\0.md",
        "\udcff.md",
        "",
        ".",
        "/etc/passwd",
        IDENTITY,
    )
    await watched.tell(
        "../outside/secret.md", "../outside", "link", "link/secret.md", "one.md", ".hidden/note.md", "pipe.md",
        "documents/../../outside/secret.md", str(outside / "secret.md"), *strange,
    )  # fmt: skip
    assert len(await connection.fetch(TITLES)) == FILES
    assert watched.listed == 0


async def test_a_folder_that_becomes_a_link_deletes_nothing(
    connection: asyncpg.Connection, watched: Watched, root: Path
) -> None:
    (root / "documents").rename(root.parent / "documents")
    (root / "documents").symlink_to(root.parent / "documents")
    edit(root, path_of(1), "Text 1", "Outside")
    report = await watched.tell("documents", path_of(1))
    assert (report.counts["deleted"], report.counts["taken"], report.asked) == (0, 0, 0)
    assert len(await connection.fetch(TITLES)) == FILES


async def test_single_files_are_looked_up_by_indexes(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "insert into memoryd.replica_files (path, document_id, user_id, base_hash, file_hash) "
        "select repeat('folder/', 10) || n, gen_random_uuid(), md5((n / 50)::text)::uuid, sha256('a'), sha256('b') "
        "from generate_series(1, 5000) n"
    )
    await connection.execute("analyze memoryd.replica_files")
    paths = [f"{'folder/' * 10}{number}" for number in range(1, 40)]
    plan = await connection.fetch(f"explain {FILES_AT}", paths, [UUID(int=number) for number in range(40)])
    assert not any("Seq Scan on replica_files" in row[0] for row in plan), plan
    plan = await connection.fetch(f"explain {HOMES}", [UUID(int=number) for number in range(40)])
    assert not any("Seq Scan on replica_files" in row[0] for row in plan), plan
    assert len(await connection.fetch(FILES_AT, paths, [])) == len(paths)
    # A path may be as long as a file system allows.
    await connection.execute("update memoryd.replica_files set path = repeat('long/', 3000) where id = 1")
