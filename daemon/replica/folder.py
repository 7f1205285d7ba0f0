"""What the replica needs of a store of files. Paths are relative to its root, with slashes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from struct import Struct
from typing import Protocol
from uuid import UUID

SIGNATURE_BYTES = 32
_ROW = Struct(f"{SIGNATURE_BYTES}sd")
Signature = bytes
"""SIGNATURE_BYTES of a file: as long as they are the same, the file was most likely not changed."""
NO_SIGNATURE = bytes(SIGNATURE_BYTES)
"""No file has this one."""


class FolderUnavailable(Exception):
    """The folder as a whole cannot be used now. The message says why and what to do."""


class Changed(Exception):
    """The file is not what it was when it was last read: nothing was done."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, as a scan found it."""

    signature: Signature
    seconds: float
    """When it was changed last, in seconds since 1970; not after now."""
    hash: bytes | None = None
    """SHA-256 of the content, where the store tells it without reading. Such a store changes a file as a whole only."""

    @property
    def modified(self) -> datetime:
        """When it was changed last."""
        return datetime.fromtimestamp(self.seconds, UTC)


class Entries(MutableMapping[str, Entry]):
    """Files by their paths. In memory each is one short row of bytes: there may be 100,000."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}

    def __getitem__(self, path: str) -> Entry:
        row = self._rows[path]
        signature, seconds = _ROW.unpack_from(row)
        return Entry(signature, seconds, row[_ROW.size :] or None)

    def __setitem__(self, path: str, entry: Entry) -> None:
        self._rows[path] = _ROW.pack(entry.signature, entry.seconds) + (entry.hash or b"")

    def __delitem__(self, path: str) -> None:
        del self._rows[path]

    def __contains__(self, path: object) -> bool:
        return path in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def has_hashes(self) -> bool:
        """Whether one has a hash."""
        return any(len(row) > _ROW.size for row in self._rows.values())


@dataclass(frozen=True, slots=True)
class Listing:
    """All files of a folder."""

    files: Entries = field(default_factory=Entries)
    folders: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    """Paths of folders and files that could not be read, or are links: what is in them is not known."""
    left_out: int = 0
    """Documents of another program, which are no files."""

    def with_(self, more: Listing) -> Listing:
        """What both found; `more` is the later one."""
        files = Entries()
        files.update(self.files)
        files.update(more.files)
        return Listing(
            files,
            self.folders | more.folders,
            self.unread | more.unread,
            self.left_out + more.left_out,
        )

    def has_hashes(self) -> bool:
        """Whether the store tells any hash."""
        return self.files.has_hashes()

    def is_unknown(self, path: str) -> bool:
        """Whether the scan cannot say that there is no such file."""
        if not self.unread:
            return False
        return path in self.unread or any(str(one) in self.unread for one in PurePosixPath(path).parents)


def is_text(path: str) -> bool:
    """Whether a path can be written down. Others are left alone."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in path


def written(path: str) -> str:
    """A path as text that can be written down: bytes that are no UTF-8 as `\\xff`, and then a backslash as two."""
    path = path.replace("\0", "\ufffd")
    if is_text(path):
        return path
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = path.encode("utf-8", "surrogatepass")  # half of a character, in a name that JSON told
    return raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


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

    def look(self, paths: Collection[str]) -> Listing | None:
        """The same, of these paths and of all that is in those that are folders. Raises FolderUnavailable.

        None: such a folder is listed as a whole, which costs no more.
        """
        ...

    def read(self, path: str) -> bytes:
        """The content of a file. Raises OSError."""
        ...

    def is_open_for_writing(self, path: str) -> bool | None:
        """Whether a program has a file open for writing; None where that is not known."""
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
