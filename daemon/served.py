"""What the HTTP port is told of the databases that a process serves. Apart from what writes metrics, which is slow to load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from daemon.db.pool import Database
from daemon.measures import Measures

STATES = ("waiting", "working", "resting", "away")
ALONE = ""
"""The name of the database of a process that serves one."""


class Worked(Protocol):
    """What works in a database now."""

    @property
    def database(self) -> Database | None:
        """Its connections; None while it starts."""
        ...

    @property
    def waits(self) -> Mapping[str, Callable[[], float]]:
        """By topic the seconds until its provider may be asked again (0.0: now). What waits for that is not late."""
        ...


class Served(Protocol):
    """One of the databases."""

    @property
    def measures(self) -> Measures:
        """What its daemons have counted."""
        ...

    @property
    def state(self) -> str:
        """One of STATES."""
        ...

    @property
    def reason(self) -> str | None:
        """Why it is not served; None where it is."""
        ...

    @property
    def daemon(self) -> Worked | None:
        """What works there; None while nothing does."""
        ...


@dataclass(frozen=True, slots=True)
class OnlyOne:
    """The database of a process that serves one."""

    measures: Measures
    daemon: Worked | None = None
    state: str = "working"
    reason: str | None = None
