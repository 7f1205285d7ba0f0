"""Secret fields: values encrypted by HPKE (RFC 9180) to a public key, and the file with the private keys, the newest first.

Promise: no error contains a private key or a value, and neither is ever sent to the database. docs/secrets.md describes the
form, `{"encrypted": "1.<id of the key>.<base64url>"}`, for programs in other languages.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from providers.regular_files import read_private, write_private

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
SUITE_NAME = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM"
MAX_BYTES = 700_000
"""The maximum of a value, which must fit encrypted into the 1,048,576 bytes of a row's metadata."""
MAX_FILE = 100_000

_FORM = re.compile(r"1\.([0-9a-f]{16})\.([A-Za-z0-9_-]{64,})")
_END = b"-----END PRIVATE KEY-----"


class DecryptionError(ValueError):
    """These keys cannot decrypt the value."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The key that encrypts values."""

    raw: bytes

    @property
    def id(self) -> str:
        """The first 8 bytes of the SHA-256 of the raw key, in hex."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def encrypt(self, value: bytes, *, field: str, user: UUID | None) -> dict[str, str]:
        """The JSON for the metadata. Raises ValueError if the bytes are not a key."""
        made = SUITE.encrypt(value, X25519PublicKey.from_public_bytes(self.raw), info=_binding(field, user))
        return {"encrypted": f"1.{self.id}.{base64url(made)}"}


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """The private keys of a file, the newest first; one or more."""

    path: Path
    keys: tuple[X25519PrivateKey, ...] = field(repr=False)

    @property
    def ids(self) -> list[str]:
        """Newest first."""
        return [_public(key).id for key in self.keys]

    @property
    def newest(self) -> PublicKey:
        """The key for new values."""
        return _public(self.keys[0])

    def decrypt(self, given: str, *, field: str, user: UUID | None) -> bytes:
        """The value in a JSON object, or in its string alone. Raises DecryptionError."""
        found = read_encrypted(given)
        if found is None:
            raise DecryptionError('It is not an encrypted value: {"encrypted": "1.<key>.<base64url>"}.')
        key_id, ciphertext = found
        for key in self.keys:
            if _public(key).id == key_id:
                with suppress(InvalidTag, ValueError):
                    return SUITE.decrypt(ciphertext, key, info=_binding(field, user))
                raise DecryptionError(
                    "It cannot be decrypted: it was encrypted for another field or another user, or was changed."
                )
        raise DecryptionError(f"It was encrypted with key {key_id}, which is not in {self.path}.")


def read_encrypted(text: str) -> tuple[str, bytes] | None:
    """The id of the key, and the encapsulated key followed by the ciphertext; None if the form is another."""
    try:
        given = json.loads(text)
    except ValueError:
        given = text.strip()
    if isinstance(given, dict) and given.keys() == {"encrypted"}:
        given = given["encrypted"]
    found = _FORM.fullmatch(given) if isinstance(given, str) else None
    with suppress(ValueError):
        return None if found is None else (found[1], from_base64url(found[2]))
    return None


def read_keys(path: Path) -> SecretKeys:
    """The keys of a file. Raises ValueError with what to do."""
    try:
        content = read_private(path, name=f"The key file {path}", max_bytes=MAX_FILE + 1)
    except OSError as error:
        raise ValueError(
            f"The key file {path} cannot be read: {error.strerror}. To make one: memoryd secrets new-key"
        ) from None
    *parts, rest = content.split(_END)
    try:
        keys = [serialization.load_pem_private_key(part.strip() + b"\n" + _END, None) for part in parts]
    except (ValueError, TypeError, UnsupportedAlgorithm):
        keys = []
    found = tuple(key for key in keys if isinstance(key, X25519PrivateKey))
    # A key is incomplete, or of another kind: rewriting the file would lose it.
    if not found or len(found) < len(parts) or b"-----BEGIN" in rest or len(content) > MAX_FILE:
        raise ValueError(
            f"{path} must have at most {MAX_FILE:,} bytes, and only whole private keys in PEM for X25519. Restore it from "
            "your copy, or make one: memoryd secrets new-key"
        )
    return SecretKeys(path, found)


def add_key(path: Path) -> SecretKeys:
    """Makes a key, and writes it before the other keys into the file, which is made if missing. Raises OSError, ValueError."""
    made = X25519PrivateKey.generate()
    path = path.resolve()  # A link stays a link; processes that use another link wait for the same folder.
    with _alone_in(path.parent):
        former = read_keys(path).keys if path.exists() else ()
        pem, no_password = serialization.Encoding.PEM, serialization.NoEncryption()
        content = [
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, no_password) for key in (made, *former)
        ]
        write_private(path, b"".join(content), replace=bool(former))
    return SecretKeys(path, (made, *former))


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Locks this folder: waits for other processes, and makes them wait. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def base64url(data: bytes) -> str:
    """Without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes. Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _binding(field: str, user: UUID | None) -> bytes:
    """HPKE's `info`, which binds a value: it can be decrypted only as this field of this user's rows."""
    return f"memoryd/secret/1\n{field.lower()}\n{user or 'none'}".encode()


def _public(key: X25519PrivateKey) -> PublicKey:
    return PublicKey(key.public_key().public_bytes_raw())
