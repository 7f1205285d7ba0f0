"""Text files: taken as they are."""

from __future__ import annotations

from plugins.documents.parsing.texts import title_of
from plugins.documents.ports import Parsed
from plugins.files.decoding import decode


def read(content: bytes, name: str, room: int) -> Parsed:
    """The text. Raises `UnreadableFileError`."""
    text, mark = decode(content)
    return Parsed(text=text, title=title_of(name), document_type="text", metadata=mark)
