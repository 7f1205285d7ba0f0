"""README.md and Index.md of the replica: what people are told about the folder, and what is in it.

Promise: the same documents give the same text, so that the files change only when a document comes, goes, moves or gets
another title. Documents of users are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import PurePosixPath
from urllib.parse import quote

from plugins.replica.rules.document_file import one_line

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
