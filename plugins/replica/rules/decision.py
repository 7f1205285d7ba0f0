"""The replica: what has to be done so that a document and its file become the same, decided by three hashes.

    base    what file and row had last, both
    theirs  what the file has: people write it
    ours    what the row has: agents write it

Promise: no text is lost. What one side changed goes to the other. What both changed is kept twice: the document takes the
person's text, and the other one is kept as a conflict. A change wins over a deletion.

Before that each file is matched with its document, by the id in the front matter and by known paths. Promise: a moved or
renamed file is followed. Of a copied file the one at the known path stays the document's, and the other one becomes a new
document. In a user's folder only that user's documents are known again: an id of another document gives nobody a way to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from uuid import UUID

from plugins.replica.rules.document_file import Text, plain
from plugins.replica.rules.paths import user_of


@dataclass(frozen=True, slots=True)
class Matches:
    moved: dict[UUID, str] = field(default_factory=dict)
    """Documents whose file has another path now."""
    known: dict[UUID, str] = field(default_factory=dict)
    """Of each document that has a file: its path."""
    new: list[str] = field(default_factory=list)
    """Files that are no document's yet."""


def match(
    files: Mapping[str, UUID | None], paths: Mapping[UUID, str], owners: Mapping[UUID, UUID | None]
) -> Matches:
    """`files`: the path of each file with the id that it names. `paths`: where each document's file was last.

    `owners`: the user, or None, of each document that is in `paths` or that a file names and that is in the database.
    """
    found = Matches()
    at = {path: document for document, path in paths.items()}
    unclaimed: list[str] = []
    for path in sorted(files):
        document = files[path]
        if document is not None and paths.get(document) == path:
            found.known[document] = path
        else:
            unclaimed.append(path)
    rest: list[str] = []
    for path in unclaimed:
        document = files[path]
        if document is None or document in found.known or not _may_be(path, document, owners):
            rest.append(path)
            continue
        found.known[document] = path
        if document in paths:
            found.moved[document] = path
    for path in rest:
        document = at.get(path)
        if document is None or document in found.known:
            found.new.append(path)
        else:
            found.known[document] = path
    return found


def _may_be(path: str, document: UUID, owners: Mapping[UUID, UUID | None]) -> bool:
    user = user_of(path)
    return document in owners and (user is None or owners[document] == user)


RECENT_SECONDS = 600.0
"""Deletions within this time count as one."""
MIN_ASKED = 10
SHARE_ASKED = 0.2
"""If more files than MIN_ASKED and than this share of all are missing at once, a person must confirm their deletion."""


class RowState(Enum):
    THERE = "there"
    DELETED = "deleted"
    """Deleted by its status, or without content. Its text can come back."""
    GONE = "gone"
    """There is no row: it was erased, or deleted for good."""


class Action(Enum):
    """The action for a document's own file."""

    NOTHING = "nothing"
    NOTE = "note"
    """Both are the same: note it as their base."""
    WRITE = "write"
    """The row's text goes into the file."""
    TAKE = "take"
    """The file's text goes into the row."""
    TAKE_BOTH = "take both"
    """The file's text goes into the row, and the row's text becomes a conflict."""
    LEAVE = "leave"
    """The file's text is ignored: a person may not write this document."""
    BURY = "bury"
    """A person deleted the file: the document is deleted, and can be restored for 30 days."""
    REMOVE = "remove"
    """The file is deleted, and its row in replica_files."""
    FORGET = "forget"
    """The file is gone: its row in replica_files is deleted."""


def decide(row: RowState, *, base: bytes | None, theirs: bytes | None, ours: bytes | None) -> Action:
    """The action. `base` is None if none was noted, `theirs` without a file, `ours` if the row has no text."""
    if theirs is None:
        return _without_file(row, base=base, ours=ours)
    if row is RowState.GONE:
        # Also a changed file is deleted: an erasure is complete.
        return Action.REMOVE if base is not None else Action.NOTHING
    if row is RowState.DELETED:
        if base is not None and theirs == base:
            return Action.REMOVE
        return Action.TAKE if ours in (None, base, theirs) else Action.TAKE_BOTH
    if theirs == ours:
        return Action.NOTHING if theirs == base else Action.NOTE
    if theirs == base:
        return Action.WRITE
    return Action.TAKE if ours in (None, base) else Action.TAKE_BOTH


DIGEST_BYTES = sha256().digest_size
NAMES_NONE, OVERTAKEN = b"", b"0"
"""What a file began from, where it does not say: the person has made it; and what follows what a later file began from: others
have written into the document since such a file was taken, which a program may have open still."""


def is_old(began: bytes, *, base: bytes | None, before: bytes | None, row: Text | None) -> bool:
    """Whether a person saved an old copy of a file, and so has seen an earlier text than `base`.

    `began`: what the file says that it began from. `before`: what was noted of the file that was taken last, if no agent has
    changed the document since: then a program saves again what it has open. `row`: the document, which has the text of `base`.
    """
    if base is None or began in (base, before):
        return False
    if began == NAMES_NONE:
        return _is_overtaken(before)
    if before == began + OVERTAKEN:
        return False
    # Earlier versions of memoryd told the hash of the text alone.
    return row is None or began != sha256(plain(row.body).encode()).digest()


def began_of(began: bytes, *, before: bytes | None) -> bytes:
    """The value of `before` when a person's file that began from `began` is taken."""
    is_open_still = before == NAMES_NONE or _is_overtaken(before)
    return began + OVERTAKEN if began != NAMES_NONE and is_open_still else began


def began_from(base: bytes | None, before: bytes | None, *, now: bytes) -> bytes | None:
    """The value of `before` when memoryd wrote a file with the text `now`."""
    if base == now:
        return before
    return OVERTAKEN if before == NAMES_NONE or _is_overtaken(before) else None


def _is_overtaken(before: bytes | None) -> bool:
    # By its length: a digest may end with the same byte.
    return before is not None and len(before) in (len(OVERTAKEN), DIGEST_BYTES + len(OVERTAKEN))


def _without_file(row: RowState, *, base: bytes | None, ours: bytes | None) -> Action:
    if row is not RowState.THERE:
        return Action.FORGET if base is not None else Action.NOTHING
    return Action.BURY if base is not None and base == ours else Action.WRITE


def ask_first(gone: int, *, of: int) -> bool:
    """Whether a person must confirm the deletion of `gone` of `of` files."""
    return gone > MIN_ASKED and gone > SHARE_ASKED * of
