"""A replica in this process: a real folder, a real database, and passes that can be killed at each step."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

from daemon.db.pool import Database
from plugins.replica.folder import Folder
from plugins.replica.local_folder import TEMPORARY, LocalFolder
from plugins.replica.pass_state import Report
from plugins.replica.rules.document_file import DocumentText, read
from plugins.replica.store.documents import Store
from plugins.replica.sync import Sync

Result = TypeVar("Result")
MAX_PASSES = 20


class Killed(BaseException):
    """The daemon was killed."""


class Steps:
    """Counts what a pass asks of folder and database, and kills it before or after a step."""

    def __init__(self) -> None:
        self.kill_at: int | None = None
        self._taken = 0

    def arm(self, kill_at: int | None) -> None:
        """Kills at this step, counted from 0: before it where it is even, after it where it is odd."""
        self.kill_at, self._taken = kill_at, 0

    def sync(self, work: Callable[[], Result]) -> Result:
        """One step of the folder."""
        self._step()
        result = work()
        self._step()
        return result

    async def wait(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """One step of the database."""
        self._step()
        result = await work()
        self._step()
        return result

    def _step(self) -> None:
        if self._taken == self.kill_at:
            raise Killed
        self._taken += 1


class SteppedFolder:
    """A folder whose steps are counted."""

    def __init__(self, folder: Folder, steps: Steps) -> None:
        self._folder = folder
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._folder, name)

    def identify(self, replica: UUID) -> None:
        self._steps.sync(lambda: self._folder.identify(replica))

    def write(self, path: str, content: bytes, *, replaces: bytes | None) -> None:
        try:
            self._steps.sync(lambda: self._folder.write(path, content, replaces=replaces))
        except Killed:
            if isinstance(self._folder, LocalFolder):
                # Killed while it was written: half of it is there under another name.
                parent = (self._folder.root / path).parent
                parent.mkdir(parents=True, exist_ok=True)
                (parent / f"{TEMPORARY}{uuid4().hex}").write_bytes(content[: len(content) // 2])
            raise

    def remove(self, path: str, *, replaces: bytes, for_good: bool = False) -> None:
        self._steps.sync(lambda: self._folder.remove(path, replaces=replaces, for_good=for_good))

    def move(self, path: str, to: str, *, replaces: bytes) -> None:
        self._steps.sync(lambda: self._folder.move(path, to, replaces=replaces))


class SteppedDatabase:
    """A database whose statements are counted."""

    def __init__(self, database: Database, steps: Steps) -> None:
        self._database = database
        self._steps = steps

    async def fetch(self, sql: str, *args: object) -> Any:
        return await self._steps.wait(lambda: self._database.fetch(sql, *args))

    async def fetchval(self, sql: str, *args: object) -> Any:
        return await self._database.fetchval(sql, *args)

    async def execute(self, sql: str, *args: object) -> None:
        await self._steps.wait(lambda: self._database.execute(sql, *args))


class KeptStore(Store):
    def require_lease(self) -> None:
        """It lasts: a daemon renews it meanwhile, however long a pass takes."""


class Replicated:
    """A folder and a database that are kept the same on demand. A new one is a daemon that was just started."""

    def __init__(
        self, root: Path, database: Database, *, settle_seconds: float = 0.0, folder: Folder | None = None
    ) -> None:
        """`folder`: another one than that of `root`."""
        self.root = root
        self.database = database
        self.steps = Steps()
        folder = cast("Folder", SteppedFolder(folder or LocalFolder(root), self.steps))
        self._store = KeptStore(cast("Database", SteppedDatabase(database, self.steps)), UUID(int=7))
        self._sync = Sync(store=self._store, folder=folder, settle_seconds=settle_seconds)
        self._replica: UUID | None = None

    async def once(self) -> Report:
        """One pass."""
        replica = await self._store.lease()
        assert replica is not None
        if self._replica is None:
            await self._sync.prepare(replica)
        self._replica = replica
        return await self._sync.run(replica)

    async def settle(self) -> Report:
        """Passes until there is nothing left to do; what they did together."""
        total: Counter[str] = Counter()
        for _ in range(MAX_PASSES):
            report = await self.once()
            total.update(report.counts)
            if not report.again and not any(report.counts.values()):
                return replace(report, counts=total)
        raise AssertionError(f"not done after {MAX_PASSES} passes: {total}")

    async def killed_at(self, step: int) -> bool:
        """Passes that are killed at a step; whether they have so many."""
        self.steps.arm(step)
        try:
            await self.settle()
        except Killed:
            return True
        finally:
            self.steps.arm(None)
        return False

    def files(self) -> dict[str, DocumentText]:
        """What the Markdown files say, but README.md and Index.md."""
        found: dict[str, DocumentText] = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder) / name
                inside = str(path.relative_to(self.root))
                if name.endswith(".md") and inside not in ("README.md", "Index.md"):
                    said = read(path.read_bytes())
                    assert said is not None, inside
                    found[inside] = said
        return found

    def path(self, inside: str) -> Path:
        """A file by its path in the replica."""
        return self.root / inside
