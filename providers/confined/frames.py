"""How the daemon and the child process talk: through pipes, one frame there for a file, one frame back for its text.

A frame is a mark, the lengths of its two parts, a JSON object, and bytes (the file, or its text in UTF-8).
Promise: the lengths are checked before anything is read, so a child that a hostile file took over cannot fill
the daemon's memory.
"""

from __future__ import annotations

import json
import struct
from typing import Any

_START = struct.Struct("!4sIQ")
START = _START.size
"""Bytes with which a frame begins."""
MAX_HEAD = 1_000_000
"""Bytes of the JSON object."""
_MARK = b"mdp1"


class GarbageError(Exception):
    """What came is no frame, or is larger than agreed."""


def opening(head: dict[str, Any], body: int) -> bytes:
    """The frame but for its `body` bytes. Raises GarbageError if the head is too large."""
    encoded = json.dumps(head, ensure_ascii=False).encode()
    if len(encoded) > MAX_HEAD:
        raise GarbageError("the head is too large")
    return _START.pack(_MARK, len(encoded), body) + encoded


def lengths(start: bytes, *, most: int) -> tuple[int, int]:
    """Of the JSON object and the body. Raises GarbageError; `most`: bytes of a body."""
    if len(start) != START:
        raise GarbageError("no whole frame")
    mark, head, body = _START.unpack(start)
    if mark != _MARK or head > MAX_HEAD or body > most:
        raise GarbageError("no frame, or too large")
    return head, body


def head_of(encoded: bytes) -> dict[str, Any]:
    """Raises GarbageError."""
    try:
        head = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise GarbageError("no JSON") from error
    if not isinstance(head, dict):
        raise GarbageError("no JSON object")
    return head
