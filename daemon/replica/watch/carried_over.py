"""What passes leave for the next one: so a pass that an event started looks only at what changed, and at what is not done yet.

Nothing here says what a file is like now: each pass asks the folder again for the files that it decides on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from daemon.replica.files.texts import FileTexts
from daemon.replica.folder import Listing
from daemon.replica.pass_state import PassState
from memory.replica.paths import is_memoryds_own

MOST = 5_000
"""Paths at once. Where there are more, a pass looks at all files, which costs little more then."""


class CarriedOver:
    """Which files and folders there are, and which of them each pass has to look at."""

    def __init__(self, seen: FileTexts) -> None:
        """`seen`: the files that were read."""
        self._seen = seen
        self._others: set[str] = set()
        self._folders: set[str] = set()
        self.unread: set[str] = set()
        """Paths of what could not be read, or is no file."""
        self._open: set[str] = set()
        self._left: set[str] = set()
        self._is_known = False

    def paths(self, changed: Collection[str]) -> set[str] | None:
        """What a pass has to look at when these have changed; None: everything. So it is after a pass that fails."""
        is_known, self._is_known = self._is_known, False
        if not is_known:
            return None
        wanted = {*changed, *self._open, *self._left}
        return None if len(wanted) > MOST else wanted

    def below(self, paths: Collection[str]) -> set[str]:
        """The files that were there in those of these that were folders."""
        folders = self._folders.intersection(paths)
        if not folders:
            return set()
        prefixes = tuple(f"{folder}/" for folder in folders)
        return {*self._seen.below(folders), *(path for path in self._others if path.startswith(prefixes))}

    def all(self) -> Iterator[str]:
        """All paths that were there."""
        yield from self._seen
        yield from self._others
        yield from self._folders
        yield from self.unread

    def look(self, listing: Listing, of: Collection[str] | None) -> None:
        """A pass has listed these; None: everything."""
        if of is None:
            self._others, self._folders, self.unread = set(), set(), set()
        else:
            gone = set(of)
            self._others -= gone
            self._folders -= gone
            self.unread -= gone
        self._others.update(path for path in listing.files if path not in self._seen)
        self._folders |= listing.folders
        self.unread |= listing.unread

    def leave(self, state: PassState, not_quiet: Iterable[str], looked_at: Collection[str]) -> None:
        """A pass has ended. `not_quiet`: the files that it could not leave aside. `looked_at`: those that events named."""
        report = state.report
        self._open = {
            *not_quiet,
            *(path for path in state.listing.files if "/" not in path and is_memoryds_own(path)),
        }
        is_left = report.again or report.waits or report.failures > 0
        self._left = {*state.touched, *((*looked_at, *self._left) if is_left and not state.is_whole else ())}
        self._is_known = not report.everything
