"""Encrypted values of secret metadata fields, as they are written: `{"encrypted": "1.<id of the key>.<base64url>"}`.

Promise: pure. docs/secrets.md describes the form, for programs in other languages.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from uuid import UUID

VERSION = "1"
SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM"
MAX_BYTES = 700_000
"""Of a value: encrypted it must fit into the 1,048,576 bytes of a row's metadata."""
FIELD = re.compile(r"[a-z][a-z0-9_-]{0,62}")

_FORM = re.compile(r"1\.([0-9a-f]{16})\.([A-Za-z0-9_-]{64,})")


@dataclass(frozen=True, slots=True)
class Encrypted:
    """An encrypted value: the id of the key, and the encapsulated key followed by the ciphertext."""

    key_id: str
    ciphertext: bytes

    def as_json(self) -> dict[str, str]:
        """What is written into the metadata."""
        return {"encrypted": f"{VERSION}.{self.key_id}.{base64url(self.ciphertext)}"}


def read_encrypted(text: str) -> Encrypted | None:
    """The value in a JSON object, or in its string alone; None for anything else."""
    try:
        given = json.loads(text)
    except ValueError:
        given = text.strip()
    if isinstance(given, dict) and given.keys() == {"encrypted"}:
        given = given["encrypted"]
    found = _FORM.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        return None
    try:
        ciphertext = from_base64url(found[2])
    except ValueError:
        return None
    return Encrypted(found[1], ciphertext)


def binding(field: str, user: UUID | None) -> bytes:
    """What a value is bound to (HPKE's `info`): it can be decrypted as this field of this user's rows only."""
    return f"memoryd/secret/1\n{field.lower()}\n{user or 'none'}".encode()


def base64url(data: bytes) -> str:
    """Without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes. Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
