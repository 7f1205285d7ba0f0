"""The store of files that the replica needs. Paths are relative to its root, with slashes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Protocol, TypeAlias
from uuid import UUID

from plugins.replica.rules.paths import IDENTITY

Signature = bytes
"""While it is the same, the file has most likely not changed."""
NO_SIGNATURE = b""
"""The signature of no file."""


class FolderUnavailable(Exception):
    """The folder as a whole cannot be used now. The message says why and what to do."""


def require_mark(found: str | None, replica: UUID, *, where: str) -> None:
    """Raises FolderUnavailable unless the folder belongs to this replica. `found`: the replica in its mark; None: no mark."""
    if found is None:
        raise FolderUnavailable(
            f"{where} has no {IDENTITY}: it is not mounted, or not the replica. Mount it, or correct MEMORYD_REPLICA; or, if "
            "its files are lost, run: memoryd replica --rewrite"
        )
    if found != str(replica):
        raise FolderUnavailable(f"{where} is the replica of another database. Correct MEMORYD_REPLICA.")


def mark_of(replica: UUID) -> bytes:
    """The content of the file that marks a folder of a replica."""
    return (json.dumps({"replica": str(replica), "program": "memoryd"}) + "\n").encode()


def marked(content: bytes) -> str:
    """The replica that such a file names; empty for none."""
    try:
        said = json.loads(content)
    except ValueError:
        return ""
    return str(said.get("replica")) if isinstance(said, dict) else ""


class StaleFile(Exception):
    """The file has changed since it was last read: nothing was done."""


@dataclass(frozen=True, slots=True)
class Entry:
    signature: Signature
    seconds: float
    """When it was changed last, in seconds since 1970; not after now."""
    hash: bytes | None = None
    """SHA-256 of the content, if the store gives it without reading. Such a store changes only complete files."""

    @property
    def modified(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)


@dataclass(frozen=True, slots=True)
class Listing:
    files: dict[str, Entry] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    """Paths of folders and files that could not be read, or are links: their content is not known."""
    is_young: bool = False
    """Whether it may lack recent files."""
    left_out: int = 0
    """Documents of another program that are no files."""

    def is_unknown(self, path: str) -> bool:
        """Whether such a file may exist without being listed."""
        return path in self.unread or any(str(one) in self.unread for one in PurePosixPath(path).parents)


Wake: TypeAlias = Callable[[], None]
"""Something changed."""
Blind: TypeAlias = Callable[[BaseException], None]
"""The system reports no changes, because of this error."""


class Folder(Protocol):
    """A store of files. Its methods block and are called in threads, but for `watch` and `close`."""

    settle_seconds: float
    """Seconds after which a missing file counts as deleted, and an unchanged file as complete."""

    async def watch(
        self, wake: Wake, blind: Blind, available: asyncio.Event, unavailable: asyncio.Event
    ) -> None:
        """Calls `wake` on changes while the folder is available; the events say when that begins and ends."""

    def close(self) -> None:
        """Ends the calls of other threads."""

    def reach(self) -> None:
        """Raises FolderUnavailable unless files can be read and added. A folder of this machine may be missing still."""

    def check(self, replica: UUID) -> None:
        """Raises FolderUnavailable unless the folder belongs to this replica."""

    def identify(self, replica: UUID) -> None:
        """Makes the folder if it does not exist, and marks it for this replica. Raises FolderUnavailable."""

    def list(self) -> Listing:
        """All files but hidden ones. Raises FolderUnavailable."""

    def read(self, path: str) -> bytes:
        """The content of a file. Raises OSError."""

    def is_open_for_writing(self, path: str) -> bool | None:
        """Whether a program has a file open for writing; None if not known."""

    def write(self, path: str, content: bytes, *, replaces: bytes | None) -> None:
        """Writes a complete file. `replaces`: the SHA-256 of the current content; None: there is no file.

        Raises StaleFile if the content differs, and OSError.
        """

    def remove(self, path: str, *, replaces: bytes, for_good: bool = False) -> None:
        """Deletes a file, and a user's folder that becomes empty. Raises StaleFile and OSError.

        `for_good`: not into the trash.
        """

    def move(self, path: str, to: str, *, replaces: bytes) -> None:
        """Moves a file. Raises StaleFile if its content differs or the new path is taken; and OSError."""

    def clean(self) -> None:
        """Deletes the remains of a killed write."""
