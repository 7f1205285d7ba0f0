"""The pages of a process that serves several databases: its probes, and the metrics of all with the label `database`.

Promise: a scrape asks only the databases that are worked in, and no sleeping one. A database that is away makes its own answer
"not ready", and that of the process only where no database is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, exposition
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import Metric

from daemon.db.pool import Database
from daemon.measures import Measures
from daemon.metrics.cached import Cached
from daemon.metrics.collected import BUILD, REPORTS, Collected, Provider
from daemon.metrics.pages import ASK_SECONDS, FRESH_SECONDS, LIVE, METRICS, READY, as_json, why_not
from daemon.metrics.port import Answer
from daemon.metrics.reading import SILENT, Reading, Readings

STATES = ("waiting", "working", "resting", "away")


class Worked(Protocol):
    """What works in a database now."""

    @property
    def database(self) -> Database | None:
        """Its connections; None while it starts."""
        ...

    @property
    def waits(self) -> Mapping[str, Callable[[], float]]:
        """By topic the seconds until its provider may be asked again."""
        ...


class Served(Protocol):
    """One of the databases."""

    measures: Measures
    state: str
    reason: str | None

    @property
    def daemon(self) -> Worked | None:
        """What works there; None while nothing does."""
        ...


class SeveralPages:
    """See `Site`."""

    def __init__(
        self,
        servings: Mapping[str, Served],
        *,
        providers: Mapping[str, Provider],
        silence: float,
        lag_seconds: float,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._servings = servings
        self._providers = providers
        self._silence = silence
        self._lag_seconds = lag_seconds
        self._is_stopping = is_stopping
        self._readings: dict[str, tuple[Database, Readings]] = {}
        self._late = Cached(self._why_not, seconds=FRESH_SECONDS, patience=ASK_SECONDS)
        self._read = Cached(self._read_all, seconds=FRESH_SECONDS, patience=ASK_SECONDS)
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    async def answer(self, path: str, accept: str) -> Answer:
        """See `Site`."""
        if path == LIVE:
            return as_json(HTTPStatus.OK, {"status": "live"})
        if path == METRICS:
            return await self._metrics(accept)
        if path == READY or path.startswith(f"{READY}/"):
            return await self._readiness(path.removeprefix(READY).removeprefix("/"))
        return Answer(
            HTTPStatus.NOT_FOUND, f"There are {LIVE}, {READY}, {READY}/NAME and {METRICS}.\n".encode()
        )

    async def close(self) -> None:
        """See `Site`."""
        await self._late.close()
        await self._read.close()
        for _, readings in self._readings.values():
            await readings.close()

    async def _readiness(self, name: str) -> Answer:
        if name and name not in self._servings:
            return as_json(
                HTTPStatus.NOT_FOUND, {"status": "unknown", "reason": "no such database is listed"}
            )
        try:
            late = await self._late.get()
        except TimeoutError:
            late = {}
        reasons = {n: s.reason for n, s in self._servings.items() if s.reason is not None} | late
        reason: str | None
        if self._is_stopping():
            reason = "it is stopping"
        elif name:
            reason = reasons.get(name)
        else:
            all_away = len(reasons) == len(self._servings)
            reason = "no database is served: " + next(iter(reasons.values()), "") if all_away else None
        said: dict[str, object] = {"status": "ready" if reason is None else "not ready"}
        if reason is not None:
            said["reason"] = reason
        if not name:
            said |= {"databases": len(self._servings), "not_ready": sorted(reasons)}
        return as_json(HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE, said)

    async def _why_not(self) -> dict[str, str]:
        """By database what is late there."""
        working = self._working()
        reasons = await asyncio.gather(
            *(
                why_not(database, daemon.waits, lag_seconds=self._lag_seconds)
                for _, daemon, database in working
            )
        )
        return {
            name: reason for (name, *_), reason in zip(working, reasons, strict=True) if reason is not None
        }

    def _working(self) -> list[tuple[str, Worked, Database]]:
        return [
            (name, daemon, database)
            for name, serving in self._servings.items()
            if (daemon := serving.daemon) is not None and (database := daemon.database) is not None
        ]

    async def _read_all(self) -> dict[str, Reading]:
        async def read(name: str, daemon: Worked, database: Database) -> tuple[str, Reading]:
            known = self._readings.get(name)
            if known is None or known[0] is not database:
                measures = self._servings[name].measures
                known = (database, Readings(database, list(daemon.waits), measures, silence=self._silence))
                self._readings[name] = known
            return name, await known[1].read()

        return dict(await asyncio.gather(*(read(*one) for one in self._working())))

    async def _metrics(self, accept: str) -> Answer:
        try:
            readings = await self._read.get()
        except TimeoutError:
            readings = {name: SILENT for name, _, _ in self._working()}
        registry = CollectorRegistry()
        registry.register(_All(list(self._families(readings))))
        write, content_type = exposition.choose_encoder(accept)
        # Two registries, one text: what is the process's has no database.
        body = write(self._process) + write(registry)
        if body.count(b"# EOF\n") > 1:
            body = body.replace(b"# EOF\n", b"", 1)
        return Answer(HTTPStatus.OK, body, content_type)

    def _families(self, readings: Mapping[str, Reading]) -> Iterator[Metric]:
        states = Gauge(
            "memoryd_database_state",
            "What this process does with the database.",
            labels=("database", "state"),
        )
        whole: dict[str, Metric] = {}
        for name, serving in list(self._servings.items()):
            for state in STATES:
                states.add_metric((name, state), float(serving.state == state))
            daemon = serving.daemon
            database = None if daemon is None else daemon.database
            topics = [] if daemon is None else list(daemon.waits)
            collected = Collected(serving.measures, database, self._providers, topics)
            reading = readings.get(name, Reading(serving.state != "away"))
            for family in collected.families(reading):
                if database is None and family.name == REPORTS:
                    continue  # nobody is there to report
                labelled = whole.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type, family.unit)
                )
                alone = family.name == BUILD
                if alone and labelled.samples:
                    continue
                own = {} if alone else {"database": name}
                labelled.samples += [s._replace(labels={**s.labels, **own}) for s in family.samples]
        yield states
        yield from whole.values()


class _All:
    """For prometheus_client."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._families
