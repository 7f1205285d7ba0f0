"""From bytes to text, where the encoding is not told: UTF-8 and what has a byte order mark is sure, the rest is a guess.

The guess is Windows-1252, the encoding of most old files in western languages. A file that is UTF-8 but for a few
bytes (cut in the middle of a character, say) is read as UTF-8 all the same.
"""

from __future__ import annotations

import codecs
import contextlib
import re

from providers.parsing.texts import clean
from providers.ports import Unreadable

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

CONTROLS = bytes(each for each in range(32) if each not in b"\t\n\v\f\r\x1b") + b"\x7f"
"""Bytes that no text has; escape is in captured output of terminals."""
MOST_CONTROLS = 0.02
"""Of all bytes; more is no text. Of random bytes a tenth are controls."""

SAMPLE = 1_000_000
"""Bytes from which an encoding is guessed."""

_WHOLE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CUT = re.compile(rb"[\xe0-\xef][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{1,2}")
_BEYOND_ASCII = bytes(range(128, 256))

NO_TEXT = "The file is not text, nor of a format that memoryd reads. Save it as PDF, DOCX, Markdown or text, and give that."


def decode(content: bytes, declared: str | None = None) -> tuple[str, str]:
    """The text, clean, and its encoding. `declared`: what the file says of itself. Raises `Unreadable`: not text."""
    for mark, encoding in MARKS:
        if content.startswith(mark):
            text = content[len(mark) :].decode(encoding, "replace")
            if _rubbish(text.count("�") + text.count("\x00"), len(text)):
                raise Unreadable(NO_TEXT)
            return clean(text), encoding
    if _rubbish(len(content) - len(content.translate(None, CONTROLS)), len(content)):
        raise Unreadable(NO_TEXT)
    if declared is not None and not _wrong(declared):
        # An encoding that Python does not know, or that does not fit, is not the encoding.
        with contextlib.suppress(LookupError, UnicodeError):
            return clean(content.decode(declared)), declared.lower()
    try:
        # With 'surrogatepass' also what old programs of Windows and Java write.
        return clean(content.decode("utf-8", "surrogatepass")), "utf-8"
    except UnicodeDecodeError:
        encoding = "utf-8" if _mostly_utf8(content) else "cp1252"
        return clean(content.decode(encoding, "replace")), encoding


def _wrong(declared: str) -> bool:
    """Whether the file says of itself what is not so: without a mark it is not UTF-16, and Latin-1 stands for Windows-1252.

    Browsers do the same. Windows-1252 is what is guessed anyway.
    """
    return declared.lower().replace("_", "-") in ("iso-8859-1", "latin-1", "latin1", "us-ascii", "ascii") or (
        declared.lower().startswith(("utf-16", "utf-32", "utf16", "utf32", "ucs"))
    )


def _rubbish(controls: int, total: int) -> bool:
    return controls > max(2, MOST_CONTROLS * total)


def _mostly_utf8(content: bytes) -> bool:
    """Whether the bytes beyond ASCII are whole or cut characters of UTF-8 rather than single bytes of another encoding."""
    sample = content[:SAMPLE] + content[-1_000:]
    rest, whole = _WHOLE.subn(b" ", sample)
    rest, cut = _CUT.subn(b" ", rest)
    return whole + cut >= len(rest) - len(rest.translate(None, _BEYOND_ASCII))
