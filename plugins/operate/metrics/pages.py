"""What the paths of the HTTP port answer, for the databases that a process serves: one, or several with the label `database`.

Promise: /health/live asks nobody: it answers as long as the process does its work. /health/ready and /metrics ask each
database once a second at most, however many ask for them; of one that is away or hangs they answer what the process knows. A
scrape asks no database that rests. No path shows content, or whose it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus

from prometheus_client import CollectorRegistry, ProcessCollector, exposition
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.measures import Measures
from daemon.queue import backlog
from daemon.served import ALONE, STATES, ServedDatabase
from plugins.operate.metrics.cached import Cache
from plugins.operate.metrics.collected import BUILD, REPORTS, Provider, families
from plugins.operate.metrics.port import Answer
from plugins.operate.metrics.reading import SILENT, Reading, Readings

FRESH_SECONDS = 1.0
ASK_SECONDS = 2.0
"""How long a database has to answer."""
JSON = "application/json"
LIVE, READY, METRICS = "/health/live", "/health/ready", "/metrics"


class Pages:
    def __init__(
        self,
        servings: Mapping[str, ServedDatabase],
        *,
        providers: Mapping[str, Provider],
        is_stopping: Callable[[], bool],
    ) -> None:
        """`servings`: by name, as they are at each moment."""
        self._servings = servings
        self._providers = providers
        self._is_stopping = is_stopping
        self._asked: dict[str, _Answers] = {}
        self._process = ProcessCollector(registry=None)

    async def answer(self, path: str, accept: str) -> Answer:
        """The answer to a GET of this path, in a form that `accept` (the header of this name) names."""
        if path == LIVE:
            return as_json(HTTPStatus.OK, {"status": "live"})
        if path == METRICS:
            return await self._metrics(accept)
        if path == READY:
            return await self._readiness()
        if path.startswith(f"{READY}/") and not self._is_alone:
            return await self._readiness_of(path.removeprefix(f"{READY}/"))
        ready = READY if self._is_alone else f"{READY}, {READY}/NAME"
        return Answer(HTTPStatus.NOT_FOUND, f"There are {LIVE}, {ready} and {METRICS}.\n".encode())

    async def close(self) -> None:
        for asked in self._asked.values():
            await asked.close()

    @property
    def _is_alone(self) -> bool:
        return ALONE in self._servings

    async def _readiness(self) -> Answer:
        names = list(self._servings)
        found = await asyncio.gather(*(self._why_not(name) for name in names))
        reasons = {name: why for name, why in zip(names, found, strict=True) if why is not None}
        if self._is_alone:
            return self._ready(reasons.get(ALONE))
        all_away = len(reasons) == len(names)
        reason = "no database is served: " + next(iter(reasons.values()), "") if all_away else None
        return self._ready(reason, databases=len(names), not_ready=sorted(reasons))

    async def _readiness_of(self, name: str) -> Answer:
        if name not in self._servings:
            return as_json(
                HTTPStatus.NOT_FOUND, {"status": "unknown", "reason": "no such database is listed"}
            )
        return self._ready(await self._why_not(name))

    def _ready(self, reason: str | None, **more: object) -> Answer:
        if self._is_stopping():
            reason = "it is stopping"
        if reason is None:
            return as_json(HTTPStatus.OK, {"status": "ready", **more})
        said = {"status": "not ready", "reason": reason, **more}
        return as_json(HTTPStatus.SERVICE_UNAVAILABLE, said)

    async def _why_not(self, name: str) -> str | None:
        reason = self._servings[name].reason
        asked = self._asking(name)
        if reason is not None or asked is None:
            return reason
        try:
            return await asked.late.get()
        except TimeoutError:
            return f"the database has not answered for {ASK_SECONDS:g} s"

    async def _read(self, name: str) -> Reading:
        asked = self._asking(name)
        if asked is None:
            return Reading(self._servings[name].state != "away")
        try:
            return await asked.reading.get()
        except TimeoutError:
            return SILENT

    def _asking(self, name: str) -> _Answers | None:
        """What asks a database that is worked in."""
        serving = self._servings[name]
        if (daemon := serving.daemon) is None or (database := daemon.database) is None:
            return None
        known = self._asked.get(name)
        if known is None or known.database is not database:
            known = self._asked[name] = _Answers(database, daemon.waits, serving.measures)
        return known

    async def _metrics(self, accept: str) -> Answer:
        names = list(self._servings)
        readings = await asyncio.gather(*(self._read(name) for name in names))
        found = list(self._families(dict(zip(names, readings, strict=True))))
        registry = CollectorRegistry()
        registry.register(self._process)
        registry.register(_FamilyCollector(found))
        write, content_type = exposition.choose_encoder(accept)
        return Answer(HTTPStatus.OK, write(registry), content_type)

    def _families(self, readings: Mapping[str, Reading]) -> Iterator[Metric]:
        states = Gauge(
            "memoryd_database_state",
            "What this process does with the database.",
            labels=("database", "state"),
        )
        whole: dict[str, Metric] = {}
        for name, reading in readings.items():
            if (serving := self._servings.get(name)) is None:
                continue  # the list was read again meanwhile
            daemon = serving.daemon
            database = None if daemon is None else daemon.database
            topics = [] if daemon is None else list(daemon.waits)
            for state in () if name == ALONE else STATES:
                states.add_metric((name, state), float(serving.state == state))
            for family in families(serving.measures, database, self._providers, topics, reading):
                if database is None and family.name == REPORTS:
                    continue  # nobody is there to report
                labelled = whole.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type, family.unit)
                )
                if family.name == BUILD and labelled.samples:
                    continue
                own = {} if name == ALONE or family.name == BUILD else {"database": name}
                labelled.samples += [s._replace(labels={**s.labels, **own}) for s in family.samples]
        if states.samples:
            yield states
        yield from whole.values()


class _Answers:
    """The questions to one database, each with one answer for all who ask at the same time."""

    def __init__(
        self, database: Database, waits: Mapping[str, Callable[[], float]], measures: Measures
    ) -> None:
        self.database = database
        self._waits = waits
        self._readings = Readings(database, list(waits), measures)
        self.late = Cache(self._why_not, seconds=FRESH_SECONDS, patience=ASK_SECONDS)
        self.reading = Cache(self._readings.read, seconds=FRESH_SECONDS, patience=ASK_SECONDS)

    async def close(self) -> None:
        await self.late.close()
        await self.reading.close()
        await self._readings.close()

    async def _why_not(self) -> str | None:
        topics = [topic for topic, wait in self._waits.items() if wait() == 0.0]
        try:
            rows = await self.database.fetch(backlog.LAG, topics)
        except DATABASE_FAULTS as error:
            return f"the database does not answer ({describe(error)})"
        late = max(rows, key=lambda row: row["seconds"], default=None)
        if late is None or late["seconds"] <= backlog.LAG_SECONDS:
            return None
        return (
            f"a job of topic {late['topic']} has waited for {late['seconds']:.0f} s; "
            f"the limit is {backlog.LAG_SECONDS:g} s"
        )


class _FamilyCollector(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> list[Metric]:
        return self._found


def as_json(status: HTTPStatus, value: object) -> Answer:
    return Answer(status, json.dumps(value).encode() + b"\n", JSON)
