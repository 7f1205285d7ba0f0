"""A replica in a folder of Google Drive.

Promise: nothing outside the folder is read or written, and a shortcut is never followed. A file appears complete or not at
all; a repeated call makes no second file. memoryd moves deleted files to the trash, but deletes erased ones for good.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import PurePosixPath
from uuid import UUID

from plugins.replica.drive.api import JSON, MARKDOWN, Api, Node, checksum
from plugins.replica.drive.client import DriveError
from plugins.replica.drive.remote import Remote
from plugins.replica.folder import (
    Blind,
    FolderUnavailable,
    Listing,
    StaleFile,
    Wake,
    mark_of,
    marked,
    require_mark,
)
from plugins.replica.rules.document_file import MAX_BYTES
from plugins.replica.rules.paths import IDENTITY, folders_of_user, parts_of

SETTLE_SECONDS = 3.0
"""Some programs save by deleting a file and adding a new one, which Drive reports one after the other."""


class DriveFolder:
    """See `Folder`. One call runs at a time; others wait."""

    def __init__(self, remote: Remote, api: Api, *, poll_seconds: float) -> None:
        """`poll_seconds`: the pause between two queries for changes."""
        self.settle_seconds = SETTLE_SECONDS
        self._poll = poll_seconds
        self._remote = remote
        self._api = api
        self._last: tuple[str, bytes] | None = None
        """The last content that was read or written, by its checksum: it may be read again."""
        self._mark: tuple[str | None, str] | None = None
        """The checksum of the mark, and the replica that it names."""
        self._lock = threading.RLock()
        self._listing = Listing()
        self._ids: dict[str, str] = {}
        """The files of the last listing, with memoryd's own changes since."""
        self._making: dict[str, str] = {}

    def close(self) -> None:
        self._api.close()

    async def watch(
        self, wake: Wake, _blind: Blind, available: asyncio.Event, _unavailable: asyncio.Event
    ) -> None:
        while True:
            await available.wait()
            await asyncio.sleep(self._poll)
            try:
                changed = await asyncio.to_thread(self.changed)
            except FolderUnavailable:
                changed = True  # the pass says why
            if changed:
                wake()

    def changed(self) -> bool:
        """Whether Drive has changes since the last listing. Raises FolderUnavailable."""
        with self._lock, self._whole():
            if self._remote.is_listed:
                self._remote.refresh()
            return self._remote.is_new

    def reach(self) -> None:
        """Raises FolderUnavailable unless the folder exists and files can be added."""
        with self._lock, self._whole():
            self._remote.require_rights()

    def check(self, replica: UUID) -> None:
        with self._lock, self._whole():
            if not self._remote.is_listed:
                self._remote.root()
            elif self._remote.is_doubtful:
                self._remote.refresh()
            found = self._identity()
        require_mark(found, replica, where=f"The folder {self._remote.id} in Google Drive")

    def identify(self, replica: UUID) -> None:
        with self._lock, self._whole():
            if not self._remote.is_listed:
                self._remote.refresh()
            if self._identity() is None:
                self._remote.require_rights()
                self._create(IDENTITY, self._remote.id, mark_of(replica), kind=JSON)
        self.check(replica)

    def list(self) -> Listing:
        with self._lock, self._whole():
            self._remote.refresh()
            if self._remote.is_new:
                self._listing, self._ids = self._remote.tree.paths(is_young=self._remote.is_young)
                self._remote.is_new = False
            return self._listing

    def read(self, path: str) -> bytes:
        with self._lock, self._single():
            return self._content(self._node(path))

    def is_open_for_writing(self, path: str) -> bool | None:
        """See `Folder`. Drive shows complete files only."""
        return None

    def write(self, path: str, content: bytes, *, replaces: bytes | None) -> None:
        """See `Folder`. A save between the check of the content and the upload is overwritten."""
        with self._lock, self._single():
            name = parts_of(path)[-1]
            if replaces is not None:
                self._update(path, content, replaces)
                return
            self._require_none(path)
            self._ids[path] = self._create(name, self._made_folder(path), content, kind=MARKDOWN)

    def remove(self, path: str, *, replaces: bytes, for_good: bool = False) -> None:
        with self._lock, self._single():
            self._trash(self._required(path, replaces), path, for_good=for_good)
            self._remove_empty(path)

    def move(self, path: str, to: str, *, replaces: bytes) -> None:
        with self._lock, self._single():
            node, name = self._required(path, replaces), parts_of(to)[-1]
            self._require_none(to)
            parent = self._made_folder(to)
            moved = {} if parent == node.parent else {"to": parent, "of": node.parent}
            self._remote.record(self._api.change(node.id, {"name": name}, **moved))
            self._ids[to] = self._ids.pop(path)
            self._remove_empty(path)

    def clean(self) -> None:
        """See `Folder`. A killed upload leaves nothing behind."""

    def _identity(self) -> str | None:
        """The replica that the folder belongs to; None if it has no mark."""
        if self._remote.is_listed:
            inside = self._remote.tree.children(self._remote.id)
        else:
            inside = self._remote.inside(self._remote.id, name=IDENTITY)
        marks = [node for node in inside if node.name == IDENTITY and node.md5 and not node.trashed]
        if not marks:
            return None
        mark = min(marks, key=lambda node: (node.created, node.id))
        if self._mark is None or self._mark[0] != mark.md5:
            with self._single():
                self._mark = mark.md5, marked(self._content(mark))
        return self._mark[1]

    def _content(self, node: Node) -> bytes:
        """The bytes of a file. Raises DriveError; with ESTALE if they differ from the listing."""
        if node.size > MAX_BYTES:
            raise DriveError(errno.EFBIG, "The file is longer than a document can be.")
        if node.md5 is None:
            raise DriveError(errno.EINVAL, "It has no content of its own.")
        if self._last is None or self._last[0] != node.md5:
            self._last = node.md5, self._api.content(node)
        return self._last[1]

    def _node(self, path: str) -> Node:
        parts_of(path)
        file_id = self._ids.get(path)
        node = None if file_id is None else self._remote.tree.get(file_id)
        if node is None or node.is_folder:
            raise FileNotFoundError(errno.ENOENT, "no such file")
        return node

    def _required(self, path: str, content: bytes) -> Node:
        """The file as it is in Drive now. Raises StaleFile unless it has this content."""
        try:
            known = self._node(path)
        except FileNotFoundError:
            raise StaleFile from None
        node = self._api.get(known.id)
        if node.trashed or node.md5 is None:
            raise StaleFile
        found = node.sha256 or sha256(self._content(node)).digest()
        if found != content:
            raise StaleFile
        return node

    def _require_none(self, path: str) -> None:
        if path in self._ids or path in self._listing.unread:
            raise StaleFile

    def _update(self, path: str, content: bytes, replaces: bytes) -> None:
        for is_last in (False, True):
            node = self._required(path, replaces)
            try:
                made = self._api.update(node.id, content, kind=MARKDOWN)
            except DriveError as error:
                # A person may have saved it meanwhile: check it again before another upload.
                if is_last or not error.passes:
                    raise
            else:
                self._remote.record(made, content=content)
                self._last = checksum(content), content
                return

    def _create(self, name: str, parent: str, content: bytes, *, kind: str) -> str:
        """Makes a file; its id."""
        with self._new_id(f"{parent}/{name}") as file_id:
            node = self._api.create(name, parent, content, kind=kind, file_id=file_id)
        if node.md5 != checksum(content):
            self._remote.is_doubtful = True
            raise StaleFile
        self._take_new(node, parent, content)
        self._last = checksum(content), content
        return node.id

    def _made_folder(self, path: str) -> str:
        """The id of the folder of a path, which is made if it does not exist."""
        parent = self._remote.id
        for folder in reversed(PurePosixPath(path).parents[:-1]):
            inside = str(folder)
            found = self._ids.get(inside)
            if found is None:
                if inside in self._listing.unread:
                    raise OSError(errno.ELOOP, "a shortcut stands in place of a folder")
                with self._new_id(f"{parent}/{folder.name}/") as found:
                    node = self._api.create_folder(folder.name, parent, file_id=found)
                self._take_new(node, parent, None)
                self._ids[inside] = found
            if not self._remote.tree.is_folder(found):
                raise OSError(errno.ENOTDIR, "a file stands in place of a folder")
            parent = found
        return parent

    @contextmanager
    def _new_id(self, key: str) -> Iterator[str]:
        """The id for a new file at this place; the same id again if the result of the last attempt is unknown."""
        file_id = self._making.get(key) or self._api.new_id()
        self._making[key] = file_id
        try:
            yield file_id
        except DriveError as error:
            if not error.passes:
                del self._making[key]
            raise
        del self._making[key]

    def _take_new(self, node: Node, parent: str, content: bytes | None) -> None:
        """Records the new file, unless an earlier attempt made it and somebody has moved it since."""
        if node.parent != parent or node.trashed:
            self._remote.is_doubtful = True
            raise StaleFile
        self._remote.record(node, content=content)

    def _trash(self, node: Node, path: str, *, for_good: bool = False) -> None:
        try:
            if for_good:
                self._api.delete(node.id)
        except DriveError as error:
            if error.errno != errno.EACCES:
                raise
            for_good = False  # only a Manager of the shared drive may
        if not for_good:
            self._api.change(node.id, {"trashed": True})
        self._remote.drop(node)
        self._ids.pop(path, None)

    def _remove_empty(self, path: str) -> None:
        tree = self._remote.tree
        for parent in folders_of_user(path):
            file_id = self._ids.get(parent)
            node = None if file_id is None else tree.get(file_id)
            if node is None or tree.children(node.id) or any(True for _ in self._remote.inside(node.id)):
                return
            self._trash(node, parent)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """For calls about the whole folder: a failure makes the folder unavailable."""
        try:
            yield
        except DriveError as error:
            again = " It is tried again." if error.passes else ""
            raise FolderUnavailable(
                f"The folder {self._remote.id} in Google Drive cannot be used now. {error.reason}{again}"
            ) from None

    @contextmanager
    def _single(self) -> Iterator[None]:
        """For calls about one file: if it differs from the listing it is not deleted, and a new listing is due."""
        try:
            yield
        except DriveError as error:
            self._remote.is_doubtful |= error.is_missing or error.is_expired
            if error.errno == errno.EACCES and not self._may_add():
                # No other file can be written either.
                raise DriveError(errno.EROFS, error.reason) from None
            raise

    def _may_add(self) -> bool:
        try:
            return self._remote.root().may_add
        except (DriveError, FolderUnavailable):
            return True
