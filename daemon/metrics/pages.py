"""What the paths of the HTTP port answer.

Promise: /health/live asks nobody: it answers as long as the process does its work. /health/ready and /metrics ask the
database once a second at most, however many ask for them; without a database, or with one that hangs, they answer what the
process knows. No path shows content, or whose it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from prometheus_client import exposition

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.lag import LAG
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.metrics.cached import Cached
from daemon.metrics.collected import Collected
from daemon.metrics.port import Answer
from daemon.metrics.reading import SILENT, Reading, Readings

FRESH_SECONDS = 1.0
ASK_SECONDS = 2.0
"""How long the database has to answer."""
JSON = "application/json"
LIVE, READY, METRICS = "/health/live", "/health/ready", "/metrics"


class Pages:
    """The pages of one daemon."""

    def __init__(
        self,
        database: Database,
        *,
        readings: Readings,
        collected: Collected,
        waits: Mapping[str, Callable[[], float]],
        lag_seconds: float,
        is_stopping: Callable[[], bool],
    ) -> None:
        """`waits`: by topic the seconds until its provider may be asked again (0.0: now). What waits for that is not late."""
        self._database = database
        self._readings = readings
        self._collected = collected
        self._waits = waits
        self._lag_seconds = lag_seconds
        self._is_stopping = is_stopping
        self._ready = Cached(self._why_not, seconds=FRESH_SECONDS, patience=ASK_SECONDS)
        self._reading = Cached(readings.read, seconds=FRESH_SECONDS, patience=ASK_SECONDS)
        self._shown: Reading | None = None
        self._written: dict[str, bytes] = {}
        self._written_at = 0.0

    async def answer(self, path: str, accept: str) -> Answer:
        """See `Site`."""
        match path:
            case "/health/live":
                return as_json(HTTPStatus.OK, {"status": "live"})
            case "/health/ready":
                return await self._readiness()
            case "/metrics":
                return await self._metrics(accept)
        return Answer(HTTPStatus.NOT_FOUND, f"There are {LIVE}, {READY} and {METRICS}.\n".encode())

    async def close(self) -> None:
        """See `Site`."""
        await self._ready.close()
        await self._reading.close()
        await self._readings.close()

    async def _readiness(self) -> Answer:
        try:
            reason = "it is stopping" if self._is_stopping() else await self._ready.get()
        except TimeoutError:
            reason = f"the database has not answered for {ASK_SECONDS:g} s"
        if reason is None:
            return as_json(HTTPStatus.OK, {"status": "ready"})
        return as_json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "reason": reason})

    async def _metrics(self, accept: str) -> Answer:
        try:
            reading = await self._reading.get()
        except TimeoutError:
            reading = SILENT
        now = time.monotonic()
        if reading is not self._shown or now - self._written_at >= FRESH_SECONDS:
            self._shown, self._written, self._written_at = reading, {}, now
        write, content_type = exposition.choose_encoder(accept)
        if content_type not in self._written:
            self._written[content_type] = write(self._collected.registry(reading))
        return Answer(HTTPStatus.OK, self._written[content_type], content_type)

    async def _why_not(self) -> str | None:
        return await why_not(self._database, self._waits, lag_seconds=self._lag_seconds)


async def why_not(
    database: Database, waits: Mapping[str, Callable[[], float]], *, lag_seconds: float
) -> str | None:
    """Why what works in this database is not ready; None where it is. `waits`: see Pages."""
    topics = [topic for topic, wait in waits.items() if wait() == 0.0]
    try:
        rows = await database.fetch(LAG, topics)
    except DATABASE_FAULTS as error:
        return f"the database does not answer ({describe(error)})"
    late = max(rows, key=lambda row: row["seconds"], default=None)
    if late is None or late["seconds"] <= lag_seconds:
        return None
    return (
        f"a job of topic {late['topic']} has waited for {late['seconds']:.0f} s; "
        f"the limit is {lag_seconds:g} s (MEMORYD_READY_LAG_SECONDS)"
    )


def as_json(status: HTTPStatus, value: object) -> Answer:
    """An answer in JSON."""
    return Answer(status, json.dumps(value).encode() + b"\n", JSON)
