"""A proof that one anchor is in the trail, as a text that is verified without a database (C2SP tlog-proof).

Its line `extra` has the content of the leaf: `{"leaf": hex}`, and, if the row may be shown, the row and the salt of its leaf.
Promise: an accepted proof changes in no byte, except in signatures of keys that were not given.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plugins.trail.rules import canonical
from plugins.trail.rules.merkle import leaf_hash, root_from_inclusion
from plugins.trail.rules.note import BadNote, Checkpoint, Note, Verifier, decoded, encoded

HEADER = "c2sp.org/tlog-proof@v1"
MAX_BYTES = 20_000_000
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,17})")
_HEX = re.compile(r"[0-9a-f]{64}")


def leaf_of(row: str, salt: bytes) -> bytes:
    """The leaf of a row: HMAC-SHA256 of its canonical text under its salt."""
    return hmac.digest(salt, row.encode(), "sha256")


@dataclass(frozen=True, slots=True)
class Proof:
    """The content of a proof. It has both `row` and `salt`, or neither."""

    index: int
    path: Sequence[bytes]
    note: Note
    leaf: bytes
    row: str | None = None
    salt: bytes | None = None

    def __str__(self) -> str:
        extra: dict[str, Any] = {"leaf": self.leaf.hex()}
        if self.row is not None and self.salt is not None:
            extra |= {"row": self.row, "salt": self.salt.hex()}
        said = encoded(canonical.write(extra).encode())
        hashes = "".join(encoded(one) + "\n" for one in self.path)
        return f"{HEADER}\nextra {said}\nindex {self.index}\n{hashes}\n{self.note}"

    @classmethod
    def parse(cls, text: str) -> Proof:
        """Raises BadNote."""
        head, gap, note = text.partition("\n\n")
        lines = head.split("\n")
        if len(text) > MAX_BYTES or not gap or len(lines) < 3 or lines[0] != HEADER:
            raise BadNote("this is no proof of memoryd's trail")
        if not lines[1].startswith("extra ") or (index := _INDEX.fullmatch(lines[2])) is None:
            raise BadNote("this is no proof of memoryd's trail")
        leaf, row, salt = _extra(decoded(lines[1].removeprefix("extra ")))
        path = [decoded(line) for line in lines[3:]]
        if any(len(one) != 32 for one in path):
            raise BadNote("a hash of it has not 32 bytes")
        found = cls(int(index[1]), path, Note.parse(note), leaf, row, salt)
        if str(found) != text:
            raise BadNote("it is not written as memoryd writes proofs")
        return found


@dataclass(frozen=True, slots=True)
class ProofResult:
    checkpoint: Checkpoint
    index: int
    row: Any
    """The row, as JSON; None if the proof does not have it."""
    unchecked: int
    """Signatures below the checkpoint that belong to none of the given keys."""


def check(proof: Proof, keys: Sequence[Verifier]) -> ProofResult:
    """Checks a proof with the public keys of one database. Raises BadNote, which says what is wrong."""
    checkpoint = Checkpoint.parse(proof.note.text)
    if all(key.name != checkpoint.origin for key in keys):
        raise BadNote(f"its checkpoint is of another database, {checkpoint.origin}")
    signed = [key for key in keys if key.name == checkpoint.origin and proof.note.is_signed_by(key)]
    if not signed:
        raise BadNote("its checkpoint is signed with none of the given keys")
    root = root_from_inclusion(leaf_hash(proof.leaf), proof.index, checkpoint.size, proof.path)
    if root != checkpoint.root:
        raise BadNote("its hashes do not lead to the root of its checkpoint")
    row = None
    if proof.row is not None and proof.salt is not None:
        if leaf_of(proof.row, proof.salt) != proof.leaf:
            raise BadNote("its row is not the one that was anchored")
        try:
            row = canonical.read(proof.row)
        except ValueError:
            raise BadNote("its row is not in the canonical form") from None
    return ProofResult(checkpoint, proof.index, row, len(proof.note.signatures) - len(signed))


def _extra(said: bytes) -> tuple[bytes, str | None, bytes | None]:
    wrong = BadNote("its line 'extra' is not memoryd's")
    try:
        extra = canonical.read(said.decode())
    except ValueError:
        raise wrong from None
    if not isinstance(extra, dict) or set(extra) not in ({"leaf"}, {"leaf", "row", "salt"}):
        raise wrong
    if not all(type(said) is str for said in extra.values()):
        raise wrong
    if any(_HEX.fullmatch(extra[name]) is None for name in set(extra) - {"row"}):
        raise wrong
    salt = extra.get("salt")
    return bytes.fromhex(extra["leaf"]), extra.get("row"), None if salt is None else bytes.fromhex(salt)
