"""A dream was requested by a row of memory_requests: dream, and answer with the report.

Promise: what was committed before the request is remembered before the dream begins, unless that takes more than seconds: then
the dream does not wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict

from handlers.dream.dreamer import Dreamer
from handlers.dream.report import DreamReport
from handlers.shared.ports import AnyConnection, Commit, Job, Reader

ANSWER_REQUEST = """
update public.memory_requests
set status = $2, result = $3, error = $4, finished_at = clock_timestamp()
where id = $1 and status = 'pending'
"""


NEXT = "select coalesce(max(id), 0) + 1 as next from memoryd.jobs"
BEHIND = "select exists (select from memoryd.jobs where topic = any($1) and id < $2) as behind"
WAIT_SECONDS, LOOK_SECONDS = 5.0, 0.05


class DreamHandler:
    """A request of kind dream: dreams, and answers with the report."""

    def __init__(self, *, reader: Reader, dreamer: Dreamer) -> None:
        self._reader = reader
        self._dreamer = dreamer

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Dreams once for all of the batch."""
        deadline = time.monotonic() + WAIT_SECONDS
        await self._until_done(("capture", "facts"), max(job.id for job in jobs), deadline)
        # What became memories has newer jobs.
        [newest] = await self._reader.fetch(NEXT)
        await self._until_done(("index",), newest["next"], deadline)
        report = await self._dreamer.dream("manual")

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            for job in ours:
                await connection.execute(ANSWER_REQUEST, job.ref, *_answer(report))

        return commit

    async def _until_done(self, topics: Sequence[str], before: int, deadline: float) -> None:
        while time.monotonic() < deadline:
            [row] = await self._reader.fetch(BEHIND, topics, before)
            if not row["behind"]:
                return
            await asyncio.sleep(LOOK_SECONDS)


def _answer(report: DreamReport | None) -> tuple[str, str | None, str | None]:
    if report is None:
        return "failed", None, "Another dream is running; see dream_sessions. Ask again when it has ended."
    fields = ", ".join(
        f'"{k}": {v}' if isinstance(v, int) else f'"{k}": "{v}"' for k, v in asdict(report).items()
    )
    return "done", "{" + fields + "}", None
