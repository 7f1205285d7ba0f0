"""Paths in the replica: safe names of files, and which paths are documents'.

Promise: a name has at most 255 bytes, is not hidden, is allowed on every usual file system, and differs from all others in more
than case. Whatever a title says, its path stays inside the replica.
"""

from __future__ import annotations

import errno
import re
import unicodedata
from collections.abc import Container, Iterator
from pathlib import PurePosixPath
from uuid import UUID

from memory.text import is_blank

SUFFIX = ".md"
ROOT = "documents"
USERS = "users"
UNTITLED = "untitled"
MAX_BYTES = 255
ROOM = 60
"""Bytes that stay free in a name: for a number, and for what a conflict adds."""
MAX_FOLDERS = 8
"""In folders: of a document that was in a drop folder."""
IDENTITY = ".memoryd-replica.json"
README, INDEX = "README.md", "Index.md"

_FORBIDDEN = re.compile(r'[<>:"/\\|?*]+')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def safe(name: str, *, otherwise: str = UNTITLED) -> str:
    """A text as the name of a file or folder, without suffix."""
    shown = "".join(
        " " if unicodedata.category(c) in _UNSEEN else c for c in unicodedata.normalize("NFC", name)
    )
    text = " ".join(_FORBIDDEN.sub("-", shown).split()).strip(". ")
    text = text.encode()[: MAX_BYTES - ROOM].decode(errors="ignore").strip(". ")
    if not text:
        return otherwise
    return f"{text}_" if _RESERVED.fullmatch(text) else text


_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def key(path: str) -> str:
    """Paths with the same key are the same on a file system that ignores case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def home_for(user: UUID, name: str | None) -> str:
    """The name of a user's folder: the id, and beside it the user's name, if it is known."""
    shown = safe(name or "", otherwise="")
    return f"{user} {shown}" if shown else str(user)


def path_for(
    title: str, source: str | None, home: str | None, *, taken: Container[str], folder: str | None = None
) -> str:
    """Where a document's file is put. `home`: the name of its user's folder, if it has a user.

    `taken`: the keys of paths that are in use. `folder`: where it was in the drop folder.
    """
    own = PurePosixPath(USERS, home) if home is not None else PurePosixPath()
    # Of a file that was named, the whole path is known: what is above it says nothing to those who read the replica.
    inside = [] if folder is None or folder.startswith("/") else folder.split("/")[:MAX_FOLDERS]
    parts = [safe(part) for part in inside]
    return free(own.joinpath(ROOT, safe(source or "", otherwise=ROOT), *parts), safe(title), taken=taken)


def conflict_path(path: str, when: str, *, taken: Container[str]) -> str:
    """Where the text of a conflict is put: beside the document's file. `when`: as in 2026-11-22 10.15."""
    own = PurePosixPath(path)
    added = f" (conflict, {when})"
    stem = own.stem.encode()[: MAX_BYTES - len(added) - 10].decode(errors="ignore").strip()
    return free(own.parent, stem + added, taken=taken)


def free(folder: PurePosixPath, stem: str, *, taken: Container[str], first: int = 1) -> str:
    """A path of this name that is not in use, by adding a number: `first`, or the next one. Of thousands some twenty are looked
    up.
    """

    def path(number: int) -> str:
        return str(folder / (f"{stem} {number}{SUFFIX}" if number > 1 else stem + SUFFIX))

    used, unused = first - 1, first
    while key(path(unused)) in taken:
        used, unused = unused, 2 * unused
    while unused - used > 1:
        middle = (used + unused) // 2
        if key(path(middle)) in taken:
            used = middle
        else:
            unused = middle
    return path(unused)


def parts_of(path: str) -> tuple[str, ...]:
    """The folders and the name of a path. Raises OSError where it leads out of the replica."""
    parts = PurePosixPath(path).parts
    if not parts or any(part in ("..", "/") for part in parts):
        raise OSError(errno.EPERM, "outside the replica")
    return parts


def folders_of_user(path: str) -> Iterator[str]:
    """The folders of its user that a file is in, inner ones first. Empty ones go: their names say who it was."""
    for parent in PurePosixPath(path).parents:
        if parent.parts[:1] != (USERS,) or len(parent.parts) < 2:
            return
        yield str(parent)


def is_document(path: str) -> bool:
    """Whether a file of this path is, or becomes, a document."""
    parts = PurePosixPath(path).parts
    return (
        path.lower().endswith(SUFFIX)
        and not any(part.startswith(".") for part in parts)
        and not is_memoryds_own(path)
    )


def is_memoryds_own(path: str) -> bool:
    """Whether memoryd writes this file about the others."""
    return key(path) in (key(README), key(INDEX))


def user_of(path: str) -> UUID | None:
    """Whose folder it is in; None: nobody's own. What stands behind the id is for people, who may change it."""
    parts = PurePosixPath(path).parts
    if len(parts) < 3 or parts[0] != USERS:
        return None
    try:
        return UUID(parts[1].partition(" ")[0])
    except ValueError:
        return None


def source_of(path: str) -> str | None:
    """The source that the folder of a new file names."""
    parts = PurePosixPath(path).parts
    parts = parts[2:] if user_of(path) is not None else parts
    if len(parts) > 2 and parts[0] == ROOT and parts[1] != ROOT:
        return parts[1]
    return None


def title_of(path: str) -> str:
    """The title of a new file that names none."""
    stem = PurePosixPath(path).stem.strip()
    return UNTITLED if is_blank(stem) else stem
