"""Whatever people and agents do, in whatever order, and wherever the daemon is killed: both sides become the same, no text is
lost, and the Index is true.

    REPLICA_STEPS=10000 python -m pytest -s tests/integration/replica/test_sequences.py

plays so many steps in long sequences, other ones each time (see tests/support/replica/sequences.py).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from hypothesis import strategies as st

from daemon.db.pool import Database
from tests.support.drive.faults import DROP, GARBAGE, HALF, LATE, Fault
from tests.support.drive.files import DrivePath
from tests.support.drive.server import DriveServer
from tests.support.replica import sequences
from tests.support.replica.passes import Replicated
from tests.support.replica.places import InDrive
from tests.support.replica.sequences import texts

SEQUENCES = sequences.number(150)
IN_DRIVE = SEQUENCES if sequences.STEPS else max(SEQUENCES // 10, 1)
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""No power is cut here, so files need no disk."""
NAMES = ("one", "two", "Two", "sub/three", "documents/mail/four")

FAULTS = [
    DROP, LATE, LATE, HALF, GARBAGE, Fault.status(403, "userRateLimitExceeded"),
    *map(Fault.status, (404, 410, 500, 503)),
]  # fmt: skip

ANY = st.integers(0, 4)
NAME = st.sampled_from(NAMES)
STEPS = st.one_of(
    st.tuples(st.just("agent adds"), NAME),
    st.tuples(st.just("agent edits"), ANY),
    st.tuples(st.just("agent edits"), ANY),
    st.tuples(st.just("agent renames"), ANY, NAME),
    st.tuples(st.just("agent deletes"), ANY),
    st.tuples(st.just("person adds"), NAME),
    st.tuples(st.just("person edits"), ANY, st.sampled_from((None, 0, 4_000_000_000))),
    st.tuples(st.just("person edits"), ANY, st.none()),
    st.tuples(st.just("person moves"), ANY, NAME),
    st.tuples(st.just("person swaps"), ANY, ANY),
    st.tuples(st.just("person copies"), ANY, NAME),
    st.tuples(st.just("person deletes"), ANY),
    st.tuples(st.just("person opens"), ANY),
    st.tuples(st.just("person saves what is open")),
    st.tuples(st.just("person saves what is open")),
    st.tuples(st.just("person breaks the front matter of"), ANY),
    st.tuples(st.just("person resolves"), ANY, st.sampled_from(("mine", "theirs"))),
    st.tuples(st.just("person restores"), ANY),
    st.tuples(st.just("sync")),
    st.tuples(st.just("sync")),
    st.tuples(st.just("sync")),
    st.tuples(st.just("kill"), st.integers(0, 60)),
    st.tuples(st.just("restart")),
)
"""What happens, and to which of the documents or files that there are."""

CLEAR = """
delete from public.documents;
delete from memoryd.replica_files;
update memoryd.replica set leased_until = '-infinity', daemon_id = null, trouble = null;
delete from memoryd.jobs
"""
PROCESSED = "update documents set status = 'active' where status = 'processing'"
READ = "select content from documents union all select content from memoryd.replica_conflicts"
LIVE = """
select id, title, content, status, replica_path from documents where status <> 'deleted' order by created_at, id
"""


@dataclass(slots=True)
class World(sequences.Texts):
    """A folder, a database, and what was written and has not been replaced by one who saw it."""

    database: Database
    root: Any
    """A Path, or what behaves like one."""
    start: Callable[[], Replicated]
    """A daemon that was just started."""
    replicated: Replicated
    is_bad: bool = False
    """Whether calls fail, so that memoryd may not have read all by the time a program saves."""
    read: str = ""
    """The texts that memoryd had then."""

    def paths(self) -> list[Any]:
        """The files, in order."""
        return [self.root / path for path in sorted(self.replicated.files())]

    async def documents(self) -> list[Any]:
        """The documents that are not deleted, in order."""
        return await self.database.fetch(LIVE)

    async def do(self, what: str, *how: Any) -> None:
        """One step of a sequence."""
        match what.split(" ", maxsplit=1)[0]:
            case "agent":
                await self._agent(what.removeprefix("agent "), *how)
            case "person" if what in ("person resolves", "person restores"):
                await self._command(what.removeprefix("person "), *how)
            case "person":
                if what.endswith("open"):
                    # What memoryd has not read yet is lost when another program writes the file.
                    await self.replicated.settle()
                    self.read = " ".join(row["content"] or "" for row in await self.database.fetch(READ))
                self._person(what.removeprefix("person "), *how)
            case "sync":
                await self.replicated.settle()
                self.covered = self.covered if self.is_bad else ""
            case "kill":
                await self.replicated.killed_at(how[0])
                self.replicated = self.start()
            case _:
                self.replicated = self.start()

    async def _agent(self, what: str, *how: Any) -> None:
        documents = await self.documents()
        if what == "adds":
            await self.database.execute(
                "insert into documents (title, content, status) values ($1, $2, 'active')",
                how[0],
                self.text(),
            )
            return
        if not documents:
            return
        row = documents[how[0] % len(documents)]
        if what == "edits":
            self.replaced(row["content"])
            await self.database.execute(
                "update documents set content = $2 where id = $1", row["id"], self.text()
            )
        elif what == "renames":
            await self.database.execute("update documents set title = $2 where id = $1", row["id"], how[1])
        else:
            others = await self.database.fetch(
                "select content from memoryd.replica_conflicts where document_id = $1", row["id"]
            )
            self.replaced(" ".join([row["content"], *(other["content"] for other in others)]))
            await self.database.execute("update documents set status = 'deleted' where id = $1", row["id"])

    def _person(self, what: str, *how: Any) -> None:
        if what == "adds":
            path = self.root / f"{how[0]}.md"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self.text())
        elif what.endswith("open"):
            self._save()
        elif paths := self.paths():
            path = paths[how[0] % len(paths)]
            text = path.read_text("utf-8")
            if what in ("moves", "swaps", "copies"):
                self._move(what, paths, path, how[1])
            elif what == "opens":
                self.opened = None if "conflict: " in text else (path, text)
            elif what == "edits":
                self._write(path, self._changed(path, text))
                if how[1] is not None and isinstance(path, Path):
                    os.utime(path, (how[1], how[1]))
            elif what == "deletes":
                self.replaced(text + self.covered)
                path.unlink()
            else:
                self.replaced(self.covered)
                path.write_text(text.replace(*(("---\n", "") if len(text) % 2 else ("id: ", "ID")), 1))

    def _changed(self, path: Any, text: str) -> str:
        return self.changed(text, began=began(text) or (path,))

    def _write(self, path: Any, text: str) -> None:
        path.write_text(text)
        self.later_stands(text, there="".join(one.read_text("utf-8") for one in self.paths()))

    def _save(self) -> None:
        """Saves what was opened once, with a new text, and leaves it open. Texts of others are not replaced by that."""
        if self.opened is None or not self.opened[0].exists():
            return
        path, text = self.opened
        there = path.read_text("utf-8")
        # What memoryd has not read it cannot keep.
        self.replaced(" ".join(one for one in texts(there) if self.is_bad and one not in self.read))
        self.opened = path, self._changed(path, text)
        self._write(*self.opened)
        self.covered += there

    def _move(self, what: str, paths: list[Any], path: Any, other: Any) -> None:
        to = paths[other % len(paths)] if what == "swaps" else self.root / f"{other}.md"
        to.parent.mkdir(parents=True, exist_ok=True)
        if what != "copies" and self.opened and not began(self.opened[1]) and self.opened[0] in (path, to):
            # It says nothing of what it began from: memoryd knows it by its path alone.
            self.opened = None
        if what == "swaps":
            held = path.with_suffix(".held")
            path.rename(held)
            if to != path:
                to.rename(path)
            held.rename(to)
        elif what == "moves":
            self.replaced(self.covered)
            if to.exists() and to != path:
                self.replaced(to.read_text("utf-8"))
            path.rename(to)
        elif not to.exists():
            to.write_bytes(path.read_bytes())

    async def _command(self, what: str, number: int, keep: str = "") -> None:
        if what == "restores":
            gone = await self.database.fetch(
                "select id, content from documents where status = 'deleted' order by created_at, id"
            )
            if gone:
                row = gone[number % len(gone)]
                if row["id"] not in {said.id for said in self.replicated.files().values()}:
                    self.alive |= set(texts(row["content"]))
                await self.database.execute("select memoryd.restore_document($1)", row["id"])
                await self.database.execute(PROCESSED)
            return
        conflicts = await self.database.fetch(
            "select c.id, c.content, d.content as mine from memoryd.replica_conflicts c "
            "join documents d on d.id = c.document_id order by c.made_at, c.id"
        )
        if conflicts:
            row = conflicts[number % len(conflicts)]
            self.replaced(row["content"] if keep == "mine" else row["mine"])
            if keep == "theirs":
                self.alive |= set(texts(row["content"]))
            sql = (
                "select memoryd.take_conflict($1)"
                if keep == "theirs"
                else "select memoryd.end_conflicts(array[$1::uuid])"
            )
            await self.database.execute(sql, row["id"])
            await self.database.execute(PROCESSED)

    async def check(self) -> None:
        """Both sides are the same, nothing is lost, the Index is true, and there is nothing more to do."""
        await self.replicated.settle()
        self.replicated = self.start()
        await self.replicated.settle()
        files = self.replicated.files()
        documents = {row["id"]: row for row in await self.documents()}
        own = {said.id: path for path, said in files.items() if said.conflict is None}
        conflicts = {
            r["id"]: r["content"]
            for r in await self.database.fetch(
                "select c.id, c.content from memoryd.replica_conflicts c join documents d on d.id = c.document_id "
                "where d.status <> 'deleted'"
            )
        }
        assert {i: row["replica_path"] for i, row in documents.items()} == own
        assert {said.conflict for said in files.values() if said.conflict} == set(conflicts)
        assert len(files) == len(documents) + len(conflicts)
        for said in files.values():
            row = documents.get(said.id) if isinstance(said.id, UUID) else None
            assert said.body == (row["content"] if row is not None else conflicts[said.conflict])
            assert row is None or said.title == row["title"]
        kept = " ".join([*(row["content"] for row in documents.values()), *conflicts.values()])
        assert {one for one in self.alive if one not in kept} == set()
        index = (self.root / "Index.md").read_text("utf-8")
        assert {unquote(path) for path in re.findall(r"\]\(<(.*?)>\)", index)} == set(own.values())
        assert not list(self.root.rglob(".memoryd-*[0-9a-f]"))
        assert not any((await self.replicated.once()).counts.values())


def began(text: str) -> tuple[str, ...]:
    """The line of a file that says from which text it began."""
    return tuple(re.findall(r"(?m)^hash: .*$", text))


async def play(database: Database, world: World, sequence: list[tuple[Any, ...]]) -> None:
    """A sequence, from two documents on."""
    for name in ("first", "second"):
        await world.do("agent adds", name)
    await world.replicated.settle()
    for what, *how in sequence:
        await world.do(what, *how)
    await sequences.kill_at_every_step(sequence, world.start)
    await world.check()


async def play_locally(database: Database, sequence: list[tuple[Any, ...]]) -> None:
    """A sequence in a folder of this machine."""
    await database.execute(CLEAR)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder) / "replica"

        def start() -> Replicated:
            return Replicated(root, database)

        await play(database, World(database, root, start, start()), sequence)


async def play_in_drive(database: Database, sequence: list[tuple[Any, ...]]) -> None:
    """A sequence in a folder of Google Drive."""
    await database.execute(CLEAR)
    with DriveServer() as server, tempfile.TemporaryDirectory(dir=MEMORY) as folder:

        def start() -> Replicated:
            return InDrive(server, Path(folder), database)

        await play(database, World(database, DrivePath(server.drive), start, start()), sequence)


async def play_over_a_bad_connection(database: Database, sequence: list[tuple[Any, ...]]) -> None:
    """The same, where a fifth of the calls fail; one of them may have been done all the same."""
    await database.execute(CLEAR)
    chance = Random(repr(sequence))

    def fault() -> Fault | None:
        return chance.choice(FAULTS) if chance.random() < 0.2 else None

    with DriveServer() as server, tempfile.TemporaryDirectory(dir=MEMORY) as folder:

        def start() -> Replicated:
            return InDrive(server, Path(folder), database, is_patient=True)

        world = World(database, DrivePath(server.drive), start, start(), is_bad=True)
        await world.replicated.settle()
        server.is_bad = fault
        for what, *how in sequence:
            await world.do(what, *how)
        await sequences.kill_at_every_step(sequence, start)
        server.is_bad = lambda: None

        def start_well() -> Replicated:
            return InDrive(server, Path(folder), database)

        world.start = start_well
        await world.check()


def test_all_sequences_converge_and_lose_nothing(database_url: str) -> None:
    sequences.run(database_url, STEPS, play_locally, examples=SEQUENCES)


def test_all_sequences_converge_and_lose_nothing_in_drive(database_url: str) -> None:
    sequences.run(database_url, STEPS, play_in_drive, examples=IN_DRIVE)


def test_all_sequences_converge_and_lose_nothing_over_a_bad_connection(database_url: str) -> None:
    sequences.run(database_url, STEPS, play_over_a_bad_connection, examples=IN_DRIVE)
