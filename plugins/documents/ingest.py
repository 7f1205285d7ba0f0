"""Taking files in: what is new or changed is read and written, what is known costs a look.

Promise: one file never harms another; the same bytes are one document; a file that moved is the document that it was. Killed
at any moment it leaves whole documents only, and the next run goes on.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from daemon.db.pool import Database
from daemon.local_files import File, LocalFiles, Source
from plugins.documents import store
from plugins.documents.ports import Parser
from plugins.documents.store import DocumentRefusedError, Ownership, ReadFile
from providers.ports import Unreadable

FILES = 64
"""Looked at, and looked up, at once."""
READ_AT_ONCE = 4
"""Files in memory at the same time."""
CHARACTERS = 4_000_000
"""Of texts that are written at once."""

SAME_NAME = "Another file has the same name once bytes that are no text are written out. Rename it."

Result = Literal["added", "changed", "unchanged", "duplicate", "moved", "rejected"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file. `reason`: of one that is rejected, or the same as another, or may be shared with more than its
    author wants; for the person who named it.
    """

    path: Path
    result: Result
    reason: str | None = None


class ParserUnavailable(Exception):
    """No process to read files in can be started now. `code`: the system's name of the error."""

    def __init__(self, error: OSError) -> None:
        self.code = errno.errorcode.get(error.errno or 0, type(error).__name__)
        super().__init__(f"No process to read files in can be started: {error.strerror}. Try again later.")


class Ingest:
    """Takes files in, for one owner."""

    def __init__(
        self, *, database: Database, parser: Parser, owned: Ownership, source: Source | None = None
    ) -> None:
        """`source`: where the files are, if not on this machine."""
        self._source = source or LocalFiles()
        self._database = database
        self._parser = parser
        self._owned = owned
        self._slots = asyncio.Semaphore(READ_AT_ONCE)

    async def take(self, paths: Iterable[Path]) -> AsyncIterator[Outcome]:
        """What became of each file, in any order. Raises asyncpg's errors when the database is lost, and
        ParserUnavailable.
        """
        left = iter(paths)
        while some := list(islice(left, FILES)):
            async for outcome in self._batch(some):
                yield outcome

    async def _batch(self, paths: Sequence[Path]) -> AsyncIterator[Outcome]:
        files: list[File] = []
        for looked in [await self._look_at(path) for path in paths]:
            if isinstance(looked, Outcome):
                yield looked
            elif looked.name in {file.name for file in files}:
                yield Outcome(looked.path, "rejected", SAME_NAME)
            else:
                files.append(looked)
        known = await store.known_hashes(self._database, [f.name for f in files], self._owned.user)
        new = [f for f in files if known.get(f.name) != f.digest]
        for file in files:
            if known.get(file.name) == file.digest:
                yield Outcome(file.path, "unchanged")
        wanted, outcomes = await self._compare(new, known)
        for outcome in outcomes:
            yield outcome
        async for outcome in self._read_and_write(wanted):
            yield outcome

    async def _compare(
        self, new: Sequence[File], known: Mapping[str, bytes]
    ) -> tuple[list[File], list[Outcome]]:
        """The files whose bytes no document has, and what became of the others. Moves are noted by then."""
        user = self._owned.user
        same = await store.same_bytes(self._database, [f.digest for f in new], user)
        moved: dict[str, File] = {}
        outcomes: list[Outcome] = []
        wanted: list[File] = []
        for file in new:
            other = same.get(file.digest)
            if other is None:
                same[file.digest] = file.name
                wanted.append(file)
            elif file.name not in known and other not in moved and not self._source.is_there(other):
                moved[other] = file
            else:
                outcomes.append(Outcome(file.path, "duplicate", f"It has the same bytes as {other}."))
        refused = await self._save_moves({old: file.name for old, file in moved.items()})
        for old, file in moved.items():
            outcomes.append(
                Outcome(file.path, "rejected", refused[old])
                if old in refused
                else Outcome(file.path, "moved", f"It was {old}.")
            )
        return wanted, outcomes

    async def _save_moves(self, moves: Mapping[str, str]) -> dict[str, str]:
        """Notes where files are now. Returns why, by the old path, where the database refuses the new one."""
        try:
            await store.save_moves(self._database, moves, self._owned)
        except DocumentRefusedError as error:
            if len(moves) == 1:
                return dict.fromkeys(moves, str(error))
            each = [await self._save_moves({old: new}) for old, new in moves.items()]
            return {old: why for one in each for old, why in one.items()}
        return {}

    async def _look_at(self, path: Path) -> File | Outcome:
        try:
            return await asyncio.to_thread(self._source.look_at, path)
        except Unreadable as error:
            return Outcome(path, "rejected", str(error))

    async def _read_and_write(self, files: Sequence[File]) -> AsyncIterator[Outcome]:
        ready: list[ReadFile] = []
        for reading in asyncio.as_completed([self._read(f) for f in files]):
            read_file = await reading
            if isinstance(read_file, Outcome):
                yield read_file
                continue
            ready.append(read_file)
            if sum(len(r.parsed.text) for r in ready) >= CHARACTERS:
                for outcome in await self._write(ready):
                    yield outcome
                ready = []
        for outcome in await self._write(ready):
            yield outcome

    async def _read(self, file: File) -> ReadFile | Outcome:
        try:
            async with self._slots:
                content, now = await asyncio.to_thread(self._source.read, file.path)
                try:
                    return ReadFile(now, await self._parser.parse(content, file.path.name))
                except OSError as error:
                    raise ParserUnavailable(error) from error
        except Unreadable as error:
            return Outcome(file.path, "rejected", str(error))

    async def _write(self, files: Sequence[ReadFile]) -> list[Outcome]:
        if not files:
            return []
        try:
            written = await store.write(self._database, files, self._owned)
        except DocumentRefusedError as error:
            if len(files) == 1:
                return [Outcome(files[0].file.path, "rejected", str(error))]
            halves = files[: len(files) // 2], files[len(files) // 2 :]
            return [outcome for half in halves for outcome in await self._write(half)]
        return [_outcome(f, written) for f in files]


def _outcome(file: ReadFile, written: Mapping[str, tuple[bool, str | None]]) -> Outcome:
    if file.file.name in written:
        added, ignored = written[file.file.name]
        warning = ignored and f"It is shared, and its {ignored} keeps nobody from reading it."
        return Outcome(file.file.path, "added" if added else "changed", warning)
    return Outcome(
        file.file.path, "unchanged", "Nothing was written: it is known, or its user has switched memory off."
    )
