"""One log line a minute about the daemon's work, so that the log alone shows normal work.

Promise: a daemon that did nothing says nothing, and asks the database nothing. The line has counts and durations only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.lag import LAG
from daemon.db.pool import Database
from daemon.measures import Measures, Outcome

SECONDS = 60.0
NAMES = {
    "context": "contexts",
    "capture": "captured",
    "index": "indexed",
    "associate": "linked",
    "request": "requests",
    "facts": "read_for_facts",
    "dream": "dreams",
}
"""The names of topics in the line. Other topics serve these."""
WAITS = f"""
select (select coalesce(max(l.seconds), 0) from ({LAG}) l) as lag,
       (select count(*) from (select from memoryd.dead_letters limit 1000) d) as dead
"""  # noqa: S608 - a constant of ours


class Summary:
    """Says it until it is cancelled, and then once more."""

    def __init__(
        self,
        measures: Measures,
        database: Database,
        topics: Sequence[str],
        *,
        logger: FilteringBoundLogger,
    ) -> None:
        self._measures = measures
        self._database = database
        self._topics = list(topics)
        self._log = logger
        self._told: Counter[tuple[str, Outcome]] = Counter()

    async def run(self) -> None:
        """Looks once a minute."""
        try:
            while True:
                await asyncio.sleep(SECONDS)
                if said := self._news():
                    self._log.info("summary", **said, **await self._waits())
        finally:
            if said := self._news():
                self._log.info("summary", **said)

    def _news(self) -> dict[str, object]:
        """The work since the last call; empty for none."""
        new = Counter(self._measures.outcomes)
        new.subtract(self._told)
        self._told = Counter(self._measures.outcomes)
        answers = sorted(self._measures.recent_answers)
        self._measures.recent_answers.clear()
        said: dict[str, object] = {
            name: done for topic, name in NAMES.items() if (done := new[topic, "done"])
        }
        for outcome in ("retried", "handed_back", "discarded"):
            if jobs := sum(count for (_, ended), count in new.items() if ended == outcome):
                said[outcome] = jobs
        if answers:
            said["p50_ms"] = _milliseconds(answers, 0.5)
            said["p99_ms"] = _milliseconds(answers, 0.99)
        return said

    async def _waits(self) -> dict[str, object]:
        try:
            (row,) = await self._database.fetch(WAITS, self._topics)
        except DATABASE_FAULTS:
            return {}
        return {"lag_seconds": round(row["lag"], 1), "dead": row["dead"]}


def _milliseconds(ordered: Sequence[float], share: float) -> int:
    """The duration that this share of the answers did not exceed."""
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000)
