"""What the child process of the parser does: a file comes, its text goes, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plugins.documents.parsing.kinds import kind_of
from plugins.documents.parsing.reading import read_file, reader_of
from plugins.documents.ports import Parsed
from plugins.files.child import MAX_HEAD, GarbageError, bound, opening, serve, unbound
from plugins.files.local import UnreadableFileError


def main() -> None:
    """Serve until the input ends."""
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
