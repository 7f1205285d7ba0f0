"""How often the replica is looked at: soon where that helps, ever more rarely where it does not."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable

from daemon.replica.pass_state import Report
from daemon.replica.watch.pauses import Pauses

HOUR = 3600.0


def passes_in_an_hour(pause: Callable[[], float]) -> int:
    """How many there are, if none takes any time."""
    passes, clock = 0, 0.0
    while clock < HOUR:
        clock += pause()
        passes += 1
        assert passes < 10_000
    return passes


def after(pauses: Pauses, report: Report, *, took: float = 0.01, is_told: bool = True) -> float:
    """The pause after a pass."""
    return pauses.after(report, took=took, is_told=is_told)


def test_a_folder_that_fails_for_an_hour_is_asked_once_a_minute_and_soon_after_it_is_back() -> None:
    pauses = Pauses(60.0)
    assert passes_in_an_hour(pauses.unavailable) < 70
    assert after(pauses, Report()) == 60.0
    assert pauses.unavailable() == 1.0


def test_passes_that_achieve_nothing_become_rare() -> None:
    pauses = Pauses(60.0)
    assert passes_in_an_hour(lambda: after(pauses, Report(again=True))) < 120
    assert after(pauses, Report(again=True)) == 60.0
    # One that achieves something is followed by others at once.
    after(pauses, Report())
    assert after(pauses, Report(Counter(written=1), again=True)) == 0.0


def test_writes_that_fail_are_tried_again_after_a_minute_at_most() -> None:
    pauses = Pauses(3600.0)
    failed = Report(error=OSError(errno.ENOSPC, "no room"))
    assert [after(pauses, failed) for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    after(pauses, Report())
    assert after(pauses, failed) == 1.0


def test_the_longer_a_pass_takes_the_rarer_it_is_if_events_tell_of_all_changes() -> None:
    pauses = Pauses(60.0)
    assert after(pauses, Report(), took=2.0) == 1000.0
    assert after(pauses, Report(), took=2.0, is_told=False) == 60.0
    assert after(pauses, Report(), took=100.0) == HOUR
    assert after(Pauses(86_400.0), Report(), took=100.0) == 86_400.0


def test_what_settles_is_looked_at_when_it_may_have_settled() -> None:
    assert after(Pauses(60.0), Report(waits=True, pause=0.2)) == 0.2
