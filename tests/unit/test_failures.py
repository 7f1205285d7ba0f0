"""The failure policy: whose an error is, which jobs are tried together, and which job makes a provider fail."""

from __future__ import annotations

from datetime import UTC, datetime

import asyncpg
import pytest

from daemon.queue.failures import (
    BACKOFF_MAX_SECONDS,
    LOCK_MAX_SECONDS,
    OUTAGE_MAX_SECONDS,
    SUSPECT_AFTER,
    Fault,
    ProviderSuspects,
    backoff,
    by_lane,
    fault_of,
    halves,
    is_divisible,
    is_permanent,
    lock_pause,
    outage_pause,
    reason_of,
    suspect_batches,
)
from handlers.shared.ports import Job, Poison, RowLockError
from providers.ports import RejectionError, UnavailableError

NOW = datetime(2026, 5, 6, tzinfo=UTC)


def job(number: int, *, lane: str | None = None, deaths: int = 0, snoozes: int = 0) -> Job:
    return Job(number, "test", lane, None, None, deaths + snoozes + 1, snoozes, NOW)


def ids(batches: list[list[Job]]) -> list[list[int]]:
    return [[one.id for one in batch] for batch in batches]


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (UnavailableError("away", provider="p"), Fault.PROVIDER),
        (RowLockError(), Fault.LOCK_CONTENTION),
        (asyncpg.LockNotAvailableError("locked"), Fault.LOCK_CONTENTION),
        (asyncpg.DeadlockDetectedError("deadlock"), Fault.LOCK_CONTENTION),
        (asyncpg.DiskFullError("full"), Fault.OUTAGE),
        (asyncpg.ReadOnlySQLTransactionError("standby"), Fault.OUTAGE),
        (TimeoutError(), Fault.OUTAGE),
        (asyncpg.UniqueViolationError("twice"), Fault.JOB),
        (RejectionError("never", provider="p"), Fault.JOB),
        (RuntimeError("a bug"), Fault.JOB),
    ],
)
def test_an_error_is_of_one_kind(error: Exception, fault: Fault) -> None:
    assert fault_of(error) is fault


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (Poison("no"), True),
        (RejectionError("never", provider="p"), True),
        (asyncpg.CharacterNotInRepertoireError("byte"), True),
        (asyncpg.UniqueViolationError("twice"), False),
        (RuntimeError("a bug"), False),
    ],
)
def test_what_can_never_succeed_needs_no_second_attempt(error: Exception, permanent: bool) -> None:
    assert is_permanent(error) is permanent


def test_a_reason_can_be_stored() -> None:
    assert reason_of(ValueError("a\x00b")) == "ValueError: a\ufffdb"


@pytest.mark.parametrize(("failures", "longest"), [(0, 1.0), (1, 1.0), (2, 2.0), (5, 16.0), (10_000, 300.0)])
def test_a_pause_doubles_up_to_its_maximum(failures: int, longest: float) -> None:
    pauses = [backoff(failures) for _ in range(200)]
    assert longest / 2 <= min(pauses) <= max(pauses) <= longest <= BACKOFF_MAX_SECONDS


def test_a_lock_and_an_outage_are_waited_for_with_maxima_of_their_own() -> None:
    waited = [job(1, snoozes=50), job(2, snoozes=0)]
    assert LOCK_MAX_SECONDS / 2 <= lock_pause(waited) <= LOCK_MAX_SECONDS
    assert outage_pause(waited, maximum=300.0) <= 1.0
    assert OUTAGE_MAX_SECONDS / 2 <= outage_pause(waited[:1], maximum=300.0) <= OUTAGE_MAX_SECONDS
    assert outage_pause(waited[:1], maximum=0.1) <= 0.1


@pytest.mark.parametrize(
    ("lanes", "divisible"),
    [([None], False), ([None, None], True), (["a", "a"], False), (["a", "b"], True)],
)
def test_within_one_lane_nothing_overtakes(lanes: list[str | None], divisible: bool) -> None:
    assert is_divisible([job(n, lane=lane) for n, lane in enumerate(lanes)]) is divisible


def test_parts_keep_the_order() -> None:
    jobs = [job(1, lane="a"), job(2, lane="a"), job(3, lane="b")]
    assert ids(by_lane(jobs)) == [[1, 2], [3]]
    assert ids([list(half) for half in halves(jobs)]) == [[1], [2, 3]]


def test_suspects_that_have_seen_as_many_deaths_are_together() -> None:
    lanes = [
        job(1, lane="a", deaths=2),
        job(2, lane="b", deaths=1),
        job(3, lane="c"),
        job(4, lane="d", deaths=2),
    ]
    assert ids(suspect_batches(lanes)) == [[2], [1, 4]]
    assert ids(suspect_batches([job(1, deaths=3), job(2, deaths=3), job(3)])) == [[1, 2]]
    assert suspect_batches([job(1)]) == []


def test_half_of_those_that_met_the_provider_s_failure_often_come_last() -> None:
    jobs = [job(n, snoozes=SUSPECT_AFTER) for n in range(5)] + [job(5)]
    first, last = ProviderSuspects().separate(jobs)
    assert len(last) == 3
    assert {one.id for one in first} | {one.id for one in last} == set(range(6))
    assert 5 in {one.id for one in first}


def test_in_a_lane_or_before_that_nothing_is_separated() -> None:
    jobs = [job(1, lane="a", snoozes=SUSPECT_AFTER), job(2, snoozes=SUSPECT_AFTER - 1)]
    assert ids(ProviderSuspects().separate(jobs)) == [[1, 2]]
    assert ProviderSuspects().separate([]) == []


def test_a_job_is_at_fault_when_it_fails_alone_and_often_while_others_succeed() -> None:
    suspects, often = ProviderSuspects(), job(1, snoozes=SUSPECT_AFTER)
    assert not suspects.provider_failed([often])  # perhaps the provider is down for all
    suspects.succeeded([job(2)])
    assert not suspects.provider_failed([often, job(3)])  # perhaps it was the other
    assert suspects.provider_failed([often])
    assert not suspects.provider_failed([job(4)])  # for the first time


def test_a_success_clears_a_job() -> None:
    suspects, often = ProviderSuspects(), job(1, snoozes=SUSPECT_AFTER)
    suspects.provider_failed([often])
    suspects.succeeded([job(2)])
    suspects.succeeded([often])
    assert not suspects.provider_failed([often])
