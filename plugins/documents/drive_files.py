"""The files of a drop folder in Google Drive: which there are, what is in them, and where they go.

Promise: nothing outside the folder is read or changed; a shortcut is not followed. A call that is repeated makes no second file
or folder. What is downloaded is what Drive told of, or it is not used.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from daemon.local_files import MAX_BYTES, File, LocalFiles
from plugins.replica.drive.api import DOCUMENT, MARKDOWN, Api, Node, checksum
from plugins.replica.drive.faults import DriveError
from providers.ports import Unreadable

TAKEN, REJECTED = "taken", "rejected"
REASON = ".why.txt"
TEXT = "text/plain"
OF_GOOGLE = "application/vnd.google-apps."
EXPORTED_BYTES = 10_000_000
"""Drive exports no more of a document of Google's."""
DEEPEST = 20
"""Folders in folders."""


@dataclass(frozen=True, slots=True)
class DroppedFile:
    """A file in the drop folder."""

    node: Node
    path: Path
    """The folder's id, and the names of the folders and of the file; nothing of this machine."""

    @property
    def is_googles(self) -> bool:
        """Whether it is a document of Google's, which may be open in a browser and changes letter by letter."""
        return self.node.kind.startswith(OF_GOOGLE)


class DriveFiles:
    """See `Source`. Its methods block, and raise DriveError. One call at a time; the others wait."""

    def __init__(self, api: Api, folder_id: str, *, leave_out: str | None) -> None:
        """`leave_out`: the id of a folder that is never looked into: the replica."""
        self.id = folder_id
        self._api = api
        self._leave_out = leave_out
        self._lock = threading.Lock()
        self._drive: str | None = None
        self._folders: dict[str, str] = {}
        self._making: dict[str, str] = {}
        self._known: dict[Path, DroppedFile] = {}
        self._content: tuple[Node, bytes] | None = None
        """Of the file that was downloaded last: it is asked for twice."""

    def close(self) -> None:
        """Ends the call that is running, and refuses all others."""
        self._api.close()

    def check(self) -> None:
        """Raises DriveError, with what to do, unless files can be taken from the folder."""
        with self._lock:
            try:
                root = self._api.get(self.id)
            except DriveError as error:
                if not error.is_missing:
                    raise
                reason = "This account sees no such folder. Make it a member of the shared drive."
                raise _unusable(reason) from None
            if root.trashed or not root.is_folder:
                raise _unusable("It is in the trash, or no folder.")
            if not root.may_add:
                raise _unusable("The account may only read it. Give it the role Content manager.")
            self._drive = root.drive
            self._require_outside()

    def find(self) -> list[DroppedFile]:
        """The files in the folder, the oldest first. What is in `taken` and `rejected`, and what is hidden, is left out."""
        with self._lock:
            self._folders, self._known = {}, {}
            for one in sorted(self._below(), key=lambda one: (one.node.created, one.node.id)):
                # Of two with the same name the later one is taken when the first one is away, as a new edition.
                self._known.setdefault(one.path, one)
            return list(self._known.values())

    def look_at(self, path: Path) -> File:
        """See `Source`."""
        with self._lock:
            one = self._known[path]
            if (digest := one.node.sha256) is None:
                digest = sha256(self._bytes(one)).digest()
            return File(path, one.node.when, digest)

    def read(self, path: Path) -> tuple[bytes, File]:
        """See `Source`."""
        with self._lock:
            one = self._known[path]
            content = self._bytes(one)
            return content, File(path, one.node.when, sha256(content).digest())

    def is_there(self, name: str) -> bool:
        """See `Source`. What was taken is there no more."""
        return Path(name) in self._known if name.startswith("gdrive:") else LocalFiles.is_there(name)

    def take_away(self, one: DroppedFile, *, why: str | None) -> None:
        """Moves a file to `taken`, or, with the reason beside it, to `rejected`."""
        with self._lock:
            self._content = None
            now = self._api.get(one.node.id)
            if now.trashed or now.parent != one.node.parent:
                return  # a person has taken it back
            to = self._folder_id(TAKEN if why is None else REJECTED)
            if why is not None:
                self._write_reason(to, f"{one.node.name[:200]}{REASON}", f"{why}\n".encode())
            self._api.change(one.node.id, {}, to=to, of=one.node.parent)
            self._known.pop(one.path, None)

    def _below(self) -> Iterator[DroppedFile]:
        folders = {self.id: Path(f"gdrive:{self.id}")}
        for _ in range(DEEPEST):
            inside: dict[str, Path] = {}
            for node in self._api.children(list(folders), drive=self._drive) if folders else ():
                above = folders.get(node.parent or "")
                if above is None or node.trashed or node.name.startswith(".") or node.id == self._leave_out:
                    continue
                if not node.is_folder:
                    yield DroppedFile(node, above / _name(node))
                elif node.parent == self.id and node.name in (TAKEN, REJECTED):
                    self._folders.setdefault(node.name, node.id)
                else:
                    inside[node.id] = above / _name(node)
            folders = inside

    def _bytes(self, one: DroppedFile) -> bytes:
        node = one.node
        if self._content is None or self._content[0] != node:
            self._content = None
            self._content = node, self._export(node) if one.is_googles else self._download(node)
        return self._content[1]

    def _download(self, node: Node) -> bytes:
        if node.md5 is None:
            raise Unreadable("Google Drive has no content of it. Put a copy here.")
        if node.size > MAX_BYTES:
            raise Unreadable(
                f"It has {node.size:,} bytes, the limit is {MAX_BYTES:,}. Split it, or take out pictures."
            )
        try:
            content = self._api.content(node)
        except DriveError as error:
            raise _refusal(error, "Google Drive does not let the account download it.") from None
        if checksum(content) != node.md5:
            raise _other_content()
        return content

    def _export(self, node: Node) -> bytes:
        if node.kind != DOCUMENT:
            raise Unreadable(
                "It is a file of Google's that is no text document, or a shortcut. Download it as PDF, DOCX or XLSX, and put "
                "that file here."
            )
        try:
            content = self._api.export(node, MARKDOWN, most=EXPORTED_BYTES)
        except DriveError as error:
            reason = "Google Drive does not export it: it has more than 10 MB, or may not be downloaded."
            raise _refusal(error, reason) from None
        if self._api.get(node.id).version != node.version:
            raise _other_content()
        return content

    def _folder_id(self, name: str) -> str:
        """The id of `taken` or `rejected`; it is made where there is none."""
        if (found := self._folders.get(name)) is None:
            # A listing may not have it yet though it was made: the same id makes no second one.
            self._making[name] = self._making.get(name) or self._api.new_id()
            made = self._api.create_folder(name, self.id, file_id=self._making[name])
            if made.trashed or made.parent != self.id:
                del self._making[name]
                raise DriveError(errno.EIO, "A folder that memoryd made was moved or deleted.", passes=True)
            found = self._folders[name] = made.id
        return found

    def _write_reason(self, folder: str, name: str, content: bytes) -> None:
        """Writes it, unless a daemon that was killed had written it."""
        there = self._api.children([folder], drive=self._drive, name=name)
        if not any(node.md5 == checksum(content) for node in there):
            self._api.create(name, folder, content, kind=TEXT, file_id=self._api.new_id())

    def _require_outside(self) -> None:
        """Raises DriveError where the folder is in the replica: its files would be documents twice."""
        above: str | None = self.id
        for _ in range(DEEPEST if self._leave_out is not None else 0):
            if above == self._leave_out:
                raise _unusable("It is in the replica. Use a folder beside it.")
            if above is None:
                return
            try:
                above = self._api.get(above).parent
            except DriveError as error:
                if not error.is_missing:
                    raise
                return  # the account sees no further


def _name(node: Node) -> str:
    name = node.name.replace("/", "-").replace("\0", "-").encode("utf-8", "replace").decode() or "-"
    return f"{name}.md" if node.kind == DOCUMENT else name


def _refusal(error: DriveError, reason: str) -> Exception:
    """What Drive refuses of this file alone: its person is told."""
    return Unreadable(f"{reason} Put a copy here.") if error.errno == errno.EACCES else error


def _unusable(reason: str) -> DriveError:
    return DriveError(errno.EACCES, f"The drop folder in Google Drive cannot be used. {reason}")


def _other_content() -> DriveError:
    return DriveError(errno.ESTALE, "Google Drive sent another content than it told of.", passes=True)
