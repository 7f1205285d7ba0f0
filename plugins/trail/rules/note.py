"""Signed notes and checkpoints as C2SP says (signed-note, tlog-checkpoint), signed with Ed25519.

Promise: a text is read only in the one form in which it is written, so no byte of it can change unseen.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ED25519 = b"\x01"
"""The kind of key, as signed notes number them."""
ORIGIN = "memoryd/"
MAX_BYTES = 4_000_000

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_NAME = re.compile(r"[^\s+\x00-\x1f\x7f]{1,500}")


class BadNote(Exception):
    """A note, checkpoint, key or proof that cannot be trusted; the message says why."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """A public key with the name of who signs: for the trail the origin of its database."""

    name: str
    key: bytes
    """32 bytes."""

    @property
    def key_id(self) -> bytes:
        """The four bytes by which a signature names its key."""
        return sha256(self.name.encode() + b"\n" + ED25519 + self.key).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encoded(ED25519 + self.key)}"

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Reads `name+key id+key`. Raises BadNote."""
        name, plus, rest = text.partition("+")
        given, plus, key = rest.partition("+")
        try:
            raw = decoded(key)
        except BadNote:
            raw = b""
        if not plus or _NAME.fullmatch(name) is None or len(raw) != 33 or raw[:1] != ED25519:
            raise BadNote("this is no public key of the form name+id+base64")
        found = cls(name, raw[1:])
        if given != found.key_id.hex():
            raise BadNote("the id in the public key does not suit its key")
        return found


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is signed: the size of a log and the root of its tree."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{encoded(self.root)}\n"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Raises BadNote."""
        lines = text.split("\n")
        if len(lines) != 4 or lines[3] or _NAME.fullmatch(lines[0]) is None:
            raise BadNote("this is no checkpoint of a trail")
        if _NUMBER.fullmatch(lines[1]) is None or len(root := decoded(lines[2])) != 32:
            raise BadNote("this is no checkpoint of a trail")
        return cls(lines[0], int(lines[1]), root)


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    key_id: bytes
    signature: bytes

    def line(self) -> str:
        return f"— {self.name} {encoded(self.key_id + self.signature)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A text with the signatures below it."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return self.text + "\n" + "".join(one.line() for one in self.signatures)

    @classmethod
    def parse(cls, whole: str) -> Note:
        """Raises BadNote."""
        text, gap, below = whole.rpartition("\n\n")
        if not gap or not below.endswith("\n") or len(whole) > MAX_BYTES:
            raise BadNote("this is no signed note")
        signatures = tuple(_signature(line) for line in below[:-1].split("\n"))
        note = cls(text + "\n", signatures)
        if str(note) != whole:
            raise BadNote("this is no signed note")
        return note

    def is_signed_by(self, verifier: Verifier) -> bool:
        """Whether this key has signed it. Raises BadNote where a signature of the key is wrong."""
        found = False
        for one in self.signatures:
            if (one.name, one.key_id) != (verifier.name, verifier.key_id):
                continue
            if found:
                raise BadNote("it is signed twice with the same key")
            try:
                Ed25519PublicKey.from_public_bytes(verifier.key).verify(one.signature, self.text.encode())
            except InvalidSignature:
                raise BadNote("its signature is wrong") from None
            found = True
        return found


def sign(checkpoint: Checkpoint, key: Ed25519PrivateKey) -> Note:
    """The checkpoint, signed in the name of its origin."""
    verifier = verifier_of(key, checkpoint.origin)
    text = checkpoint.text()
    signed = Signature(checkpoint.origin, verifier.key_id, key.sign(text.encode()))
    return Note(text, (signed,))


def verifier_of(key: Ed25519PrivateKey, origin: str) -> Verifier:
    return Verifier(origin, key.public_key().public_bytes_raw())


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decoded(text: str) -> bytes:
    """From base64, in the one form that `encoded` gives. Raises BadNote."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise BadNote("a line of it is no base64") from None
    if encoded(data) != text:
        raise BadNote("a line of it is no base64")
    return data


def _signature(line: str) -> Signature:
    parts = line.split(" ")
    if len(parts) != 3:
        raise BadNote("a line below the note is no signature")
    dash, name, signed = parts
    data = decoded(signed)
    if dash != "—" or _NAME.fullmatch(name) is None or len(data) <= 4:
        raise BadNote("a line below the note is no signature")
    return Signature(name, data[:4], data[4:])
