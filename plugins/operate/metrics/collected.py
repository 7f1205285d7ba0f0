"""The metrics: their names, and what each is made of. docs/monitoring.md has the same list, docs/monitoring/ what uses it.

Promise: no label is a user, an agent or a row, and each has few values: topics, states, sources, kinds, providers.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import metadata
from itertools import accumulate
from typing import Any, TypeAlias

from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.core import InfoMetricFamily as Info
from prometheus_client.metrics_core import Metric

from daemon.db.pool import Database
from daemon.measures import SECONDS, Histogram, Measures
from plugins.operate.metrics.reading import Reading
from providers.ports import Embedder, LanguageModel

BUILD, REPORTS = "memoryd_build", "memoryd_reports_database"
STATES = ("ready", "claimed", "waiting")
BOUNDS = [*map(str, SECONDS), "+Inf"]


Provider: TypeAlias = Embedder | LanguageModel


def families(
    measures: Measures,
    database: Database | None,
    providers: Mapping[str, Provider],
    topics: Collection[str],
    reading: Reading,
) -> Iterator[Metric]:
    """All metrics of one database now, with this reading of it. `providers`: by what they are for."""
    version = {"version": metadata.version("memoryd"), "python": platform.python_version()}
    yield Info(BUILD, "The version that runs.", value=version)
    yield _gauge("memoryd_database_up", "Whether the database answered.", {(): reading.is_up})
    reports = "Whether this daemon is the one that reports what is the database's."
    yield _gauge(REPORTS, reports, {(): reading.shared is not None})
    connections = {"used": 0, "idle": 0, "most": 0}
    if database is not None:
        connections = database.connections
    most = connections.pop("most")
    held = {(state,): number for state, number in connections.items()}
    yield _gauge("memoryd_connections", "Connections of this daemon's pool.", held, "state")
    yield _gauge("memoryd_connections_max", "How many that pool may have.", {(): most})
    up = {(role, one.name): one.retry_in() == 0.0 for role, one in providers.items()}
    help_up = "Whether the provider may be asked; 0 while it is awaited after a failure."
    yield _gauge("memoryd_provider_up", help_up, up, "role", "provider")
    handled = Counter(
        "memoryd_jobs_handled", "Attempts of jobs, by how they ended.", labels=("topic", "outcome")
    )
    for topic in sorted(topics):
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
    asked = "How long the database took for these metrics."
    yield _histogram("memoryd_metrics_query_seconds", asked, {None: measures.readings})
    if reading.shared is not None:
        yield from _shared(reading.shared, sorted(topics))


def _shared(read: Mapping[str, Any], topics: Sequence[str]) -> Iterator[Metric]:
    """What is the database's."""
    none = {(topic, state): 0 for topic in topics for state in STATES}
    jobs = none | {(topic, state): count for topic, state, count in read["jobs"]}
    yield _gauge("memoryd_jobs", "Jobs in the queue.", jobs, "topic", "state")
    lag = {(topic,): read["lag"].get(topic, 0) for topic in topics}
    oldest = "How long the job has waited whose turn it is; 0 where none can be claimed."
    yield _gauge("memoryd_oldest_ready_job_seconds", oldest, lag, "topic")
    dead = {(topic,): read["dead"].get(topic, 0) for topic in topics}
    yield _gauge("memoryd_dead_letters", "Jobs that are not tried again.", dead, "topic")
    missing = {("index",): read["unindexed"], ("embedding",): read["unembedded"]}
    waiting = "Rows without an index, passages without an embedding."
    yield _gauge("memoryd_rows_waiting", waiting, missing, "missing")
    rows = {(source,): count for source, count in read["rows"].items()}
    yield _gauge("memoryd_rows", "Rows that recall searches, as the server estimates.", rows, "source")
    alive, lost = read["daemons"]
    yield _gauge("memoryd_daemons", "Daemons.", {("alive",): alive, ("lost",): lost}, "state")
    if read["dream_age"] is not None:
        age = "Since the last dream that was completed has ended."
        yield _gauge("memoryd_dream_age_seconds", age, {(): read["dream_age"]})
    used, most = read["server_connections"]
    yield _gauge("memoryd_server_connections", "Connections to the server, of all clients.", {(): used})
    yield _gauge("memoryd_server_connections_max", "How many the server allows.", {(): most})


def _gauge(name: str, text: str, values: Mapping[Any, float], *labels: str) -> Gauge:
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
