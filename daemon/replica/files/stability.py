"""When a file that changed is whole, so that it may be read.

A file that nobody has open for writing is whole after a moment. One that was written again while it waited is most likely
written in steps, and has to stay the same for longer. So has each file where the system does not tell who has it open: in a
folder of another machine, for example. One that is open is still being written.

Promise: a file that a program writes for a minute is not read half-way. One that a program never closes is read all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from daemon.replica.folder import Entry, Folder, Signature

SETTLE_SECONDS = 1.0
"""A file that changed more recently may still be written."""
QUICK_SECONDS = 0.2
"""The same, of one that nobody has open."""
OPEN_SECONDS = 60.0
"""A file that is open for writing is taken when it has not changed for so long,"""
PATIENCE_SECONDS = 600.0
"""or when it has been waiting for so long and has not changed for SETTLE_SECONDS."""
OPEN_SHARE = 0.1
"""A file that is open is looked at again after this share of the time for which it has been waiting."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A file that changed, as it was seen last."""

    signature: Signature
    since: float
    """It has been the same since then, by the monotonic clock."""
    first: float
    """It has been waiting since then."""
    is_open: bool | None
    in_steps: bool = False
    """It was written again after it had been closed."""
    settled: bool = False


class Stability:
    """Knows the files that changed a short time ago. Blocks: call it in a thread."""

    def __init__(self, folder: Folder, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._folder = folder
        self._settle = settle_seconds
        self._before: dict[str, _Look] = {}
        self._looks: dict[str, _Look] = {}
        self.pause = settle_seconds
        """Seconds until the next of the files that wait may be whole."""

    def begin(self) -> None:
        """A new pass begins: what it does not ask for is forgotten."""
        self._before, self._looks = self._looks, {}
        self.pause = self._settle

    def is_settled(self, path: str, entry: Entry, *, now: float, clock: float) -> bool:
        """Whether it may be read. `now`: the time of day, `clock`: the monotonic one."""
        age = now - entry.seconds
        if entry.hash is not None or age >= OPEN_SECONDS:
            return True
        look = self._look(path, entry, clock)
        # Its time may be wrong, or in the future: what counts then is how long it has stayed the same.
        still = max(age, clock - look.since)
        wanted = self._wanted(look, clock)
        self._looks[path] = replace(look, settled=still >= wanted)
        if still < wanted:
            pause = wanted - still
            if look.is_open:
                pause = min(pause, max(QUICK_SECONDS, (clock - look.first) * OPEN_SHARE))
            self.pause = min(self.pause, pause)
        return still >= wanted

    def is_held(self, path: str, *, clock: float) -> bool:
        """Whether a file that was asked for waits only because a program has had it open for OPEN_SECONDS."""
        look = self._looks.get(path)
        return look is not None and bool(look.is_open) and clock - look.first >= OPEN_SECONDS

    def _look(self, path: str, entry: Entry, clock: float) -> _Look:
        before = self._before.get(path)
        is_open = self._folder.is_open_for_writing(path)
        if before is None or (before.settled and before.signature != entry.signature):
            return _Look(entry.signature, clock, clock, is_open)
        if before.signature == entry.signature:
            return replace(before, is_open=is_open)
        in_steps = before.in_steps or not before.is_open
        return _Look(entry.signature, clock, before.first, is_open, in_steps)

    def _wanted(self, look: _Look, clock: float) -> float:
        """For how long it must not have changed."""
        if look.is_open and clock - look.first < PATIENCE_SECONDS:
            return OPEN_SECONDS
        if look.is_open is False and not look.in_steps:
            return min(QUICK_SECONDS, self._settle)
        return self._settle
