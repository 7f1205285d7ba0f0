"""From a file's bytes to Markdown: chooses the reader of the format, and holds what it answers to the promises of `Parsed`.

A format is told by the first bytes of a file where it has a signature, else by the extension of its name; of an office file
only that it is a zip container, because looking into it is left to the child process.

Runs in the child process, whose `main` is here, and for small files of the plain formats in the daemon itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from plugins.documents.parsing.texts import too_long
from plugins.documents.ports import Parsed
from plugins.files.child import MAX_HEAD, GarbageError, bound, opening, serve, unbound
from plugins.files.local import UnreadableFileError
from providers.ports import missing

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
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old"),
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

Reader: TypeAlias = Callable[[bytes, str, int], Parsed]

READERS: Mapping[Kind, str] = MappingProxyType(
    {
        "markdown": "markdown", "csv": "tables", "json": "objects", "html": "web", "email": "mail", "pdf": "pdf",
        "office": "office", "text": "plain",
    }
)  # fmt: skip
PLAIN: frozenset[Kind] = frozenset(("markdown", "text", "csv", "json"))
"""Their readers are small, and take time that is linear in the size of the file."""
NOTHING = "There is no text in the file. Drop it again once something is in it."
TOO_DEEP = (
    "The parts of the file are nested too deep to be read. It is damaged or made to do harm. "
    "Save it in another format and give that instead."
)


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


def reader_of(kind: Kind) -> Reader:
    """The reader of a format. Raises `UnreadableFileError` where its packages are not installed."""
    # Imports what the format needs, and nothing of the others: they take a tenth of a second each.
    try:
        reader: Reader = import_module(f"plugins.documents.parsing.{READERS[kind]}").read
    except ModuleNotFoundError:
        raise UnreadableFileError(_lacking()) from None
    return reader


def read_file(content: bytes, name: str, *, room: int) -> Parsed:
    """Read the file; `room`: the most bytes of text. Raises `UnreadableFileError`, and MemoryError."""
    read = reader_of(kind_of(content, name))
    try:
        parsed = read(content, name, room)
    except RecursionError as error:
        raise UnreadableFileError(TOO_DEEP) from error
    except ModuleNotFoundError:  # a page inside a DOCX
        raise UnreadableFileError(_lacking()) from None
    if not parsed.text.strip():
        raise UnreadableFileError(NOTHING)
    if len(parsed.text) > room or len(parsed.text.encode()) > room:
        raise too_long(room)
    return parsed


def _lacking() -> str:
    return f"{missing('Reading this kind of file', 'documents')} (then start memoryd again, and give the file again)"


def main() -> None:
    """What the child process does until its input ends: a file comes, its text goes, or the reason why there is none."""
    serve(_answers)


def _answers(request: dict[str, Any], content: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    try:
        reader_of(kind_of(content, request["name"]))  # its libraries count for no file
        bound(memory=request["memory"], seconds=request["seconds"])
        answer, text = _answer(read_file(content, request["name"], room=request["room"]))
    except UnreadableFileError as error:
        answer, text = {"unreadable": str(error)}, b""
    except MemoryError:
        answer, text = {"out_of_memory": True}, b""
    except Exception as error:  # noqa: BLE001 - a reader that fails must not end the others' child
        answer, text = {"failed": type(error).__name__}, b""
    unbound()
    yield answer, text


def _answer(parsed: Parsed) -> tuple[dict[str, Any], bytes]:
    answer: dict[str, Any] = {
        "title": parsed.title,
        "document_type": parsed.document_type,
        "metadata": dict(parsed.metadata),
    }
    try:
        opening(answer, 0)
    except GarbageError:
        answer["metadata"] = {"metadata": f"left out: longer than {MAX_HEAD} bytes"}
    return answer, parsed.text.encode()
