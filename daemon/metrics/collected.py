"""The metrics: their names, and what each is made of. docs/operations.md has the same list, docs/monitoring/ what uses it.

Promise: no label is a user, an agent or a row, and each has few values: topics, states, sources, kinds, providers.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from itertools import accumulate
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.core import InfoMetricFamily as Info
from prometheus_client.metrics_core import Metric

from daemon.db.pool import Database
from daemon.measures import SECONDS, Histogram, Measures
from daemon.metrics.reading import Reading

BUILD, REPORTS = "memoryd_build", "memoryd_reports_database"
STATES = ("ready", "claimed", "waiting")
BOUNDS = [*map(str, SECONDS), "+Inf"]


class Provider(Protocol):
    """An embedder or a language model."""

    @property
    def name(self) -> str:
        """Which one."""
        ...

    def retry_in(self) -> float:
        """Seconds until it may be asked again; 0.0: now."""
        ...


class Collected:
    """The metrics of one daemon."""

    def __init__(
        self,
        measures: Measures,
        database: Database | None,
        providers: Mapping[str, Provider],
        topics: Sequence[str],
    ) -> None:
        self._measures = measures
        self._database = database
        self._providers = providers
        self._topics = sorted(topics)
        self._reading = Reading(False)
        version = {"version": metadata.version("memoryd"), "python": platform.python_version()}
        self._build = Info(BUILD, "The version that runs.", value=version)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def registry(self, reading: Reading) -> CollectorRegistry:
        """What is to be written, with this reading of the database."""
        self._reading = reading
        return self._registry

    def describe(self) -> Iterable[Metric]:
        """Nothing: prometheus_client would otherwise collect once to learn the names."""
        return ()

    def families(self, reading: Reading) -> Iterator[Metric]:
        """All metrics now, with this reading of the database."""
        self._reading = reading
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """For prometheus_client: all metrics now."""
        yield from self._own()
        if self._reading.shared is not None:
            yield from self._shared(self._reading.shared)

    def _own(self) -> Iterator[Metric]:
        """What this process knows."""
        measures = self._measures
        yield self._build
        yield _gauge("memoryd_database_up", "Whether the database answered.", {(): self._reading.is_up}, ())
        yield _gauge(
            REPORTS,
            "Whether this daemon is the one that reports what is the database's.",
            {(): self._reading.shared is not None},
            (),
        )
        connections = {"used": 0, "idle": 0, "most": 0}
        if self._database is not None:
            connections = self._database.connections
        most = connections.pop("most")
        held = {(state,): number for state, number in connections.items()}
        yield _gauge("memoryd_connections", "Connections of this daemon's pool.", held, ("state",))
        yield _gauge("memoryd_connections_max", "How many that pool may have.", {(): most}, ())
        up = {(role, one.name): one.retry_in() == 0.0 for role, one in self._providers.items()}
        help_up = "Whether the provider may be asked; 0 while it is awaited after a failure."
        yield _gauge("memoryd_provider_up", help_up, up, ("role", "provider"))
        handled = Counter(
            "memoryd_jobs_handled", "Attempts of jobs, by how they ended.", labels=("topic", "outcome")
        )
        for topic in self._topics:
            for outcome in ("done", "retried", "handed_back", "discarded"):
                handled.add_metric((topic, outcome), measures.outcomes[topic, outcome])
        yield handled
        taken = Counter(
            "memoryd_claims_taken_over", "Claims of daemons that died, ended by this one.", labels=("kind",)
        )
        for kind in ("jobs", "lanes", "commands"):
            taken.add_metric((kind,), measures.taken_over[kind])
        yield taken
        queued = "From when a job was made until it was first claimed."
        yield _histogram("memoryd_job_queue_seconds", queued, measures.queued)
        ran = "A batch of jobs that was done, from its beginning until its effects were committed."
        yield _histogram("memoryd_batch_seconds", ran, measures.ran)
        answered = "From when a context or a request was asked for until its answer was committed."
        yield _histogram("memoryd_answer_seconds", answered, measures.answered)
        reading = "How long the database took for these metrics."
        yield _histogram("memoryd_metrics_query_seconds", reading, {None: measures.readings})

    def _shared(self, read: Mapping[str, Any]) -> Iterator[Metric]:
        """What is the database's."""
        none = {(topic, state): 0 for topic in self._topics for state in STATES}
        jobs = none | {(topic, state): count for topic, state, count in read["jobs"]}
        yield _gauge("memoryd_jobs", "Jobs in the queue.", jobs, ("topic", "state"))
        lag = {(topic,): read["lag"].get(topic, 0) for topic in self._topics}
        oldest = "How long the job has waited whose turn it is; 0 where none can be claimed."
        yield _gauge("memoryd_oldest_ready_job_seconds", oldest, lag, ("topic",))
        dead = {(topic,): read["dead"].get(topic, 0) for topic in self._topics}
        yield _gauge("memoryd_dead_letters", "Jobs that are not tried again.", dead, ("topic",))
        missing = {("index",): read["unindexed"], ("embedding",): read["unembedded"]}
        yield _gauge(
            "memoryd_rows_waiting",
            "Rows without an index, passages without an embedding.",
            missing,
            ("missing",),
        )
        rows = {(source,): count for source, count in read["rows"].items()}
        yield _gauge("memoryd_rows", "Rows that recall searches, as the server estimates.", rows, ("source",))
        alive, lost = read["daemons"]
        yield _gauge("memoryd_daemons", "Daemons.", {("alive",): alive, ("lost",): lost}, ("state",))
        if read["dream_age"] is not None:
            age = "Since the last dream that was completed has ended."
            yield _gauge("memoryd_dream_age_seconds", age, {(): read["dream_age"]}, ())
        used, most = read["server_connections"]
        yield _gauge(
            "memoryd_server_connections", "Connections to the server, of all clients.", {(): used}, ()
        )
        yield _gauge("memoryd_server_connections_max", "How many the server allows.", {(): most}, ())


def _gauge(name: str, text: str, values: Mapping[Any, float], labels: tuple[str, ...]) -> Gauge:
    family = Gauge(name, text, labels=labels)
    for label, value in values.items():
        family.add_metric(label, float(value))
    return family


def _histogram(name: str, text: str, by: Mapping[Any, Histogram]) -> HistogramMetricFamily:
    """One histogram by topic, or one alone (under None)."""
    family = HistogramMetricFamily(name, text, labels=() if None in by else ("topic",))
    for topic, one in sorted(by.items(), key=lambda item: item[0] or ""):
        buckets = list(zip(BOUNDS, accumulate(one.counts), strict=True))
        family.add_metric(() if topic is None else (topic,), buckets, one.sum)
    return family
