"""The systems that memories come from, and where their records are: in a file or a folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from plugins.files.decoding import decode
from plugins.files.local import UnreadableFileError, walk
from plugins.move_in.importers.formats import (
    chatgpt,
    claude,
    claude_mem,
    commands,
    graphiti,
    hindsight,
    honcho,
    langmem,
    letta,
    markdown,
    mem0,
    mempalace,
    zep,
)
from plugins.move_in.importers.items import UNKNOWN, FileEnd, Items, Omission, System, guarded, mapping
from plugins.move_in.importers.records import FILE, ExportError, from_json, from_sqlite


@dataclass(frozen=True, slots=True)
class Reader:
    """How the export of a system is read."""

    items: Callable[..., Items]
    """Gets a record's section and the record; with `remembers` also what the records of the file before have said."""
    sqlite: Mapping[str, str] = field(default_factory=dict)
    remembers: bool = False
    says_whose: bool = False
    """Whether records name their users."""
    files: str = "*.json"
    """The pattern of the files in a folder that are read."""


LIKE_A_URL = re.compile(r"://|@|^\W*postgres(ql)?:|\bpassword=", re.IGNORECASE)
"""What may be the address of a database, which no message may quote."""

READERS: Mapping[System, Reader] = {
    System.MEM0: Reader(mem0.items, sqlite=mem0.SQLITE, says_whose=True),
    System.LETTA: Reader(letta.items, remembers=True, says_whose=True, files="*.af"),
    System.GRAPHITI: Reader(graphiti.items, says_whose=True),
    System.ZEP: Reader(zep.items, says_whose=True),
    System.LANGMEM: Reader(langmem.items, says_whose=True, files="*.json*"),
    System.CLAUDE_MEM: Reader(claude_mem.items, sqlite=claude_mem.SQLITE, files="*.db"),
    System.CHATGPT: Reader(chatgpt.items, files="conversations*.json"),
    System.CLAUDE: Reader(claude.items, files="[cpm]*.json"),
    System.MARKDOWN: Reader(markdown.items, files="**/*.md"),
    System.MEMPALACE: Reader(mempalace.items, files="**/*.md"),
    System.HINDSIGHT: Reader(hindsight.items),
    System.HONCHO: Reader(honcho.items, remembers=True, says_whose=True),
    System.COMMANDS: Reader(commands.items, says_whose=True, files="*.json*"),
}


def items_of(system: System, name: str, modified: str, content: bytes | Path) -> Items:
    """The items of a file: of its bytes, or of an SQLite file in its place. Raises ExportError."""
    reader = READERS[system]
    if reader.files.endswith(".md"):
        yield from guarded("file", _of_markdown(reader, name, modified, content))
        yield FileEnd(modified)
        return
    found = (
        from_json(content, name) if isinstance(content, bytes) else from_sqlite(content, name, reader.sqlite)
    )
    told: tuple[dict[str, Any], ...] = ({},) if reader.remembers else ()
    at: object = None
    for section, given in found:
        if section == FILE:
            at = mapping(given).get("created_at")
            continue
        if isinstance(given, Omission):
            yield given
            continue
        # Some programs write each record as a string of JSON.
        record = mapping(given)
        if not isinstance(given, dict) and not record:
            yield Omission(section or "record", UNKNOWN)
        else:
            yield from guarded(section or "record", reader.items(section, record, *told))
    yield FileEnd(at)


def files_in(system: System, source: str) -> Iterator[tuple[Path, str]]:
    """The file, or the files of the system's export in the folder, without hidden ones and links. Raises ExportError.

    Each comes with its name. For Markdown this is the path within the folder, from which ids are made.
    """
    if LIKE_A_URL.search(source) and not Path(source).exists():
        raise ExportError("memoryd reads files: docs/importing.md says how psql writes one from a database.")
    path, pattern = Path(source), READERS[system].files
    if not path.exists():
        raise ExportError(f"{path} does not exist. Name a file or a folder.")
    whole, name = Path(os.path.realpath(path)), pattern.removeprefix("**/")
    found = False
    for file in walk([path]):
        if file != whole and not (
            fnmatchcase(file.name, name)
            and (pattern != name or file.parent == whole)
            and stat.S_ISREG(file.lstat().st_mode)
        ):
            continue
        found = True
        inside = file.name if file == whole else file.relative_to(whole).as_posix()
        yield file, inside if system is System.MARKDOWN else os.fspath(file)
    if not found:
        raise ExportError(f"{path} has no file {pattern}. Unpack the export there, or name a file.")


def _of_markdown(reader: Reader, name: str, modified: str, content: bytes | Path) -> Items:
    try:
        text, guessed = decode(content) if isinstance(content, bytes) else ("", {"encoding": "none"})
    except UnreadableFileError:
        text, guessed = "", {"encoding": "none"}
    if guessed:
        return iter([Omission("file", "it is not UTF-8: save it as UTF-8")])
    return reader.items(name, {"text": text, "modified": modified})
