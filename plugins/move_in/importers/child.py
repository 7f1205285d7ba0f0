"""The child process that reads exports. It gets a file and writes its items as lines of JSON: a kind's name and its fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from plugins.files.child import bound, serve, unbound
from plugins.move_in.importers.items import (
    UNKNOWN,
    Command,
    Conversation,
    FileEnd,
    Item,
    Memory,
    Message,
    Omission,
    System,
)
from plugins.move_in.importers.records import ExportError
from plugins.move_in.importers.sources import items_of

KINDS: dict[str, type[Item]] = {
    kind.__name__: kind for kind in (Memory, Conversation, Message, Command, Omission, FileEnd)
}
BESIDE_SQLITE = 16_000_000
"""The most bytes of a file that may be written: SQLite shares an index of changes with the program that writes."""
LONGEST_LINE = 200_000_000
FRAME = 1_000_000
Answer = tuple[dict[str, Any], bytes]


def main() -> None:
    serve(_answers, file_bytes=BESIDE_SQLITE)


def _answers(request: dict[str, Any], content: bytes) -> Iterator[Answer]:
    bound(memory=request["memory"], seconds=request["seconds"])
    source = content if request["path"] is None else Path(request["path"])
    try:
        yield from _frames(items_of(System(request["system"]), request["name"], request["modified"], source))
        yield {"end": True}, b""
    except ExportError as error:
        yield {"error": str(error)}, b""
    except OSError as error:
        yield {"error": f"{request['name']} cannot be read: {error.strerror}."}, b""
    except MemoryError:
        yield {"out_of_memory": True}, b""
    unbound()


def _frames(items: Iterator[Item]) -> Iterator[Answer]:
    lines: list[bytes] = []
    length = 0
    for item in items:
        line = _line(item)
        lines.append(line)
        length += len(line)
        if length >= FRAME:
            yield {}, b"\n".join(lines)
            lines, length = [], 0
    yield {}, b"\n".join(lines)


def _line(item: Item) -> bytes:
    kind = type(item).__name__
    said = {f.name: value for f in fields(item) if (value := getattr(item, f.name)) is not None}
    try:
        line = json.dumps([kind, said], default=_value, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        line = b""
    if not 0 < len(line) <= LONGEST_LINE:
        line = json.dumps(["Omission", {"what": kind.lower(), "reason": UNKNOWN}]).encode()
    return line


def _value(value: object) -> str | None:
    """Bytes are no text."""
    return value.isoformat() if isinstance(value, datetime) else None


def item_of(line: bytes) -> Item:
    try:
        kind, said = json.loads(line, parse_constant=lambda _: None)
    except RecursionError:
        return Omission("record", UNKNOWN)
    return KINDS[kind](**said)
