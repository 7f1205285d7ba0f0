"""The calls of Drive v3 that the replica needs.

Promise: Drive's data of a file is a `Node`; each failure is a DriveError. An interrupted upload never becomes a file.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from io import BytesIO
from typing import Any

from plugins.replica.drive.client import Client, DriveError, misunderstood

FOLDER = "application/vnd.google-apps.folder"
DOCUMENT = "application/vnd.google-apps.document"
MARKDOWN, JSON = "text/markdown", "application/json"
FIELDS = "id,name,mimeType,parents,driveId,trashed,md5Checksum,sha256Checksum,size,modifiedTime,createdTime,version"
PAGE_FILES = 1000
PARENTS_AT_ONCE = 50
"""Folders that are listed in one call."""
IDS_AT_ONCE = 100
RESUMABLE_BYTES = 5_000_000
"""Longer contents are sent in parts."""
PART_BYTES = 4 * 1024 * 1024
"""A multiple of 256 KiB, as Drive wants it."""

ALL_DRIVES = {"supportsAllDrives": True}
IN_ALL_DRIVES = {**ALL_DRIVES, "includeItemsFromAllDrives": True}


@dataclass(frozen=True, slots=True)
class Node:
    id: str
    name: str
    kind: str
    """Its MIME type."""
    parent: str | None
    trashed: bool
    md5: str | None
    """None: it has no content of its own, like a Google document."""
    sha256: bytes | None
    """None also where Drive does not know it."""
    size: int
    modified: datetime
    created: str
    version: int
    """Grows with each change."""
    drive: str | None
    """The shared drive of the file."""
    may_add: bool = True
    """For a folder that was requested by id: whether the account may add files."""

    @property
    def when(self) -> datetime:
        """The time of the last change. An uploader may set any time: one before 1970 or after now is wrong."""
        return max(datetime.fromtimestamp(0, UTC), min(self.modified, datetime.now(UTC)))

    @property
    def is_folder(self) -> bool:
        return self.kind == FOLDER


class Api:
    """Drive v3. Its methods block."""

    def __init__(
        self, client: Client, *, resumable_bytes: int = RESUMABLE_BYTES, part_bytes: int = PART_BYTES
    ) -> None:
        self._client = client
        self._resumable_bytes = resumable_bytes
        self._part_bytes = part_bytes
        self._ids: list[str] = []

    def close(self) -> None:
        self._client.close()

    def get(self, file_id: str) -> Node:
        asked = {"fileId": file_id, "fields": f"{FIELDS},capabilities/canAddChildren", **ALL_DRIVES}
        return _node(self._client.call(lambda drive: drive.files().get(**asked)))

    def children(
        self, folders: Sequence[str], *, drive: str | None, name: str | None = None
    ) -> Iterator[Node]:
        """The files in these folders that are not in the trash; with a name, only those of this name.

        A query for several folders sometimes lacks some of them, without an error: folders without a result are queried one
        by one.
        """
        for start in range(0, len(folders), PARENTS_AT_ONCE):
            some = folders[start : start + PARENTS_AT_ONCE]
            left = dict.fromkeys(some)
            for node in self._children(some, drive, name):
                left.pop(node.parent or "", None)
                yield node
            for folder in left if len(some) > 1 else ():
                yield from self._children([folder], drive, name)

    def _children(self, folders: Sequence[str], drive: str | None, name: str | None) -> Iterator[Node]:
        parents = " or ".join(f"{_quoted(folder)} in parents" for folder in folders)
        named = "" if name is None else f" and name = {_quoted(name)}"
        asked = {
            **IN_ALL_DRIVES,
            **({} if drive is None else {"corpora": "drive", "driveId": drive}),
            "fields": f"nextPageToken,incompleteSearch,files({FIELDS})",
            "pageSize": PAGE_FILES,
            "q": f"({parents}){named} and trashed = false",
        }
        while True:
            page = self._client.call(lambda resources: resources.files().list(**asked))
            if page.get("incompleteSearch"):
                raise DriveError(errno.EIO, "Google Drive could not list the whole folder.", passes=True)
            yield from map(_node, _list(page, "files"))
            if not (following := page.get("nextPageToken")):
                return
            asked["pageToken"] = following

    def start_token(self, drive: str | None) -> str:
        """The page token of the changes from now on."""
        asked = {**ALL_DRIVES, "driveId": drive}
        page = self._client.call(lambda resources: resources.changes().getStartPageToken(**asked))
        return _text(page, "startPageToken")

    def changes(
        self, token: str, *, drive: str | None
    ) -> tuple[list[tuple[str, Node | None]], str | None, str | None]:
        """One page of changes, the token of the next page, and after the last page the token of the next query.

        A change is the id of a file, and the file; None: the account cannot see it any more.
        """
        asked = {
            **IN_ALL_DRIVES,
            "driveId": drive,
            "pageToken": token,
            "pageSize": PAGE_FILES,
            "fields": f"nextPageToken,newStartPageToken,changes(fileId,removed,changeType,file({FIELDS}))",
        }
        page = self._client.call(lambda resources: resources.changes().list(**asked))
        following, last = page.get("nextPageToken"), page.get("newStartPageToken")
        if not (following or last):
            raise misunderstood()
        changes = [
            _change(one)
            for one in _list(page, "changes")
            if one.get("fileId") and one.get("changeType") != "drive"
        ]
        return changes, following, last

    def content(self, node: Node) -> bytes:
        """Raises DriveError; with ESTALE if it is another content than the node's."""
        found: bytes = self._client.call(
            lambda drive: drive.files().get_media(fileId=node.id, **ALL_DRIVES), of=bytes, size=node.size
        )
        if checksum(found) != node.md5:
            raise other_content()
        return found

    def export(self, node: Node, kind: str, *, most: int) -> bytes:
        """A Google document in another format. `most`: its largest size in bytes, which sets the time limit."""
        found: bytes = self._client.call(
            lambda drive: drive.files().export_media(fileId=node.id, mimeType=kind), of=bytes, size=most
        )
        return found

    def new_id(self) -> str:
        """An id for a new file: with it, a repeated call makes no second file."""
        if not self._ids:
            asked = {"count": IDS_AT_ONCE, "space": "drive"}
            page = self._client.call(lambda drive: drive.files().generateIds(**asked))
            self._ids = [str(one) for one in _list(page, "ids")]
            if not self._ids:
                raise misunderstood()
        return self._ids.pop()

    def create_folder(self, name: str, parent: str, *, file_id: str) -> Node:
        """A new folder, or the folder that an earlier call made with this id."""
        return self._made({"id": file_id, "name": name, "mimeType": FOLDER, "parents": [parent]})

    def create(self, name: str, parent: str, content: bytes, *, kind: str, file_id: str) -> Node:
        """A new file, or the file that an earlier call made with this id."""
        said = {"id": file_id, "name": name, "mimeType": kind, "parents": [parent]}
        return self._made(said, media_body=self._media(content, kind), size=len(content))

    def update(self, file_id: str, content: bytes, *, kind: str) -> Node:
        asked = {"fileId": file_id, "media_body": self._media(content, kind), "fields": FIELDS, **ALL_DRIVES}
        return _node(
            self._client.call(lambda drive: drive.files().update(**asked), size=len(content), repeat=False)
        )

    def change(
        self, file_id: str, said: Mapping[str, Any], *, to: str | None = None, of: str | None = None
    ) -> Node:
        """Renames a file, moves it to the trash, or moves it from the folder `of` to the folder `to`."""
        moved = {} if to is None or of is None else {"addParents": to, "removeParents": of}
        asked = {"fileId": file_id, "body": said, "fields": FIELDS, **moved, **ALL_DRIVES}
        return _node(self._client.call(lambda drive: drive.files().update(**asked)))

    def delete(self, file_id: str) -> None:
        try:
            self._client.call(lambda drive: drive.files().delete(fileId=file_id, **ALL_DRIVES), of=object)
        except DriveError as error:
            if not error.is_missing:
                raise

    def _made(self, said: Mapping[str, Any], *, size: int = 0, **more: Any) -> Node:
        asked = {"body": said, "fields": FIELDS, **more, **ALL_DRIVES}
        try:
            return _node(self._client.call(lambda drive: drive.files().create(**asked), size=size))
        except DriveError as error:
            if error.errno != errno.EEXIST:
                raise
            return self.get(said["id"])

    def _media(self, content: bytes, kind: str) -> Any:
        from googleapiclient.http import MediaIoBaseUpload

        class Media(MediaIoBaseUpload):  # type: ignore[misc]
            def has_stream(self) -> bool:
                return False  # a stream that was read is empty when httplib2 repeats the call after a broken connection

        is_long = len(content) > self._resumable_bytes
        return Media(BytesIO(content), kind, chunksize=self._part_bytes, resumable=is_long)


def checksum(content: bytes) -> str:
    return md5(content, usedforsecurity=False).hexdigest()


def other_content() -> DriveError:
    return DriveError(errno.ESTALE, "Google Drive sent another content than it told of.", passes=True)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _list(page: Mapping[str, Any], name: str) -> list[Any]:
    found = page.get(name, [])
    if not isinstance(found, list):
        raise misunderstood()
    return found


def _text(page: Mapping[str, Any], name: str) -> str:
    if not isinstance(found := page.get(name), str):
        raise misunderstood()
    return found


def _change(said: Mapping[str, Any]) -> tuple[str, Node | None]:
    gone = said.get("removed") or "file" not in said
    return _text(said, "fileId"), None if gone else _node(said["file"])


def _node(said: Any) -> Node:
    try:
        parents = said.get("parents") or [None]
        sha256, md5 = said.get("sha256Checksum"), said.get("md5Checksum")
        if md5 is not None:
            int(md5, 16)
        return Node(
            id=str(said["id"]),
            name=str(said["name"]),
            kind=str(said["mimeType"]),
            parent=parents[0],
            trashed=bool(said.get("trashed")),
            md5=md5,
            sha256=None if sha256 is None else bytes.fromhex(sha256),
            size=int(said.get("size", 0)),
            modified=datetime.fromisoformat(said["modifiedTime"]).astimezone(UTC),
            created=str(said["createdTime"]),
            version=int(said.get("version", 0)),
            drive=said.get("driveId"),
            may_add=bool(said.get("capabilities", {}).get("canAddChildren", True)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        raise misunderstood() from None
