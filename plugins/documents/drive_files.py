"""The files of a drop folder in Google Drive: their list, their content, and where they are moved.

Promise: nothing outside the folder is read or changed; shortcuts are not followed. A repeated call makes no second file or
folder. A download is used only if it is the content that Drive announced.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from plugins.files.local import MAX_BYTES, File, LocalFiles, UnreadableFileError
from plugins.replica.drive.api import DOCUMENT, MARKDOWN, Api, Node, checksum, other_content
from plugins.replica.drive.client import DriveError

TAKEN, REJECTED = "taken", "rejected"
REASON = ".why.txt"
TEXT = "text/plain"
OF_GOOGLE = "application/vnd.google-apps."
EXPORTED_BYTES = 10_000_000
"""The most bytes that Drive exports of a document of Google."""
DEEPEST = 20
"""The maximum depth of folders."""


@dataclass(frozen=True, slots=True)
class DroppedFile:
    node: Node
    path: Path
    """The folder's id, and the names of the folders and of the file; no path of this machine."""

    @property
    def is_googles(self) -> bool:
        """Whether it is a document of Google, which may be open in a browser and change letter by letter."""
        return self.node.kind.startswith(OF_GOOGLE)


class DriveFiles:
    """See `Source`. Its methods block, and raise DriveError. One call at a time; the others wait."""

    def __init__(self, api: Api, folder_id: str, *, leave_out: str | None) -> None:
        """`leave_out`: the id of a folder that is never read: the replica."""
        self.id = folder_id
        self._api = api
        self._leave_out = leave_out
        self._lock = threading.Lock()
        self._drive: str | None = None
        self._folders: dict[str, str] = {}
        self._making: dict[str, str] = {}
        self._known: dict[Path, DroppedFile] = {}
        self._content: tuple[Node, bytes] | None = None
        """The content of the last download: two callers ask for it."""

    def close(self) -> None:
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
        """The files in the folder, the oldest first, without hidden ones and those in `taken` and `rejected`."""
        with self._lock:
            self._folders, self._known = {}, {}
            for one in sorted(self._below(), key=lambda one: (one.node.created, one.node.id)):
                # Of two files with one name, the later one is taken after the first is moved, as a new edition.
                self._known.setdefault(one.path, one)
            return list(self._known.values())

    def look_at(self, path: Path) -> File:
        with self._lock:
            one = self._known[path]
            if (digest := one.node.sha256) is None:
                digest = sha256(self._bytes(one)).digest()
            return File(path, one.node.when, digest)

    def read(self, path: Path) -> tuple[bytes, File]:
        with self._lock:
            one = self._known[path]
            content = self._bytes(one)
            return content, File(path, one.node.when, sha256(content).digest())

    def is_there(self, name: str) -> bool:
        """See `Source`. A file that was taken does not exist any more."""
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
            raise UnreadableFileError("Google Drive has no content of this file. Put a copy here.")
        if node.size > MAX_BYTES:
            raise UnreadableFileError(
                f"It has {node.size:,} bytes, the limit is {MAX_BYTES:,}. Split it, or take out pictures."
            )
        try:
            return self._api.content(node)
        except DriveError as error:
            raise _refusal(error, "The account may not download this file.") from None

    def _export(self, node: Node) -> bytes:
        if node.kind != DOCUMENT:
            raise UnreadableFileError(
                "It is a shortcut, or a file of Google that is not a text document. Download it as PDF, DOCX or XLSX, and put "
                "that file here."
            )
        try:
            content = self._api.export(node, MARKDOWN, most=EXPORTED_BYTES)
        except DriveError as error:
            reason = "Google Drive does not export it: it has more than 10 MB, or may not be downloaded."
            raise _refusal(error, reason) from None
        if self._api.get(node.id).version != node.version:
            raise other_content()
        return content

    def _folder_id(self, name: str) -> str:
        """The id of `taken` or `rejected`, which is made if missing."""
        if (found := self._folders.get(name)) is None:
            # A listing may not have a new folder yet; the same id makes no second folder.
            self._making[name] = self._making.get(name) or self._api.new_id()
            made = self._api.create_folder(name, self.id, file_id=self._making[name])
            if made.trashed or made.parent != self.id:
                del self._making[name]
                raise DriveError(errno.EIO, "A folder that memoryd made was moved or deleted.", passes=True)
            found = self._folders[name] = made.id
        return found

    def _write_reason(self, folder: str, name: str, content: bytes) -> None:
        """Writes the note, unless a daemon that was killed has already written it."""
        there = self._api.children([folder], drive=self._drive, name=name)
        if not any(node.md5 == checksum(content) for node in there):
            self._api.create(name, folder, content, kind=TEXT, file_id=self._api.new_id())

    def _require_outside(self) -> None:
        """Raises DriveError if the folder is in the replica: its files would become documents twice."""
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
                return  # the account cannot see more


def _name(node: Node) -> str:
    name = node.name.replace("/", "-").replace("\0", "-").encode("utf-8", "replace").decode() or "-"
    return f"{name}.md" if node.kind == DOCUMENT else name


def _refusal(error: DriveError, reason: str) -> Exception:
    """Drive refuses only this file; its person gets the reason."""
    return UnreadableFileError(f"{reason} Put a copy here.") if error.errno == errno.EACCES else error


def _unusable(reason: str) -> DriveError:
    return DriveError(errno.EACCES, f"The drop folder in Google Drive cannot be used. {reason}")
