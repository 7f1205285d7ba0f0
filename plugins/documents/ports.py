"""The interface of a parser, which reads files for the plugin. It raises `plugins.files.local.UnreadableFileError`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Parsed:
    """The content of a file as Markdown."""

    text: str
    """Not blank. Without NUL and lone surrogates; lines end with a line feed only."""
    title: str | None
    """One line of at most 200 characters. None if neither the file nor its name has a title."""
    document_type: str
    """One of 'markdown', 'text', 'html', 'pdf', 'docx', 'pptx', 'xlsx', 'csv', 'json', 'email'."""
    metadata: Mapping[str, Any]
    """JSON values: the front matter of Markdown, the headers of an e-mail, author and pages of a PDF, names of sheets."""


class Parser(Protocol):
    """Reads files."""

    async def parse(self, content: bytes, name: str) -> Parsed:
        """Read the bytes of one file, whatever they are.

        `name` is the file's name. It is a hint at the format if the bytes do not show it, and the title if they have none.
        Raises `UnreadableFileError`.
        """

    async def close(self) -> None:
        """End the processes. The parser is not used afterwards."""
