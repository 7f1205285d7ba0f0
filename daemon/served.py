"""The state of the served databases for the HTTP port. A module of its own, since the code for metrics is slow to load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from daemon.db.pool import Database
from daemon.measures import Measures

STATES = ("waiting", "working", "resting", "away")
ALONE = ""
"""The name of the database of a process that serves one."""


class WorkingDaemon(Protocol):
    """The daemon that works in a database now."""

    @property
    def database(self) -> Database | None:
        """Its connections; None while it starts."""
        ...

    @property
    def waits(self) -> Mapping[str, Callable[[], float]]:
        """By topic the seconds until its provider may be asked again (0.0: now). What waits for that is not late."""
        ...


class ServedDatabase(Protocol):
    """One of the databases."""

    @property
    def measures(self) -> Measures:
        """The counts of its daemons."""
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
    def daemon(self) -> WorkingDaemon | None:
        """The working daemon, or None."""
        ...


@dataclass(frozen=True, slots=True)
class SoleDatabase:
    """The database of a process that serves one."""

    measures: Measures
    daemon: WorkingDaemon | None = None
    state: str = "working"
    reason: str | None = None
