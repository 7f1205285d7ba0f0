"""Whatever people and agents do with entries, in whatever order, and wherever the daemon is killed: files and rows become the
same, and no text is lost.

    REPLICA_STEPS=10000 python -m pytest -s tests/integration/replica/test_entry_sequences.py

plays so many steps in long sequences, other ones each time (see tests/support/replica/sequences.py).
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from daemon.db.pool import Database
from plugins.replica.rules.sections import Section, marked, read_sections
from tests.support.replica import sequences
from tests.support.replica.passes import Replicated

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""No power is cut here, so files need no disk."""

ANY = st.integers(0, 7)
TIER = st.sampled_from(("core", "learning"))
STEPS = st.one_of(
    st.tuples(st.just("agent adds"), TIER),
    st.tuples(st.just("agent edits"), ANY),
    st.tuples(st.just("agent edits"), ANY),
    st.tuples(st.just("agent moves"), ANY, TIER),
    st.tuples(st.just("agent deletes"), ANY),
    st.tuples(st.just("person adds"), TIER),
    st.tuples(st.just("person edits"), ANY),
    st.tuples(st.just("person edits"), ANY),
    st.tuples(st.just("person removes"), ANY),
    st.tuples(st.just("person opens the file of"), TIER),
    st.tuples(st.just("person saves what is open"), ANY),
    st.tuples(st.just("person saves what is open"), ANY),
    st.tuples(st.just("person moves"), ANY, TIER),
    st.tuples(st.just("person copies"), ANY, TIER),
    st.tuples(st.just("person strips the ids of"), TIER),
    st.tuples(st.just("person deletes the file of"), TIER),
    st.tuples(st.just("person renames the file of"), TIER),
    st.tuples(st.just("command resolves"), ANY, st.sampled_from(("mine", "theirs"))),
    st.tuples(st.just("command restores"), ANY),
    st.tuples(st.just("command confirms")),
    st.tuples(st.just("sync")),
    st.tuples(st.just("sync")),
    st.tuples(st.just("sync")),
    st.tuples(st.just("kill"), st.integers(0, 80)),
    st.tuples(st.just("restart")),
)
"""What happens, and to which of the entries or sections that there are."""

CLEAR = """
delete from public.shared_knowledge;
delete from public.documents;
delete from memoryd.replica_files;
delete from memoryd.replica_collections;
delete from memoryd.replica_buried;
delete from memoryd.replica_section_conflicts;
delete from memoryd.replica_changes;
update memoryd.replica set leased_until = '-infinity', daemon_id = null, trouble = null, deletions_confirmed_at = null;
delete from memoryd.jobs
"""
ROWS = "select id, tier, title, content from shared_knowledge order by created_at, id"
CONFLICTS = """
select c.id, c.body, k.content as mine
from memoryd.replica_section_conflicts c join shared_knowledge k on k.id = c.row_id
where not c.ended
order by c.made_at, c.id
"""
CONFIRM = "update memoryd.replica set deletions_confirmed_at = clock_timestamp()"


@dataclass(slots=True)
class World(sequences.Texts):
    """A folder, a database, and what was written and has not been replaced by one who saw it."""

    database: Database
    root: Path
    replicated: Replicated

    def files(self) -> list[Path]:
        """The files of entries, in order."""
        return sorted(p for p in self.root.rglob("*.md") if p.name not in ("README.md", "Index.md"))

    def file_of(self, tier: str) -> Path | None:
        """The file of a tier, wherever a person moved it."""
        names = (f"knowledge/{tier}.md", f"{tier} elsewhere.md")
        return next((self.root / name for name in names if (self.root / name).exists()), None)

    def pieces(self) -> list[tuple[Path, str]]:
        """The sections as they are written, each with its file."""
        return [
            (path, piece)
            for path in self.files()
            for piece in re.split(r"(?m)^(?=## )", path.read_text("utf-8"))[1:]
        ]

    async def do(self, what: str, *how: Any) -> None:
        """One step of a sequence."""
        who, _, rest = what.partition(" ")
        match who:
            case "agent":
                await self._agent(rest, *how)
            case "person":
                if rest.endswith("open"):
                    # What memoryd has not read yet is lost when another program writes the file.
                    await self.replicated.settle()
                    self._save(*how)
                else:
                    self._person(rest, *how)
            case "command":
                await self._command(rest, *how)
            case "sync":
                await self.replicated.settle()
                self.covered = ""
            case "kill":
                await self.replicated.killed_at(how[0])
                self.replicated = Replicated(self.root, self.database)
            case _:
                self.replicated = Replicated(self.root, self.database)

    async def _agent(self, what: str, *how: Any) -> None:
        if what == "adds":
            await self.database.execute(
                "insert into shared_knowledge (tier, title, content, category, created_by) values ($1, $2, $3, 'team', 'a')",
                how[0],
                f"Title {self.number}",
                self.text(),
            )
            return
        rows = await self.database.fetch(ROWS)
        if not rows:
            return
        row = rows[how[0] % len(rows)]
        if what == "edits":
            self.replaced(row["content"])
            await self.database.execute(
                "update shared_knowledge set content = $2 where id = $1", row["id"], self.text()
            )
        elif what == "moves":
            await self.database.execute(
                "update shared_knowledge set tier = $2 where id = $1", row["id"], how[1]
            )
        else:
            for other in await self.database.fetch(
                "select body from memoryd.replica_section_conflicts where row_id = $1", row["id"]
            ):
                self.replaced(other["body"])
            self.replaced(row["content"])
            await self.database.execute("delete from shared_knowledge where id = $1", row["id"])

    def _person(self, what: str, *how: Any) -> None:
        if what == "adds":
            path = self.file_of(how[0]) or self.root / f"knowledge/{how[0]}.md"
            _append(path, f"## Title {self.number}\n\n{self.text()}\n")
        elif what.endswith("of"):
            if (file := self.file_of(how[0])) is not None:
                self._person_with(file, what, how[0])
        elif pieces := self.pieces():
            path, piece = pieces[how[0] % len(pieces)]
            text = path.read_text("utf-8")
            if what == "edits":
                self._write(path, text.replace(piece, self.changed(piece, began=_began(piece)), 1))
            elif what == "removes":
                _write(path, text.replace(piece, "", 1))
                if not any(piece.strip() == other.strip() for _, other in self.pieces()):
                    self.replaced(piece)
            elif "conflict" not in piece and (to := self.file_of(how[1])) is not None:
                if what == "moves":
                    _write(path, text.replace(piece, "", 1))
                _append(to, piece)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        self.later_stands(text, there="".join(one.read_text("utf-8") for one in self.files()))

    def _save(self, number: int) -> None:
        """Saves what was opened once, with a new text of one section, and leaves it open. Texts of others are not replaced."""
        if self.opened is None or not self.opened[0].exists():
            return
        path, text = self.opened
        pieces = [one for one in re.split(r"(?m)^(?=## )", text)[1:] if "conflict" not in one]
        if not pieces:
            return
        piece = pieces[number % len(pieces)]
        self.covered += path.read_text("utf-8")
        self.opened = path, text.replace(piece, self.changed(piece, began=_began(piece)), 1)
        self._write(*self.opened)

    def _person_with(self, file: Path, what: str, tier: str) -> None:
        text = file.read_text("utf-8")
        if what.startswith("strips"):
            file.write_text(re.sub(r"(?m)^<!-- id.*\n", "", text), "utf-8")
        elif what.startswith("opens"):
            # Without ids it says nothing of what it began from.
            self.opened = (file, text) if all(map(_began, re.split(r"(?m)^(?=## )", text)[1:])) else None
        elif what.startswith("deletes"):
            self.replaced(text + self.covered)
            file.unlink()
        elif marked(file.read_bytes()):
            # Before memoryd has seen it, it would be a document elsewhere.
            file.rename(self.root / f"{tier} elsewhere.md")

    async def _command(self, what: str, number: int = 0, keep: str = "") -> None:
        if what == "confirms":
            await self.database.execute(CONFIRM)
        elif what == "restores":
            gone = await self.database.fetch(
                "select row_id, row ->> 'content' as content from memoryd.replica_buried order by deleted_at, row_id"
            )
            if gone:
                row = gone[number % len(gone)]
                if await self.database.fetchval("select memoryd.restore_entry($1)", row["row_id"]):
                    self.alive |= set(sequences.texts(row["content"]))
        elif conflicts := await self.database.fetch(CONFLICTS):
            row = conflicts[number % len(conflicts)]
            self.replaced(row["body"] if keep == "mine" else row["mine"])
            if keep == "theirs":
                self.alive |= set(sequences.texts(row["body"]))
            call = (
                "take_section_conflict($1)" if keep == "theirs" else "end_section_conflicts(array[$1::uuid])"
            )
            await self.database.execute(f"select memoryd.{call}", row["id"])

    async def check(self) -> None:
        """Both sides are the same, nothing is lost, and there is nothing more to do."""
        self.replicated = Replicated(self.root, self.database)
        await self.replicated.settle()
        await self.database.execute(CONFIRM)
        await self.replicated.settle()
        rows = {row["id"]: row for row in await self.database.fetch(ROWS)}
        conflicts = {row["id"]: row["body"] for row in await self.database.fetch(CONFLICTS)}
        sections = [one for path in self.files() for one in _sections(path)]
        own = {one.id: one for one in sections if one.conflict is None}
        assert len(sections) == len(rows) + len(conflicts)
        assert {i: (one.heading, one.body) for i, one in own.items()} == {
            i: (row["title"], row["content"]) for i, row in rows.items()
        }
        assert {one.conflict: one.body for one in sections if one.conflict is not None} == conflicts
        for row in rows.values():
            # A person who renames the file of a tier and adds to the tier makes a second one.
            paths = [path for path in self.files() if path.stem.split()[0] == row["tier"]]
            assert row["id"] in {one.id for path in paths for one in _sections(path)}
        kept = " ".join([*(row["content"] for row in rows.values()), *conflicts.values()])
        assert {one for one in self.alive if one not in kept} == set()
        assert not list(self.root.rglob(".memoryd-*[0-9a-f]"))
        assert not any((await self.replicated.once()).counts.values())


def _began(piece: str) -> tuple[str, ...]:
    """Of which entry a section is, and which text it began from."""
    return tuple(re.findall(r"(?:id|hash): [0-9a-f-]+", piece))


def _write(path: Path, text: str) -> None:
    """An empty file says nothing: a person deletes it."""
    if text.strip():
        path.write_text(text, "utf-8")
    else:
        path.unlink()


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{text}")


def _sections(path: Path) -> list[Section]:
    said = read_sections(path.read_bytes())
    assert said is not None
    return said.sections


async def play(database: Database, sequence: list[tuple[Any, ...]]) -> None:
    """A sequence, from four entries on."""
    await database.execute(CLEAR)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder) / "replica"
        world = World(database, root, Replicated(root, database))
        for _ in range(3):
            await world.do("agent adds", "core")
        await world.do("agent adds", "learning")
        await world.replicated.settle()
        for what, *how in sequence:
            await world.do(what, *how)
        await sequences.kill_at_every_step(sequence, lambda: Replicated(root, database))
        await world.check()


def test_all_sequences_converge_and_lose_nothing(database_url: str) -> None:
    sequences.run(database_url, STEPS, play, examples=sequences.number(30))
