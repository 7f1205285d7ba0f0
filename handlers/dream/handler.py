"""A dream was requested by a row of memory_requests: dream at once, and answer with the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from handlers.dream.dreamer import Dreamer
from handlers.dream.report import DreamReport
from handlers.shared.ports import AnyConnection, Commit, Job

ANSWER_REQUEST = """
update public.memory_requests
set status = $2, result = $3, error = $4, finished_at = clock_timestamp()
where id = $1 and status = 'pending'
"""


class DreamHandler:
    """A request of kind dream: dreams at once, and answers with the report."""

    def __init__(self, *, dreamer: Dreamer) -> None:
        self._dreamer = dreamer

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Dreams once for all of the batch."""
        report = await self._dreamer.dream("manual")

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            for job in ours:
                await connection.execute(ANSWER_REQUEST, job.ref, *_answer(report))

        return commit


def _answer(report: DreamReport | None) -> tuple[str, str | None, str | None]:
    if report is None:
        return "failed", None, "Another dream is running; see dream_sessions. Ask again when it has ended."
    fields = ", ".join(
        f'"{k}": {v}' if isinstance(v, int) else f'"{k}": "{v}"' for k, v in asdict(report).items()
    )
    return "done", "{" + fields + "}", None
