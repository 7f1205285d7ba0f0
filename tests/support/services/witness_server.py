"""A witness (C2SP tlog-witness) on a local port, and a small log to give it.

The witness verifies what a witness has to verify: the log's key, the size that it saw last, and the proof (RFC 9162, 2.1.4.2).
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tests.support.services.played_server import Asked, PlayedServer, Reply

ORIGIN = "memoryd/test"
NAME = "witness.example/one"
TIME = 1_795_000_000


class Log:
    """A log of leaves, which signs checkpoints."""

    def __init__(self, leaves: Sequence[bytes], *, key: Ed25519PrivateKey | None = None) -> None:
        self.leaves = list(leaves)
        self.key = key or Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)

    def root(self, size: int) -> bytes:
        """The root of the first leaves."""
        return _root(self.leaves[:size])

    def checkpoint(self, size: int) -> bytes:
        """The signed note."""
        text = f"{ORIGIN}\n{size}\n{b64encode(self.root(size)).decode()}\n".encode()
        return text + b"\n" + _line(ORIGIN, b"\x01", self.key, self.key.sign(text))

    async def consistency(self, old: int, new: int) -> list[bytes]:
        """The proof (RFC 6962, 2.1.2)."""
        if new > len(self.leaves):
            raise LookupError
        return _subproof(old, self.leaves[:new], True)


class WitnessServer(PlayedServer):
    """The witness."""

    def __init__(self, log_key: Ed25519PublicKey, *, key: Ed25519PrivateKey | None = None) -> None:
        super().__init__()
        self.key = key or Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
        self.vkey = vkey(NAME, self.key)
        self.log_key = log_key
        self.seen: tuple[int, bytes] = (0, b"")
        """Size and root of what it signed last."""
        self.origins = {ORIGIN}

    def answer(self, asked: Asked) -> Reply:
        """Answer add-checkpoint."""
        if (asked.method, asked.path) != ("POST", "/log/add-checkpoint"):
            return Reply(b"", 404)
        head, note = asked.body.split(b"\n\n", 1)
        first, *hashes = head.split(b"\n")
        old = int(first.removeprefix(b"old "))
        text, signatures = note.split(b"\n\n")
        origin, size_text, root_text = text.decode().split("\n")
        if origin not in self.origins:
            return Reply(b"", 404)
        try:
            signature = b64decode(signatures.strip().rsplit(b" ", 1)[1])[4:]
            self.log_key.verify(signature, text + b"\n")
        except InvalidSignature:
            return Reply(b"", 403)
        size, root = int(size_text), b64decode(root_text)
        if old > size:
            return Reply(b"", 400)
        if old != self.seen[0] or (old == size and root != self.seen[1] and old):
            return Reply(b"%d\n" % self.seen[0], 409, "text/x.tlog.size")
        if 0 < old < size and not _holds(old, size, self.seen[1], root, [b64decode(one) for one in hashes]):
            return Reply(b"", 422)
        self.seen = (size, root)
        return Reply(self.cosign(text + b"\n"))

    def cosign(self, text: bytes, *, key: Ed25519PrivateKey | None = None, name: str = NAME) -> bytes:
        """A signature line of version 1."""
        signer = key or self.key
        signature = signer.sign(b"cosignature/v1\ntime %d\n" % TIME + text)
        return _line(name, b"\x04", signer, TIME.to_bytes(8, "big") + signature)


def vkey(name: str, key: Ed25519PrivateKey, *, kind: bytes = b"\x04") -> str:
    """The public key as settings have it."""
    public = kind + key.public_key().public_bytes_raw()
    return f"{name}+{_id(name, public).hex()}+{b64encode(public).decode()}"


def _id(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + public).digest()[:4]


def _line(name: str, kind: bytes, key: Ed25519PrivateKey, signature: bytes) -> bytes:
    identity = _id(name, kind + key.public_key().public_bytes_raw())
    return f"\N{EM DASH} {name} {b64encode(identity + signature).decode()}\n".encode()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _split(size: int) -> int:
    return int(1 << ((size - 1).bit_length() - 1))


def _root(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    middle = _split(len(leaves))
    return _node(_root(leaves[:middle]), _root(leaves[middle:]))


def _subproof(old: int, leaves: Sequence[bytes], whole: bool) -> list[bytes]:
    if old == len(leaves):
        return [] if whole else [_root(leaves)]
    middle = _split(len(leaves))
    if old <= middle:
        return [*_subproof(old, leaves[:middle], whole), _root(leaves[middle:])]
    return [*_subproof(old - middle, leaves[middle:], False), _root(leaves[:middle])]


def _holds(old: int, new: int, old_root: bytes, new_root: bytes, proof: list[bytes]) -> bool:
    path = [old_root, *proof] if old & (old - 1) == 0 else proof
    if not path:
        return False
    first, second = old - 1, new - 1
    while first & 1:
        first, second = first >> 1, second >> 1
    old_seen = new_seen = path[0]
    for one in path[1:]:
        if second == 0:
            return False
        if first & 1 or first == second:
            old_seen, new_seen = _node(one, old_seen), _node(one, new_seen)
            while first and not first & 1:
                first, second = first >> 1, second >> 1
        else:
            new_seen = _node(new_seen, one)
        first, second = first >> 1, second >> 1
    return (old_seen, new_seen, second) == (old_root, new_root, 0)
