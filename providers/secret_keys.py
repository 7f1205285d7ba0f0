"""Keys for secret fields: HPKE (RFC 9180) to a public key, and a file with the private keys, the newest first.

Promise: no private key and no value is in an error, or is ever sent to the database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from providers.private_files import alone_in, read_private, write_private

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
MAX_FILE = 100_000
_END = b"-----END PRIVATE KEY-----"


class NotDecrypted(ValueError):
    """A value cannot be decrypted; the message says why."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What values are encrypted with."""

    raw: bytes

    @property
    def id(self) -> str:
        """The first 8 bytes of the SHA-256 of the raw key, in hex."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def encrypt(self, value: bytes, info: bytes) -> bytes:
        """The encapsulated key, followed by the ciphertext. Raises ValueError for bytes that are no key."""
        return SUITE.encrypt(value, X25519PublicKey.from_public_bytes(self.raw), info=info)


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """The private keys of a file, the newest first; one or more."""

    path: Path
    keys: tuple[X25519PrivateKey, ...] = field(repr=False)

    @property
    def newest(self) -> PublicKey:
        """What is encrypted with from now on."""
        return _public(self.keys[0])

    @property
    def ids(self) -> Sequence[str]:
        """The newest first."""
        return [_public(key).id for key in self.keys]

    def decrypt(self, key_id: str, ciphertext: bytes, info: bytes) -> bytes:
        """The value. Raises NotDecrypted."""
        for key in self.keys:
            if _public(key).id == key_id:
                with suppress(InvalidTag, ValueError):
                    return SUITE.decrypt(ciphertext, key, info=info)
                raise NotDecrypted(
                    "It cannot be decrypted: it was encrypted for another field or another user, or was changed."
                )
        raise NotDecrypted(f"It was encrypted with key {key_id}, which is not in {self.path}.")


def read_keys(path: Path) -> SecretKeys:
    """The keys of a file. Raises ValueError with what to do."""
    try:
        content = read_private(path, name=f"The key file {path}", max_bytes=MAX_FILE + 1)
    except OSError as error:
        raise ValueError(
            f"The key file {path} cannot be read: {error.strerror}. To make one: memoryd secrets new-key"
        ) from None
    if len(content) > MAX_FILE:
        raise ValueError(
            f"{path} is longer than {MAX_FILE:,} bytes. Remove keys that have encrypted no values."
        )
    keys = []
    *parts, rest = content.split(_END)
    # A key of which a part is missing, or of another kind: whoever wrote the others anew would lose it.
    if b"-----BEGIN" in rest:
        raise ValueError(
            f"{path} ends with what is no whole private key in PEM for X25519. Take it from your copy."
        )
    for part in parts:
        with suppress(ValueError, TypeError, UnsupportedAlgorithm):
            key = load_pem_private_key(part.strip() + b"\n" + _END + b"\n", password=None)
            if isinstance(key, X25519PrivateKey):
                keys.append(key)
                continue
        keys.clear()
        break
    if not keys:
        raise ValueError(
            f"{path} has no private keys in PEM for X25519. To make one: memoryd secrets new-key"
        )
    return SecretKeys(path, tuple(keys))


def add_key(path: Path) -> SecretKeys:
    """Makes a key, and writes it before those in the file, which may not be there yet. Raises OSError, ValueError."""
    made = X25519PrivateKey.generate()
    path = path.resolve()  # A link stays one, and who comes by another link waits for the same folder.
    with alone_in(path.parent):
        former = read_keys(path).keys if path.exists() else ()
        keys = SecretKeys(path, (made, *former))
        write_private(path, b"".join(_pem(key) for key in keys.keys), replace=bool(former))
    return keys


def _pem(key: X25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _public(key: X25519PrivateKey) -> PublicKey:
    return PublicKey(key.public_key().public_bytes_raw())
