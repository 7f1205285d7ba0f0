"""Characters that UTF-8 has: halves of pairs, which JSON and old programs may hold, are none."""

from __future__ import annotations


def whole_characters(text: str) -> str:
    """The text with the halves of surrogate pairs joined, and lone ones as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
