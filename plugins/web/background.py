"""Work that takes longer than a page may: it runs in this process, and pages show its progress and its result.

Promise: one piece of work of a kind runs at a time. It ends with the process, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Generic, Self, TypeVar

from structlog.typing import FilteringBoundLogger

from daemon.logs import describe, frames
from plugins.web.errors import fault_of_the_database

Result = TypeVar("Result")


class Background(Generic[Result]):
    """Work of one kind: its last result, and the run in progress."""

    def __init__(self, name: str, log: FilteringBoundLogger) -> None:
        """`name`: of log events, in snake case."""
        self._name = name
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self.began_at: datetime | None = None
        self.ended_at: datetime | None = None
        self.result: Result | None = None
        self.trouble: str | None = None
        """A sentence why the last run has no result."""
        self.done = 0
        """Steps that the current run has done."""

    @classmethod
    def of(cls, kept: dict[str, object], name: str, log: FilteringBoundLogger) -> Self:
        """The work of this name among what is kept for a session, or for all readers."""
        found = kept.setdefault(name, cls(name, log))
        assert isinstance(found, cls)
        return found

    @property
    def runs(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def age_seconds(self) -> float:
        """Seconds since the last run began; infinite before the first."""
        return float("inf") if self.began_at is None else (datetime.now(UTC) - self.began_at).total_seconds()

    def report(self, done: int) -> None:
        """Called by the work with the number of steps done."""
        self.done = done

    def start(
        self, work: Callable[[], Awaitable[Result]], explain: Callable[[Exception], str | None]
    ) -> bool:
        """Begins a run unless one is in progress; says whether it did. `explain`: a sentence for a failure that is no bug."""
        if self.runs:
            return False
        self.began_at, self.done = datetime.now(UTC), 0
        self._task = asyncio.create_task(self._run(work, explain))
        return True

    async def wait(self, seconds: float) -> None:
        """Until the run has ended, or for so long."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=seconds)

    async def _run(
        self, work: Callable[[], Awaitable[Result]], explain: Callable[[Exception], str | None]
    ) -> None:
        try:
            self.result, self.trouble = await work(), None
        except Exception as error:  # noqa: BLE001 - the reader is told, and the log has the place
            _, fault = fault_of_the_database(error) or (500, None)
            self.result, self.trouble = None, explain(error) or fault
            if self.trouble is None:
                self.trouble = "This has failed. The log of memoryd web says where."
                self._log.error("web_work_failed", work=self._name, error=describe(error), at=frames(error))
        self.ended_at = datetime.now(UTC)
        took = 0.0 if self.began_at is None else (self.ended_at - self.began_at).total_seconds()
        self._log.info("web_work_done", work=self._name, ms=round(took * 1000), ok=self.trouble is None)
