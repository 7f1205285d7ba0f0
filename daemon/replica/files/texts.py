"""What files say that were read, in little memory: a replica may have 100,000 of them."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from daemon.replica.folder import NO_SIGNATURE, SIGNATURE_BYTES, Signature

_TEXT, _ID, _CONFLICT, _COLLECTION = 1, 2, 4, 8
_DOCUMENT = _TEXT | _ID
_FLAGS = SIGNATURE_BYTES
_HASH = _FLAGS + 1
_IDS = _HASH + 32


@dataclass(frozen=True, slots=True)
class FileText:
    """A file that was read."""

    hash: bytes
    id: UUID | None
    """The document that it names."""
    conflict: UUID | None
    """The conflict that it names."""
    is_text: bool
    collection: UUID | None = None
    """The collection of entries that it names."""


class FileTexts(Mapping[str, FileText]):
    """Files by their paths, each with its signature when it was read. In memory each is one short row of bytes."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}

    def __getitem__(self, path: str) -> FileText:
        return _unpack(self._rows[path])

    def __contains__(self, path: object) -> bool:
        return path in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __delitem__(self, path: str) -> None:
        del self._rows[path]

    def put(self, path: str, known: FileText, signature: Signature = NO_SIGNATURE) -> None:
        """Adds a file, or replaces it."""
        self._rows[path] = _pack(known, signature)

    def copy(self, path: str, of: FileTexts) -> None:
        """Adds a file as it is there."""
        self._rows[path] = of._rows[path]

    def is_same(self, path: str, signature: Signature) -> bool:
        """Whether it is there with this signature."""
        row = self._rows.get(path)
        return row is not None and row[:SIGNATURE_BYTES] == signature

    def is_text(self, path: str) -> bool:
        """Of a file that is there."""
        return bool(self._rows[path][_FLAGS] & _TEXT)

    def names(self, path: str, document: UUID) -> bool:
        """Whether it is there, and is the own file of this document."""
        row = self._rows.get(path)
        return row is not None and row[_FLAGS] == _DOCUMENT and row[_IDS:] == document.bytes

    def has_hash(self, path: str, hashed: bytes) -> bool:
        """Whether it is there with these bytes."""
        row = self._rows.get(path)
        return row is not None and row[_HASH:_IDS] == hashed

    def others(self) -> list[str]:
        """The files that are not documents' own."""
        return [path for path, row in self._rows.items() if row[_FLAGS] != _DOCUMENT]

    def forget_all_but(self, files: Container[str], *, of: Iterable[str] | None = None) -> None:
        """Forgets those that are not among these. `of`: only these paths."""
        gone = [path for path in (self._rows if of is None else of) if path not in files]
        for path in gone:
            self._rows.pop(path, None)

    def below(self, folders: Collection[str]) -> list[str]:
        """The files in these folders, at any depth."""
        prefixes = tuple(f"{folder}/" for folder in folders)
        return [path for path in self._rows if path.startswith(prefixes)] if prefixes else []

    def naming(self, documents: Collection[UUID]) -> list[str]:
        """The files that name one of these documents."""
        ids = {document.bytes for document in documents}
        if not ids:
            return []
        return [
            path for path, row in self._rows.items() if row[_FLAGS] & _ID and row[_IDS : _IDS + 16] in ids
        ]


def _pack(known: FileText, signature: Signature) -> bytes:
    ids = ((_ID, known.id), (_CONFLICT, known.conflict), (_COLLECTION, known.collection))
    flags = _TEXT * known.is_text + sum(flag for flag, one in ids if one is not None)
    return b"".join(
        [signature, bytes([flags]), known.hash, *(one.bytes for _, one in ids if one is not None)]
    )


def _unpack(row: bytes) -> FileText:
    flags, at = row[_FLAGS], _IDS
    ids: list[UUID | None] = []
    for flag in (_ID, _CONFLICT, _COLLECTION):
        if flags & flag:
            ids.append(UUID(bytes=row[at : at + 16]))
            at += 16
        else:
            ids.append(None)
    return FileText(row[_HASH:_IDS], ids[0], ids[1], bool(flags & _TEXT), ids[2])
