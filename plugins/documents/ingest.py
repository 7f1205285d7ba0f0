"""Taking files in: new and changed files are read and written, known ones are only compared.

Promise: one file never harms another. The same bytes are one document. A file that moved stays the same document. If the run is
killed at any moment, there are only whole documents, and the next run continues.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from daemon.db.pool import Database
from plugins.documents import store
from plugins.documents.ports import Parser
from plugins.documents.store import Ownership, ReadFile
from plugins.files.local import File, LocalFiles, Source, UnreadableFileError
from plugins.files.refusals import accepted

FILES = 64
"""How many files are hashed and looked up together."""
READ_AT_ONCE = 4
"""Files in memory at the same time."""
CHARACTERS = 4_000_000
"""Bytes of texts that are written together."""

SAME_NAME = "Another file has the same name once its bytes that are not text are escaped. Rename it."

Result = Literal["added", "changed", "unchanged", "duplicate", "moved", "rejected"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for a file. `reason`, for the person who named the file: why it was rejected, that it is the same as another,
    or that it may have more readers than its author wants.
    """

    path: Path
    result: Result
    reason: str | None = None


class ParserError(Exception):
    """No process can be started to read files. `code`: the system's name of the error."""

    def __init__(self, error: OSError) -> None:
        self.code = errno.errorcode.get(error.errno or 0, type(error).__name__)
        super().__init__(f"No process can be started to read files: {error.strerror}. Try again later.")


class Ingest:
    def __init__(
        self, *, database: Database, parser: Parser, owned: Ownership, source: Source | None = None
    ) -> None:
        """`source`: the place of the files, if it is not this machine."""
        self._source = source or LocalFiles()
        self._database = database
        self._parser = parser
        self._owned = owned
        self._slots = asyncio.Semaphore(READ_AT_ONCE)

    async def take(self, paths: Iterable[Path]) -> AsyncIterator[Outcome]:
        """The result for each file, in any order. Raises ParserError, and asyncpg's errors if the database is lost."""
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
        rows = await self._database.fetch(store.KNOWN, [f.name for f in files], self._owned.user)
        known = {row["drop_path"]: row["file_hash"] for row in rows}
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
        """The files whose bytes no document has, and the results for the others, whose moves it has written."""
        rows = await self._database.fetch(store.SAME, [f.digest for f in new], self._owned.user)
        same = {row["file_hash"]: row["drop_path"] for row in rows}
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
        paths = [(old, file.name) for old, file in moved.items()]
        _, refused = await accepted(partial(store.save_moves, self._database, owned=self._owned), paths)
        reasons = {old: why for (old, _), why in refused}
        for old, file in moved.items():
            result: Result = "rejected" if old in reasons else "moved"
            outcomes.append(Outcome(file.path, result, reasons.get(old, f"It was {old}.")))
        return wanted, outcomes

    async def _look_at(self, path: Path) -> File | Outcome:
        try:
            return await asyncio.to_thread(self._source.look_at, path)
        except UnreadableFileError as error:
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
                    raise ParserError(error) from error
        except UnreadableFileError as error:
            return Outcome(file.path, "rejected", str(error))

    async def _write(self, files: Sequence[ReadFile]) -> list[Outcome]:
        rows, refused = await accepted(partial(store.write, self._database, owned=self._owned), files)
        written = {row["drop_path"]: row for row in rows}
        reasons = {file.file.name: why for file, why in refused}
        return [_outcome(f.file, written.get(f.file.name), reasons.get(f.file.name)) for f in files]


def _outcome(file: File, row: Mapping[str, Any] | None, refused: str | None) -> Outcome:
    if refused is not None:
        return Outcome(file.path, "rejected", refused)
    if row is None:
        nothing = "Nothing was written: the file is known, or its user has switched memory off."
        return Outcome(file.path, "unchanged", nothing)
    ignored = row["ignored"]
    warning = ignored and f"It is shared, and its {ignored} keeps nobody from reading it."
    return Outcome(file.path, "added" if row["added"] else "changed", warning)
