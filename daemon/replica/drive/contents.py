"""The contents of files in Google Drive. A few are kept, since a pass may ask for the same one twice."""

from __future__ import annotations

import errno
from collections import OrderedDict
from hashlib import md5

from daemon.replica.drive.api import Api, Node
from daemon.replica.drive.faults import DriveError
from memory.replica.document_file import MAX_BYTES

KEPT_BYTES = 16_000_000


class Contents:
    """Downloads."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def of(self, node: Node) -> bytes:
        """The bytes of a file, which are those that Drive told of. Raises DriveError, with ESTALE when they are others."""
        if node.size > MAX_BYTES:
            raise DriveError(errno.EFBIG, "The file is longer than a document can be.")
        if node.md5 is None:
            raise DriveError(errno.EINVAL, "It has no content of its own.")
        content = self._kept.get(node.md5)
        if content is None:
            content = self._api.content(node)
            if checksum(content) != node.md5:
                raise DriveError(
                    errno.ESTALE, "Google Drive sent another content than it told of.", passes=True
                )
        self._keep(node.md5, content)
        return content

    def keep(self, content: bytes) -> None:
        """Keeps what was just uploaded."""
        self._keep(checksum(content), content)

    def _keep(self, key: str, content: bytes) -> None:
        if key not in self._kept:
            self._kept[key] = content
            self._bytes += len(content)
        self._kept.move_to_end(key)
        while self._bytes > KEPT_BYTES:
            self._bytes -= len(self._kept.popitem(last=False)[1])


def checksum(content: bytes) -> str:
    """What Drive tells files' contents apart by."""
    return md5(content, usedforsecurity=False).hexdigest()
