"""Text files: taken as they are."""

from __future__ import annotations

from providers.decoding import decode
from providers.parsing.texts import title_of
from providers.ports import Parsed


def read(content: bytes, name: str, room: int) -> Parsed:
    """The text. Raises `Unreadable`."""
    text, mark = decode(content)
    return Parsed(text=text, title=title_of(name), document_type="text", metadata=mark)
