"""How long until the next pass that no event asks for.

At once while there is more to do, but not for ever; soon while something settles; the later, the longer nothing comes of it.
"""

from __future__ import annotations

from daemon.replica.pass_state import Report

FIRST_SECONDS, LAST_SECONDS = 1.0, 60.0
"""While the folder cannot be used, or written: the first pause, and the longest. Each is twice the one before."""
MAX_PASSES = 5
"""Passes one after the other, each of which left something to do, until there is a pause."""
REST_FACTOR = 500.0
"""Passes without an event may take this part of the time. They are needed only where an event did not come."""
LONGEST_REST_SECONDS = 3600.0


class Pauses:
    """Says when the next pass is due."""

    def __init__(self, scan_seconds: float) -> None:
        """`scan_seconds`: between two passes while nothing happens."""
        self._scan = scan_seconds
        self._trouble = FIRST_SECONDS
        self._passes = 0
        self._stuck = 0
        self.rest = scan_seconds
        """After the last pass over all files: until the next one."""

    def unavailable(self) -> float:
        """The folder cannot be used."""
        pause = self._trouble
        self._trouble = min(2 * pause, LAST_SECONDS)
        return pause

    def after(self, report: Report, *, took: float, is_told: bool) -> float:
        """Seconds after this pass, which `took` its own. `is_told`: all changes are told by events."""
        self._passes = self._passes + 1 if report.again else 0
        self._stuck = self._stuck + 1 if report.again and not any(report.counts.values()) else 0
        if report.is_whole:
            # The rarer, the longer it takes.
            long = min(REST_FACTOR * took, LONGEST_REST_SECONDS) if is_told else 0.0
            self.rest = max(self._scan, long)
        if 0 < self._passes < MAX_PASSES:
            return 0.0
        wait = self._scan
        if report.waits or report.again:
            # A file that can be listed and not read, for example, is looked at less and less often.
            wait = min(report.pause * 2 ** (min(self._stuck, 100) // MAX_PASSES), wait)
        elif is_told:
            wait = self.rest
        if report.error is not None:
            return min(wait, self.unavailable())
        self._trouble = FIRST_SECONDS
        return wait
