"""Matches files with documents, by the id in the front matter and by known paths.

Promise: a file that was moved or renamed is followed. Of a copied file the one at the known path stays the document's, and the
other one becomes a new document. In a user's folder only that user's documents are known again: an id of somebody else's
document gives nobody a way to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from plugins.replica.rules.paths import user_of


@dataclass(frozen=True, slots=True)
class Matches:
    """The result: each file with its document."""

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
