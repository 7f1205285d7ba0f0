"""The calls of Drive v3 that the replica needs.

Promise: what Drive says of a file comes as a `Node`; each failure is a DriveError. An upload that breaks off never becomes a
file, and goes on where it was when it is a long one.
"""

from __future__ import annotations

import errno
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from daemon.replica.drive.faults import DriveError, misunderstood
from daemon.replica.drive.http import Answer, Http, Request

BASE_URL = "https://www.googleapis.com"
FOLDER = "application/vnd.google-apps.folder"
DOCUMENT = "application/vnd.google-apps.document"
MARKDOWN, JSON = "text/markdown", "application/json"
FIELDS = "id,name,mimeType,parents,driveId,trashed,md5Checksum,sha256Checksum,size,modifiedTime,createdTime,version"
PAGE_FILES = 1000
PARENTS_AT_ONCE = 50
"""Folders that are listed in one call."""
IDS_AT_ONCE = 100
RESUMABLE_BYTES = 5_000_000
"""Longer contents are sent in parts, so that one that breaks off can go on."""
PART_BYTES = 4 * 1024 * 1024
"""A multiple of 256 KiB, as Drive wants it."""
RESUMES = 5

ALL_DRIVES = {"supportsAllDrives": "true"}
IN_ALL_DRIVES = {**ALL_DRIVES, "includeItemsFromAllDrives": "true"}


@dataclass(frozen=True, slots=True)
class Node:
    """A file or folder, as Drive has it."""

    id: str
    name: str
    kind: str
    """Its MIME type."""
    parent: str | None
    trashed: bool
    md5: str | None
    """None: it has no content of its own, like a document of Google's."""
    sha256: bytes | None
    """None also where Drive does not know it."""
    size: int
    modified: datetime
    created: str
    version: int
    """Grows with each change."""
    drive: str | None
    """The shared drive that it is in."""
    may_add: bool = True
    """Of a folder that was asked for by itself: whether the account may add files."""

    @property
    def when(self) -> datetime:
        """When it was changed last. Whoever uploads a file may set any time: one before 1970 or after now is wrong."""
        return max(datetime.fromtimestamp(0, UTC), min(self.modified, datetime.now(UTC)))

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.kind == FOLDER


@dataclass(frozen=True, slots=True)
class Change:
    """That a file is another than before."""

    id: str
    node: Node | None
    """None: it is gone for this account."""


class Api:
    """Drive v3. Its methods block."""

    def __init__(
        self,
        http: Http,
        *,
        base_url: str | None = None,
        resumable_bytes: int = RESUMABLE_BYTES,
        part_bytes: int = PART_BYTES,
    ) -> None:
        base = (base_url or BASE_URL).rstrip("/")
        self._http = http
        self._base = base
        self._files = f"{base}/drive/v3/files"
        self._uploads = f"{base}/upload/drive/v3/files"
        self._changes = f"{base}/drive/v3/changes"
        self._resumable_bytes = resumable_bytes
        self._part_bytes = part_bytes
        self._ids: list[str] = []

    def close(self) -> None:
        """Ends the call that is running, and refuses all others."""
        self._http.close()

    def get(self, file_id: str) -> Node:
        """What Drive says of a file now."""
        asked = {**ALL_DRIVES, "fields": f"{FIELDS},capabilities/canAddChildren"}
        return _node(self._get(f"{self._files}/{file_id}", asked))

    def children(
        self, folders: Sequence[str], *, drive: str | None, name: str | None = None
    ) -> Iterator[Node]:
        """What is in these folders, and not in the trash; only what has this name, if one is given.

        Asked for several folders at once, Drive sometimes leaves some of them out, without a word: those of which nothing came
        are asked for one by one.
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
            "pageSize": str(PAGE_FILES),
            "q": f"({parents}){named} and trashed = false",
        }
        while True:
            page = self._get(self._files, asked)
            if page.get("incompleteSearch"):
                raise DriveError(errno.EIO, "Google Drive could not list the whole folder.", passes=True)
            yield from map(_node, _list(page, "files"))
            if not (following := page.get("nextPageToken")):
                return
            asked["pageToken"] = str(following)

    def start_token(self, drive: str | None) -> str:
        """The page token of the changes that come from now on."""
        page = self._get(f"{self._changes}/startPageToken", {**ALL_DRIVES, **_of_drive(drive)})
        return _text(page, "startPageToken")

    def changes(self, token: str, *, drive: str | None) -> tuple[list[Change], str | None, str | None]:
        """One page of changes: these, the token of the next page, or, after the last one, the token for the next time."""
        asked = {
            **IN_ALL_DRIVES,
            **_of_drive(drive),
            "pageToken": token,
            "pageSize": str(PAGE_FILES),
            "fields": f"nextPageToken,newStartPageToken,changes(fileId,removed,changeType,file({FIELDS}))",
        }
        page = self._get(self._changes, asked)
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
        """The bytes of a file."""
        asked = {**ALL_DRIVES, "alt": "media"}
        return self._http.call(
            Request("GET", f"{self._files}/{node.id}", asked, size=node.size, repeat=True)
        ).body

    def export(self, node: Node, kind: str, *, most: int) -> bytes:
        """A document of Google's in another format. `most`: bytes that it may have, for the time that it may take."""
        asked = {"mimeType": kind}
        return self._http.call(
            Request("GET", f"{self._files}/{node.id}/export", asked, size=most, repeat=True)
        ).body

    def new_id(self) -> str:
        """An id for a new file: with it, a call that is repeated makes no second file."""
        if not self._ids:
            page = self._get(f"{self._files}/generateIds", {"count": str(IDS_AT_ONCE), "space": "drive"})
            self._ids = [str(one) for one in _list(page, "ids")]
            if not self._ids:
                raise misunderstood()
        return self._ids.pop()

    def create_folder(self, name: str, parent: str, *, file_id: str) -> Node:
        """A new folder; the one of this id, if it was made before."""
        said = {"id": file_id, "name": name, "mimeType": FOLDER, "parents": [parent]}
        return self._made(file_id, lambda: self._send("POST", self._files, said, repeat=True))

    def create(self, name: str, parent: str, content: bytes, *, kind: str, file_id: str) -> Node:
        """A new file; the one of this id, if it was made before."""
        said = {"id": file_id, "name": name, "mimeType": kind, "parents": [parent]}
        return self._made(
            file_id, lambda: self._upload("POST", self._uploads, said, content, kind, repeat=True)
        )

    def update(self, file_id: str, content: bytes, *, kind: str) -> Node:
        """Gives a file another content."""
        return self._upload("PATCH", f"{self._uploads}/{file_id}", {}, content, kind, repeat=False)

    def change(
        self, file_id: str, said: Mapping[str, Any], *, to: str | None = None, of: str | None = None
    ) -> Node:
        """Gives a file another name, puts it in the trash, or moves it from one folder `of` to another one `to`."""
        moved = {} if to is None or of is None else {"addParents": to, "removeParents": of}
        return self._send("PATCH", f"{self._files}/{file_id}", said, moved, repeat=True)

    def delete(self, file_id: str) -> None:
        """Deletes a file for good."""
        self._http.call(Request("DELETE", f"{self._files}/{file_id}", ALL_DRIVES, also=(404,), repeat=True))

    def _get(self, url: str, params: Mapping[str, str]) -> dict[str, Any]:
        return self._http.call(Request("GET", url, params, repeat=True, parse=True)).json()

    def _send(
        self,
        method: str,
        url: str,
        said: Mapping[str, Any],
        moved: Mapping[str, str] | None = None,
        *,
        repeat: bool,
    ) -> Node:
        params = {**ALL_DRIVES, **(moved or {}), "fields": FIELDS}
        body, headers = json.dumps(said).encode(), {"Content-Type": JSON}
        answer = self._http.call(Request(method, url, params, body, headers, repeat=repeat, parse=True))
        return _node(answer.json())

    def _made(self, file_id: str, make: Any) -> Node:
        try:
            node: Node = make()
        except DriveError as error:
            if error.errno != errno.EEXIST:
                raise
            return self.get(file_id)
        return node

    def _upload(
        self, method: str, url: str, said: Mapping[str, Any], content: bytes, kind: str, *, repeat: bool
    ) -> Node:
        if len(content) > self._resumable_bytes:
            return self._upload_in_parts(method, url, said, content, kind)
        boundary = uuid.uuid4().hex
        head = (
            f"--{boundary}\r\nContent-Type: {JSON}; charset=UTF-8\r\n\r\n{json.dumps(said)}\r\n"
            f"--{boundary}\r\nContent-Type: {kind}\r\n\r\n"
        )
        answer = self._http.call(
            Request(
                method,
                url,
                params={**ALL_DRIVES, "uploadType": "multipart", "fields": FIELDS},
                body=head.encode() + content + f"\r\n--{boundary}--\r\n".encode(),
                headers={"Content-Type": f"multipart/related; boundary={boundary}"},
                repeat=repeat,
                parse=True,
            )
        )
        return _node(answer.json())

    def _upload_in_parts(
        self, method: str, url: str, said: Mapping[str, Any], content: bytes, kind: str
    ) -> Node:
        begun = self._http.call(
            Request(
                method,
                url,
                params={**ALL_DRIVES, "uploadType": "resumable", "fields": FIELDS},
                body=json.dumps(said).encode(),
                headers={
                    "Content-Type": f"{JSON}; charset=UTF-8",
                    "X-Upload-Content-Type": kind,
                    "X-Upload-Content-Length": str(len(content)),
                },
                repeat=True,
            )
        )
        session = begun.headers.get("Location", "")
        if not session.startswith(f"{self._base}/"):
            raise misunderstood()  # the account's token would go elsewhere
        sent, resumes = 0, 0
        while True:
            part = content[sent : sent + self._part_bytes]
            try:
                answer = self._put(session, part, f"bytes {sent}-{sent + len(part) - 1}/{len(content)}")
            except DriveError as error:
                resumes += 1
                if not (error.passes or error.is_expired or error.is_missing) or resumes > RESUMES:
                    raise
                answer = self._resume(session, len(content))
            if answer.status != 308:
                return _node(answer.json())
            sent = _received(answer)

    def _resume(self, session: str, length: int) -> Answer:
        """Asks how far an upload is."""
        try:
            return self._put(session, b"", f"bytes */{length}")
        except DriveError as error:
            if not (error.is_expired or error.is_missing):
                raise
            # Not the file is gone, but this attempt.
            raise DriveError(errno.EIO, "Google Drive has lost an upload.", passes=True) from None

    def _put(self, session: str, part: bytes, which: str) -> Answer:
        # Where it goes on is asked by a call that may be repeated; a part is not sent twice unseen.
        headers = {"Content-Range": which}
        return self._http.call(
            Request("PUT", session, body=part, headers=headers, also=(308,), repeat=not part)
        )


def _of_drive(drive: str | None) -> dict[str, str]:
    return {} if drive is None else {"driveId": drive}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _received(answer: Answer) -> int:
    """How many bytes Drive has of an upload."""
    said = answer.headers.get("Range")
    if said is None:
        return 0
    try:
        return int(said.rpartition("-")[2]) + 1
    except ValueError:
        raise misunderstood() from None


def _list(page: Mapping[str, Any], name: str) -> list[Any]:
    found = page.get(name, [])
    if not isinstance(found, list):
        raise misunderstood()
    return found


def _text(page: Mapping[str, Any], name: str) -> str:
    if not isinstance(found := page.get(name), str):
        raise misunderstood()
    return found


def _change(said: Mapping[str, Any]) -> Change:
    gone = said.get("removed") or "file" not in said
    return Change(_text(said, "fileId"), None if gone else _node(said["file"]))


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
