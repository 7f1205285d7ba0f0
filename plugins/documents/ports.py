"""The interface of a parser: what reads a file for the plugin. Its fault is `providers.ports.Unreadable`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says, as Markdown."""

    text: str
    """Not blank. Without NUL and lone surrogates; lines end with a line feed only."""
    title: str | None
    """Of one line, at most 200 characters. None where neither the file nor its name has one."""
    document_type: str
    """One of 'markdown', 'text', 'html', 'pdf', 'docx', 'pptx', 'xlsx', 'csv', 'json', 'email'."""
    metadata: Mapping[str, Any]
    """JSON values: the front matter of Markdown, the headers of an e-mail, author and pages of a PDF, names of sheets."""


class Parser(Protocol):
    """Reads files."""

    async def parse(self, content: bytes, name: str) -> Parsed:
        """Read the bytes of one file, whatever is in them.

        `name` is the file's name: a hint at its format, where the bytes themselves do not tell it, and the
        title, where they have none. Raises `Unreadable`.
        """
        ...

    async def close(self) -> None:
        """Let go of processes. The parser is not used afterwards."""
        ...
