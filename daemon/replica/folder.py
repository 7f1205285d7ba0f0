"""What the replica needs of a store of files. Paths are relative to its root, with slashes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

Signature = tuple[int, ...]
"""Of a file: as long as it is the same, the file was most likely not changed."""


class FolderUnavailable(Exception):  # noqa: N818 - a state of the folder
    """The folder as a whole cannot be used now. The message says why and what to do."""


class Changed(Exception):  # noqa: N818 - a state of a file
    """The file is not what it was when it was last read: nothing was done."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, as a scan found it."""

    signature: Signature
    modified: datetime
    size: int
    hash: bytes | None = None
    """SHA-256 of the content, where the store tells it without reading. Such a store changes a file as a whole only."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All files of a folder."""

    files: dict[str, Entry] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    """Paths of folders and files that could not be read, or are links: what is in them is not known."""
    left_out: int = 0
    """Documents of another program, which are no files."""

    def is_unknown(self, path: str) -> bool:
        """Whether the scan cannot say that there is no such file."""
        return any(path == one or path.startswith(f"{one}/") for one in self.unread)


class Folder(Protocol):
    """A store of files. Its methods block, and are called in threads."""

    def check(self, replica: UUID) -> None:
        """Raises FolderUnavailable unless this is the folder of that replica."""
        ...

    def identify(self, replica: UUID) -> None:
        """Makes the folder, if there is none, and makes it that of this replica. Raises FolderUnavailable."""
        ...

    def list(self) -> Listing:
        """All files but hidden ones. Raises FolderUnavailable."""
        ...

    def read(self, path: str) -> bytes:
        """The content of a file. Raises OSError."""
        ...

    def write(self, path: str, content: bytes, *, replaces: bytes | None) -> None:
        """Writes a file as a whole. `replaces`: the SHA-256 of what is there now; None: no file is.

        Raises Changed if it is something else, and OSError.
        """
        ...

    def remove(self, path: str, *, replaces: bytes, for_good: bool = False) -> None:
        """Deletes a file, and its folder if that is a user's and empty. Raises Changed, and OSError.

        `for_good`: where there is a trash, not into it.
        """
        ...

    def move(self, path: str, to: str, *, replaces: bytes) -> None:
        """Gives a file another path. Raises Changed if it is something else, or a file is there; and OSError."""
        ...

    def clean(self) -> None:
        """Deletes what a write that was killed left behind."""
        ...
