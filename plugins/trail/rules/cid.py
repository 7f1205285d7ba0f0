"""Content identifiers: CIDv1 of raw bytes with SHA-256, in base32, as IPFS names what it keeps."""

from __future__ import annotations

import base64
from hashlib import sha256

_PREFIX = bytes([1, 0x55, 0x12, 0x20])
"""Version 1, raw bytes, SHA-256, of 32 bytes."""


def cid_of_hash(content_hash: bytes) -> str:
    """The CID of the bytes whose SHA-256 this is."""
    if len(content_hash) != 32:
        raise ValueError("a SHA-256 has 32 bytes")
    return "b" + base64.b32encode(_PREFIX + content_hash).decode().lower().rstrip("=")


def cid_of(content: bytes) -> str:
    """The CID of these bytes."""
    return cid_of_hash(sha256(content).digest())
