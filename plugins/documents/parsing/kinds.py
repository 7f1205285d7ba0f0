"""Which format a file has: by its first bytes where the format has a signature, by the extension of its name otherwise.

Of an office file only that it is a zip container is told here, because looking into it is left to the child process.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Literal, TypeAlias

from plugins.files.local import UnreadableFileError

Kind: TypeAlias = Literal["markdown", "text", "html", "csv", "json", "email", "pdf", "office"]

BY_EXTENSION: dict[str, Kind] = {
    "md": "markdown", "markdown": "markdown", "mdown": "markdown", "mkd": "markdown", "mdx": "markdown",
    "htm": "html", "html": "html", "xhtml": "html",
    "csv": "csv", "tsv": "csv",
    "json": "json", "jsonl": "json", "ndjson": "json",
    "eml": "email",
    "pdf": "pdf",
    "docx": "office", "pptx": "office", "xlsx": "office",
}  # fmt: skip

OTHERS: tuple[tuple[bytes, str], ...] = (
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "old",
    ),
    (b"{\\rtf", "rtf"),
    (b"\x89PNG\r\n", "picture"),
    (b"\xff\xd8\xff", "picture"),
    (b"GIF8", "picture"),
    (b"II*\x00", "picture"),
    (b"MM\x00*", "picture"),
    (b"\x1f\x8b\x08", "archive"),
    (b"7z\xbc\xaf\x27\x1c", "archive"),
    (b"Rar!\x1a\x07", "archive"),
    (b"\xfd7zXZ\x00", "archive"),
    (b"(\xb5/\xfd", "archive"),
)
"""Signatures of what is never read, and why."""

SENTENCES = {
    "old": (
        "The file is an old Office file (.doc, .xls, .ppt, .msg) or protected by a password. "
        "Save it as DOCX, XLSX or PPTX without a password and give that instead."
    ),
    "rtf": "The file is RTF, which memoryd does not read. Save it as DOCX or PDF and give that instead.",
    "picture": "The file is a picture. Run it through OCR (text recognition) and give the PDF or text that this makes.",
    "archive": "The file is an archive. Unpack it and give the files that are in it.",
}

_HTML = re.compile(rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!doctype\s+html|<html[\s>])", re.IGNORECASE)


def kind_of(content: bytes, name: str) -> Kind:
    """The format of the file. Raises `UnreadableFileError` if it is one that is never read, or not what its name says."""
    start = content[:1024]
    if not start:
        raise UnreadableFileError("The file is empty. Drop it again once something is in it.")
    by_name = BY_EXTENSION.get(PurePath(name).suffix.lower().removeprefix("."))
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"%PDF-") or (by_name == "pdf" and b"%PDF-" in start):
        return "pdf"
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "office"
    for signature, reason in OTHERS:
        if start.startswith(signature):
            raise UnreadableFileError(SENTENCES[reason])
    if by_name in ("pdf", "office"):
        raise UnreadableFileError(
            f"The file is called {PurePath(name).suffix}, but is none: it is damaged or has the wrong name. "
            "Save it again from the program that made it and give that instead."
        )
    return by_name or ("html" if _HTML.match(start) else "text")
