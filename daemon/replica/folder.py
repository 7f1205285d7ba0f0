"""What the replica needs of a store of files. Paths are relative to its root, with slashes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Protocol, TypeAlias
from uuid import UUID

from memory.replica.paths import IDENTITY

Signature = bytes
"""As long as it is the same, the file was most likely not changed."""
NO_SIGNATURE = b""
"""No file has this one."""


class FolderUnavailable(Exception):
    """The folder as a whole cannot be used now. The message says why and what to do."""


def require_mark(found: str | None, replica: UUID, *, where: str) -> None:
    """Raises FolderUnavailable unless the folder is this replica's. `found`: what its mark names; None: it has no mark."""
    if found is None:
        raise FolderUnavailable(
            f"{where} has no {IDENTITY}: it is not mounted, or not the replica. Mount it, or correct MEMORYD_REPLICA; or, if "
            "its files are lost, run: memoryd replica --rewrite"
        )
    if found != str(replica):
        raise FolderUnavailable(f"{where} is the replica of another database. Correct MEMORYD_REPLICA.")


def mark_of(replica: UUID) -> bytes:
    """What is in the file that marks a folder as a replica's."""
    return (json.dumps({"replica": str(replica), "program": "memoryd"}) + "\n").encode()


def marked(content: bytes) -> str:
    """The replica that such a file names; empty: none."""
    try:
        said = json.loads(content)
    except ValueError:
        return ""
    return str(said.get("replica")) if isinstance(said, dict) else ""


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


@dataclass(frozen=True, slots=True)
class Listing:
    """All files of a folder."""

    files: dict[str, Entry] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    """Paths of folders and files that could not be read, or are links: what is in them is not known."""
    is_young: bool = False
    """It may lack what was written a short time ago."""
    left_out: int = 0
    """Documents of another program, which are no files."""

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


Wake: TypeAlias = Callable[[], None]
"""Something changed."""
Blind: TypeAlias = Callable[[BaseException], None]
"""The system tells of no changes, because of this error."""


class Folder(Protocol):
    """A store of files. Its methods block, and are called in threads; all but `watch` and `close`."""

    settle_seconds: float
    """A file that is gone for so long is deleted; one that has not changed for so long is whole."""

    async def watch(
        self, wake: Wake, blind: Blind, available: asyncio.Event, unavailable: asyncio.Event
    ) -> None:
        """Calls `wake` when something changed, while the folder is available; the events say when it is, and is not."""

    def close(self) -> None:
        """Ends what is running in other threads."""

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
