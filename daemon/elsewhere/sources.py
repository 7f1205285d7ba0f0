"""The systems that memories come from, and how the records of each are found: a file or a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from daemon.elsewhere.items import Items, LeftOut
from daemon.elsewhere.records import ExportError, from_file
from daemon.elsewhere.rivals import (
    chatgpt,
    claude,
    claude_mem,
    commands,
    graphiti,
    langmem,
    letta,
    markdown,
    mem0,
    zep,
)


class System(StrEnum):
    """Where memories come from."""

    MEM0 = "mem0"
    LETTA = "letta"
    GRAPHITI = "graphiti"
    ZEP = "zep"
    LANGMEM = "langmem"
    CLAUDE_MEM = "claude-mem"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    MARKDOWN = "markdown"
    COMMANDS = "commands"


@dataclass(frozen=True, slots=True)
class Reader:
    """How the export of a system is read."""

    items: Callable[[str, Any], Items]
    sqlite: Mapping[str, str] = field(default_factory=dict)
    says_whose: bool = False
    """Whether records name their users."""
    files: str = "*.json"
    """Which files of a folder are read."""


READERS: Mapping[System, Reader] = {
    System.MEM0: Reader(mem0.items, sqlite=mem0.SQLITE, says_whose=True),
    System.LETTA: Reader(letta.items, files="*.af"),
    System.GRAPHITI: Reader(graphiti.items, says_whose=True),
    System.ZEP: Reader(zep.items, says_whose=True),
    System.LANGMEM: Reader(langmem.items, says_whose=True, files="*.json*"),
    System.CLAUDE_MEM: Reader(claude_mem.items, sqlite=claude_mem.SQLITE, files="*.db"),
    System.CHATGPT: Reader(chatgpt.items, files="conversations*.json"),
    System.CLAUDE: Reader(claude.items, files="[cpm]*.json"),
    System.MARKDOWN: Reader(markdown.items, files="**/*.md"),
    System.COMMANDS: Reader(commands.items, says_whose=True, files="*.json*"),
}


def read(system: System, source: str) -> Iterator[Items]:
    """The items of each record. Raises ExportError and OSError."""
    reader = READERS[system]
    if source.startswith(("postgres://", "postgresql://")):
        raise ExportError("memoryd reads files: docs/importing.md says how psql writes one from a database.")
    path = Path(source)
    for file in _files(path, reader.files):
        if system is System.MARKDOWN:
            yield _of_markdown(file, path)
        else:
            for section, record in from_file(file, reader.sqlite):
                yield reader.items(section, record)


def _files(path: Path, pattern: str) -> list[Path]:
    """The file, or those of the folder. Hidden ones are left out."""
    if not path.exists():
        raise ExportError(f"{path} does not exist. Name a file or a folder.")
    if not path.is_dir():
        return [path]
    files = sorted(p for p in path.glob(pattern) if p.is_file() and not _is_hidden(p.relative_to(path)))
    if not files:
        raise ExportError(f"{path} has no file {pattern}. Unpack the export there, or name a file.")
    return files


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _of_markdown(file: Path, folder: Path) -> Items:
    name = file.name if file == folder else file.relative_to(folder).as_posix()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return iter([LeftOut("file", "it is not UTF-8")])
    return markdown.items(name, {"text": text, "modified": datetime.fromtimestamp(file.stat().st_mtime, UTC)})
