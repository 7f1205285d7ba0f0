"""The properties of a topic that its worker needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from handlers.shared.ports import Handler


@dataclass(frozen=True, slots=True)
class Topic:
    """How the work of one topic is done. `batch` jobs at most in one call, `parallel` calls at once in this daemon.

    `follow_ups` are topics whose jobs this one's effects enqueue; `waits_for` gives the seconds until a provider that the
    topic cannot do without may be asked again (0: now).
    """

    name: str
    handler: Handler
    batch: int
    parallel: int = 1
    lanes: int = 0
    follow_ups: tuple[str, ...] = ()
    counted_as: str | None = None
    """The name of its done jobs in the log line of each minute. Other topics serve those that have one."""
    waits_for: Callable[[], float] = lambda: 0.0
    derives: bool = False
    """Its effects are made of rows that stand, and nothing outside hears of them: what a crash of the server takes back, its
    jobs make again. So its commits do not wait for the disk."""
    gives_way_to: tuple[str, ...] = ()
    """Topics whose backlog goes first: while one of them claims full batches, this one rests after each of its own."""
    last: bool = False
    """Nobody waits for it: what those do that it gives way to goes first, backlog or not."""
