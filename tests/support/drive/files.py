"""A Google Drive in memory: files with ids, a trash, a list of changes. People's hands on it, by paths; server.py speaks
Drive v3 for it.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from typing import Any

FOLDER = "application/vnd.google-apps.folder"
SHORTCUT = "application/vnd.google-apps.shortcut"
DOCUMENT = "application/vnd.google-apps.document"
ROOT = "root-of-the-replica"
OUTSIDE = "a-folder-outside"


@dataclass
class File:
    """A file or folder."""

    id: str
    name: str
    kind: str
    parent: str | None
    created: datetime
    content: bytes | None = None
    trashed: bool = False
    modified: datetime = field(default_factory=lambda: datetime.now(UTC))
    version: int = 1
    saves: int = 0


class Drive:
    """What the account sees: the folder that is shared with it, and all that is below."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: dict[str, File] = {}
        self.log: list[str] = []
        self.oldest = 0
        """Tokens before this one are too old."""
        self.shared_drive: str | None = "a-shared-drive"
        """Where all of it is. None: in a person's own drive."""
        self.is_member = True
        """Whether the account is a member of the shared drive."""
        self.is_shared = True
        self.read_only = False
        self.may_delete = True
        self.tells_hashes = True
        self.not_listed_yet: set[str] = set()
        """What a listing does not show, while a change tells of it."""
        self.left_out_of_groups: set[str] = set()
        """Folders of which a listing of several folders shows nothing."""
        self.written: dict[str, str] = {}
        """What documents of Google's say, by their ids."""
        self._numbers = 0
        self._clock = datetime.now(UTC) - timedelta(hours=1)
        for one, name in ((ROOT, "Memory"), (OUTSIDE, "Outside")):
            self.files[one] = File(one, name, FOLDER, None, self._now())

    # --- people's hands

    def add(
        self, path: str, content: str | bytes = "", *, kind: str = "text/markdown", under: str = ROOT
    ) -> str:
        """A new file, even where one of this name is; its id. Folders are made."""
        with self.lock:
            folder, _, name = path.rpartition("/")
            parent = self.folder(folder, under=under)
            data = None if kind.startswith("application/vnd.") else _bytes(content)
            return self.create(self.new_id(), name, kind, parent, data).id

    def folder(self, path: str, *, under: str = ROOT) -> str:
        """The folder of a path, made where there is none."""
        parent = under
        for name in [part for part in path.split("/") if part]:
            found = [one for one in self.children(parent) if one.name == name and one.kind == FOLDER]
            parent = (found[0] if found else self.create(self.new_id(), name, FOLDER, parent, None)).id
        return parent

    def write(self, path: str, content: str | bytes) -> None:
        """Gives a file another content."""
        self.save(self.at(path).id, _bytes(content))

    def text(self, path: str) -> str:
        """What a file says."""
        content = self.at(path).content
        assert content is not None
        return content.decode()

    def move(self, path: str, to: str, *, under: str = ROOT) -> None:
        """Moves or renames a file or folder."""
        with self.lock:
            folder, _, name = to.rpartition("/")
            self.change(self.at(path).id, name=name, parent=self.folder(folder, under=under))

    def trash(self, path: str) -> str:
        """Puts a file or folder into the trash; its id."""
        found = self.at(path).id
        self.change(found, trashed=True)
        return found

    def at(self, path: str) -> File:
        """The file of a path."""
        with self.lock:
            return next(one for shown, one in self.tree() if shown == path)

    def paths(self) -> list[str]:
        """The paths of all files that are no folders and not hidden, in order."""
        return sorted(
            path for path, one in self.tree() if one.kind != FOLDER and not one.name.startswith(".")
        )

    def tree(self, parent: str = ROOT, prefix: str = "") -> list[tuple[str, File]]:
        """All that is not in the trash, with its path."""
        with self.lock:
            found: list[tuple[str, File]] = []
            for one in self.children(parent):
                found += [(prefix + one.name, one), *self.tree(one.id, f"{prefix}{one.name}/")]
            return found

    def expire_tokens(self) -> None:
        """All page tokens so far are too old."""
        with self.lock:
            self.log.append(OUTSIDE)
            self.oldest = len(self.log)

    def unshare(self) -> None:
        """Takes the folder from the account."""
        with self.lock:
            self.is_shared = False
            # The folder itself comes last.
            self.log += [one for one in self.files if one not in (ROOT, OUTSIDE)] + [ROOT]

    def share(self) -> None:
        """Gives it back."""
        with self.lock:
            self.is_shared = True
            self.log += [one for one in self.files if one != OUTSIDE]

    # --- what the server does

    def new_id(self) -> str:
        """An id that no file has."""
        with self.lock:
            self._numbers += 1
            return f"file-{self._numbers:05}"

    def children(self, parent: str) -> list[File]:
        """What is in a folder and not in the trash."""
        with self.lock:
            return [one for one in self.files.values() if one.parent == parent and not one.trashed]

    def create(self, file_id: str, name: str, kind: str, parent: str, content: bytes | None) -> File:
        """A new file."""
        with self.lock:
            made = self.files[file_id] = File(file_id, name, kind, parent, self._now(), content)
            self.log.append(file_id)
            return made

    def save(self, file_id: str, content: bytes) -> File:
        """Gives a file another content."""
        with self.lock:
            one = self.files[file_id]
            one.content, one.modified, one.saves = content, datetime.now(UTC), one.saves + 1
            return self._changed(one)

    def change(
        self, file_id: str, *, name: str | None = None, parent: str | None = None, trashed: bool | None = None
    ) -> File:
        """Changes what is known of a file."""
        with self.lock:
            one = self.files[file_id]
            one.name = one.name if name is None else name
            one.parent = one.parent if parent is None else parent
            one.trashed = one.trashed if trashed is None else trashed
            return self._changed(one)

    def delete(self, file_id: str) -> None:
        """Deletes a file, or a folder with what is in it, for good."""
        with self.lock:
            for child in [one.id for one in self.files.values() if one.parent == file_id]:
                self.delete(child)
            del self.files[file_id]
            self.log.append(file_id)

    def visible(self, file_id: str) -> File | None:
        """A file that the account may see: one below the shared folder, or in the one outside."""
        with self.lock:
            one = found = self.files.get(file_id)
            while one is not None and one.id not in (ROOT, OUTSIDE):
                one = self.files.get(one.parent or "")
            return found if one is not None and self.is_shared else None

    def is_in_trash(self, one: File) -> bool:
        """Whether it, or a folder that it is in, was put into the trash."""
        while True:
            if one.trashed:
                return True
            if one.parent is None or one.parent not in self.files:
                return False
            one = self.files[one.parent]

    def resource(self, one: File) -> dict[str, Any]:
        """What Drive says of a file."""
        said: dict[str, Any] = {
            "id": one.id,
            "name": one.name,
            "mimeType": one.kind,
            "trashed": self.is_in_trash(one),
            "modifiedTime": _time(one.modified),
            "createdTime": _time(one.created),
            "version": str(one.version),
            "capabilities": {"canAddChildren": not self.read_only},
        }
        if self.shared_drive is not None:
            said["driveId"] = self.shared_drive
        if one.parent is not None:
            said["parents"] = [one.parent]
        if one.content is not None:
            said["size"] = str(len(one.content))
            said["md5Checksum"] = hashlib.md5(one.content).hexdigest()
            if self.tells_hashes:
                said["sha256Checksum"] = hashlib.sha256(one.content).hexdigest()
        return said

    def _changed(self, one: File) -> File:
        one.version += 1
        self.log.append(one.id)
        return one

    def _now(self) -> datetime:
        """A time of its own for each file that is made."""
        self._clock += timedelta(milliseconds=1)
        return self._clock


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def _time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


class DrivePath:
    """A path of the folder in Drive, with those methods of a Path that a person's hands need."""

    def __init__(self, drive: Drive, path: str = "") -> None:
        self._drive = drive
        self._path = path

    def __truediv__(self, name: str) -> DrivePath:
        return DrivePath(self._drive, f"{self._path}/{name}".strip("/"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DrivePath) and other._path == self._path

    def __hash__(self) -> int:
        return hash(self._path)

    @property
    def parent(self) -> DrivePath:
        """The folder that it is in."""
        return DrivePath(self._drive, self._path.rpartition("/")[0])

    def mkdir(self, *, parents: bool, exist_ok: bool) -> None:
        """Makes the folder."""
        assert parents
        assert exist_ok
        self._drive.folder(self._path)

    def with_suffix(self, suffix: str) -> DrivePath:
        """Beside it, with another suffix."""
        return DrivePath(self._drive, self._path.rpartition(".")[0] + suffix)

    def exists(self) -> bool:
        """Whether there is such a file."""
        return any(path == self._path for path, _ in self._drive.tree())

    def read_bytes(self) -> bytes:
        """What is in it."""
        return self._drive.at(self._path).content or b""

    def read_text(self, _encoding: str = "utf-8") -> str:
        """What it says."""
        return self._drive.text(self._path)

    def write_text(self, text: str) -> None:
        """Gives it this text."""
        self.write_bytes(text.encode())

    def write_bytes(self, content: bytes) -> None:
        """Gives it this content."""
        if self.exists():
            self._drive.write(self._path, content)
        else:
            self._drive.add(self._path, content)

    def rename(self, to: DrivePath) -> None:
        """Moves it; what is there goes into the trash."""
        if to.exists() and to != self:
            to.unlink()
        self._drive.move(self._path, to._path)

    def unlink(self) -> None:
        """Puts it into the trash."""
        self._drive.trash(self._path)

    def rglob(self, pattern: str) -> list[str]:
        """The paths of files of such a name."""
        return [path for path, one in self._drive.tree() if fnmatch(one.name, pattern)]
