"""What the next pass over the replica has to look at."""

from __future__ import annotations

import asyncio

from daemon.replica.watch.agenda import Agenda
from daemon.replica.watch.carried_over import MOST


def test_events_name_paths_and_rows_until_a_pass_takes_them() -> None:
    due = Agenda()
    assert due.take() == (None, True), "at first, everything"
    assert due.take() == (set(), False)
    due.paths({"a.md"})
    due.paths({"b.md", "a.md"})
    assert due.take() == ({"a.md", "b.md"}, False)
    due.rows()
    assert due.take() == (set(), True)


def test_what_nobody_can_name_is_everything() -> None:
    due = Agenda()
    due.take()
    due.paths({"a.md"})
    due.paths(None)
    assert due.take() == (None, True)
    due.paths({f"{number}.md" for number in range(MOST + 1)})
    due.paths({"one more.md"})
    assert due.take() == (None, True)


def test_everything_is_due_again_after_a_while() -> None:
    due = Agenda()
    due.take()
    due.everything(after=3600.0)
    due.everything(after=7200.0)
    assert due.take() == (set(), False)
    due.everything()
    assert due.take() == (None, True)


async def test_waiting_ends_with_an_event_or_with_its_time() -> None:
    due = Agenda()
    due.take()
    due.paths({"a.md"})
    await asyncio.wait_for(due.wait(3600.0, rows=True), 10)
    assert due.take() == ({"a.md"}, False)
    await due.wait(0.0, rows=False)
    assert due.take() == (set(), False)
    await due.wait(0.0, rows=True)
    assert due.take() == (set(), True)
    # Rows do not end a rest after a pass, files do.
    due.rows()
    await asyncio.wait_for(due.rest(0.01), 10)
    due.paths({"b.md"})
    await asyncio.wait_for(due.rest(3600.0), 10)
    assert due.take() == ({"b.md"}, True)
    due.everything(after=0.01)
    await asyncio.wait_for(due.wait(3600.0, rows=True), 10)
