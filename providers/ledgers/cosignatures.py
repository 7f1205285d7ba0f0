"""Cosignatures of witnesses (C2SP tlog-cosignature, version 1, Ed25519): reading a witness's key, and verifying what it signed.

`verify_cosignature` needs no network: `memoryd verify` calls it with what is kept.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from binascii import Error as Base64Error
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

COSIGNATURE = b"\x04"
"""The kind of key that a vkey begins with."""
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 4 + 8 + 64
"""The key's id, the time, the signature."""


@dataclass(frozen=True, slots=True)
class WitnessKey:
    """The name and public key of a witness."""

    name: str
    id: bytes
    public: bytes

    @classmethod
    def read(cls, text: str) -> WitnessKey:
        """From a vkey: the name, the id in hex and the key in base64, with a plus between. Raises ValueError."""
        parts = text.strip().split("+", 2)
        if len(parts) != 3:
            raise ValueError("it is no vkey: that is <name>+<id>+<key>")
        name, identity, encoded = parts
        try:
            key = b64decode(encoded, validate=True)
        except (Base64Error, ValueError):
            raise ValueError("its key is not base64") from None
        if not name or any(one.isspace() for one in name):
            raise ValueError("it has no name")
        if key[:1] != COSIGNATURE or len(key) != 1 + PUBLIC_KEY_BYTES:
            raise ValueError("it is not the key of a witness with Ed25519 (kind 4)")
        expected = hashlib.sha256(name.encode() + b"\n" + key).digest()[:4]
        if identity.lower() != expected.hex():
            raise ValueError("its id is not that of its name and key: it was not copied whole")
        return cls(name, expected, key[1:])


def verify_cosignature(line: bytes, note: bytes, key: WitnessKey) -> int:
    """When the witness signed, in seconds since 1970. `note` is the signed checkpoint.

    Raises ValueError, with what is wrong with the line.
    """
    prefix = f"\N{EM DASH} {key.name} ".encode()
    if not line.startswith(prefix) or not line.endswith(b"\n") or line.count(b"\n") != 1:
        raise ValueError("it is not a signature line of this witness")
    try:
        content = b64decode(line[len(prefix) : -1], validate=True)
    except (Base64Error, ValueError):
        raise ValueError("it is not base64") from None
    if len(content) != SIGNATURE_BYTES or content[:4] != key.id:
        raise ValueError("it is not of this key")
    time = int.from_bytes(content[4:12], "big")
    signed = b"cosignature/v1\ntime %d\n" % time + text_of(note)
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(content[12:], signed)
    except InvalidSignature:
        raise ValueError("the signature is not of this checkpoint") from None
    return time


def find_cosignature(lines: bytes, note: bytes, key: WitnessKey) -> tuple[bytes, int]:
    """The line that is this witness's, among those of others and of other keys, and its time. Raises ValueError."""
    wrong = "there is no signature of this witness"
    for line in lines.splitlines(keepends=True):
        try:
            return line, verify_cosignature(line, note, key)
        except ValueError as error:
            if key.name.encode() in line:
                wrong = str(error)
    raise ValueError(wrong)


def text_of(note: bytes) -> bytes:
    """What is signed of a note: all before the empty line. Raises ValueError."""
    text, separator, _ = note.rpartition(b"\n\n")
    if not separator:
        raise ValueError("it is no signed note")
    return text + b"\n"


def size_of(note: bytes) -> int:
    """The number of leaves that a checkpoint names. Raises ValueError."""
    lines = text_of(note).split(b"\n")
    if len(lines) < 4 or not lines[1].isdigit() or (lines[1] != b"0" and lines[1].startswith(b"0")):
        raise ValueError("it is no checkpoint")
    return int(lines[1])
