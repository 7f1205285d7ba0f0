"""README.md and Index.md in the root: rewritten when their content changes, or when somebody wrote into them.

Promise: a person's own file with such a name is not overwritten. It gets another name and becomes a document. The same
documents give the same text. Documents of users are not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from hashlib import sha256
from itertools import groupby
from pathlib import PurePosixPath
from urllib.parse import quote

from plugins.replica.folder import Folder, Signature
from plugins.replica.pass_state import PassState, Writer
from plugins.replica.rules.document_file import one_line
from plugins.replica.rules.paths import INDEX, README, free, is_memoryds_own, key
from plugins.replica.store.documents import Store

KEPT = "kept by memoryd"
"""In the first lines of both: so memoryd knows them from a person's own."""
README_TEXT = f"""\
# Documents

This folder is {KEPT}. Each file is a document that agents search and change. [Index](Index.md) lists them. Files in
`knowledge`, `agents`, and `memories.md` and `insights.md` in `users` are different: see below.

- **Edit** a file, and the agents know it within seconds. The title is in the first lines, between the lines `---`. Leave `id`
  as it is.
- **Add** a file whose name ends in `.md`, and it becomes a document.
- **Move or rename** a file as you like.
- **Delete** a file, and the document is deleted. `memoryd replica undelete ID` brings it back, for 30 days.
- A file with **(conflict, ...)** in its name: an agent changed the document while you did. Yours is in the file without it.
  Its first lines say what to do.

# What is remembered

`knowledge/core.md`, `agents/NAME/memories.md`, `users/ID NAME/memories.md` and the files beside them have many entries. Each
entry is a section: a line that begins with `##`, a line with its id, and its text.

- **Edit** the text of a section, and the agents know it within seconds. Leave the line with the id as it is.
- **Add** a section, a line `## Title` with text below it, and it becomes an entry. memoryd adds the line with the id.
- **Delete** a section with its heading, and the entry is deleted. `memoryd replica undelete ID` brings it back, for 30 days.
- **Move** a section into another file of the same kind, and the entry belongs to that agent, or has that tier.
- A section with **(conflict, ...)** in its heading: an agent changed the entry while you did. Yours is the section above. The
  line below the heading says what to do.
- Within a text, write headings with three `#` or more. Text above the first section is kept, but is no entry.

README.md and Index.md are written by memoryd; what you write into them is lost. Your own file of such a name
gets another one, such as `README 2.md`. Hidden files and links are left alone.
"""


def index(documents: Iterable[tuple[str, str]], collections: Iterable[tuple[str, str]] = ()) -> str:
    """The Index: of each document's own file, and of each file of entries, the path and its title."""
    lines = [f"# Index\n\nThis list is {KEPT}.\n"]
    files = sorted((str(PurePosixPath(path).parent), one_line(title), path) for path, title in documents)
    for folder, group in groupby(files, key=lambda one: one[0]):
        lines.append(f"## {_shown(folder) if folder != '.' else 'Not in a folder'}\n")
        lines += [*(_line(title, path) for _, title, path in group), ""]
    if entries := sorted(collections):
        lines += ["## What is remembered\n", *(_line(title, path) for path, title in entries), ""]
    return "\n".join([*lines, *([] if files else ["There are no documents.\n"])])


def is_kept(content: bytes) -> bool:
    """Whether memoryd may write over this README.md or Index.md: it is its own, or says nothing."""
    return KEPT.encode() in content[:200] or not content.strip()


def _line(title: str, path: str) -> str:
    return f"- [{_shown(title)}](<{quote(path)}>)"


def _shown(text: str) -> str:
    """Words that Markdown shows as they are."""
    return "".join("\\" + c if c in "\\`*_[]<>#|~&" else c for c in text)


class Index:
    def __init__(self, store: Store, folder: Folder, writer: Writer) -> None:
        self._store = store
        self._folder = folder
        self._writer = writer
        self._stale = True
        self._seen: dict[str, Signature] = {}

    async def run(self, state: PassState) -> None:
        """Compares both files with their content, and writes those that differ."""
        now = {path: entry.signature for path, entry in state.listing.files.items() if is_memoryds_own(path)}
        self._stale |= any(state.report.counts.values()) or now != self._seen
        if not self._stale or state.report.again:
            return
        wrote = False
        for name in (README, INDEX):
            text = README_TEXT
            if name == INDEX:
                text = await asyncio.to_thread(index, *await self._store.contents())
            content = text.encode()
            # Its name now, which may differ in upper and lower case.
            same = [path for path in now if key(path) == key(name)]
            path, *others = sorted(same, key=lambda one: one != name) or [name]
            found = await self._hash(state, path) if path in now else None
            if found is None and path in now:
                return  # it was listed and cannot be read: the folder may be another one by now
            is_right = found == sha256(content).digest()
            if found is not None and not is_right and await self._is_persons(path):
                path, others, found = name, [*others, path], None
            for other in others:
                if not await self._give_way(state, other):
                    return
            if not is_right:
                if not await self._writer.write(state, path, content, replaces=found):
                    return
                wrote = True
        # A file that was just written is checked once more.
        self._stale, self._seen = False, {} if wrote else now

    async def _give_way(self, state: PassState, path: str) -> bool:
        """Renames a person's own file with such a name; returns whether it did."""
        to = free(PurePosixPath(), PurePosixPath(path).stem, taken=state.taken)
        found = await self._hash(state, path)
        if found is None or not await self._writer.move(state, path, to, replaces=found):
            return False
        state.taken.add(key(to))
        state.report.counts["moved"] += 1
        state.report.again = True
        return True

    async def _is_persons(self, path: str) -> bool:
        try:
            return not is_kept(await asyncio.to_thread(self._folder.read, path))
        except OSError:
            return False

    async def _hash(self, state: PassState, path: str) -> bytes | None:
        if (told := state.listing.files[path].hash) is not None:
            return told
        try:
            return sha256(await asyncio.to_thread(self._folder.read, path)).digest()
        except OSError:
            return None
