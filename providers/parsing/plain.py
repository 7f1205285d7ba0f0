"""Text files: taken as they are."""

from __future__ import annotations

from providers.parsing.decoding import decode
from providers.parsing.texts import title_of
from providers.ports import Parsed

SURE = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


def read(content: bytes, name: str, room: int) -> Parsed:
    """The text. `metadata` has the `encoding` where it is a guess. Raises `Unreadable`."""
    text, encoding = decode(content)
    return Parsed(
        text=text,
        title=title_of(name),
        document_type="text",
        metadata={} if encoding in SURE else {"encoding": encoding},
    )
