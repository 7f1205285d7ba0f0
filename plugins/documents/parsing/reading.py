"""From a file's bytes to Markdown: chooses the reader of the format, and holds what it answers to the promises of `Parsed`.

Runs in the child process, whose `main` is here, and for small files of the plain formats in the daemon itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeAlias

from plugins.documents.parsing.kinds import Kind, kind_of
from plugins.documents.parsing.texts import too_long
from plugins.documents.ports import Parsed
from plugins.files.child import MAX_HEAD, GarbageError, bound, opening, serve, unbound
from plugins.files.local import UnreadableFileError
from providers.ports import missing

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
