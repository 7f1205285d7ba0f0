"""JSON as a list of paths and values, one a line: `- servers[0].name: alpha`.

A block of code would keep the file as it is, but a chunk that is cut out of its middle says neither whose name `alpha` is
nor what it is part of, and a search for "server name" finds nothing. Here each line says all of that. What is no
valid JSON, or is nested too deep to be read, becomes a block of code.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import Any

from plugins.documents.parsing.texts import Output, one_line, title_of
from plugins.documents.ports import Parsed
from plugins.files.decoding import clean, decode

_NAME = re.compile(r"[^\s.:\[\]\"]+")


def read(content: bytes, name: str, room: int) -> Parsed:
    """Paths and values, or a block of code with `json: unreadable` in `metadata`. Raises `UnreadableFileError`."""
    text, metadata = decode(content)
    title = None
    output = Output(room)
    try:
        value = _load(text, lines=PurePath(name).suffix.lower() in (".jsonl", ".ndjson"))
    except (ValueError, RecursionError):
        metadata["json"] = "unreadable"
        fence = "`" * (max((len(each) for each in re.findall("`{3,}", text)), default=2) + 1)
        output.add(f"{fence}json\n{text.strip()}\n{fence}")
    else:
        title = _title(value)
        _write(value, output)
    return Parsed(text=output.text(), title=title or title_of(name), document_type="json", metadata=metadata)


def _load(text: str, *, lines: bool) -> Any:
    # Numbers stay as they are written: 1.10 is a version as often as a number.
    if lines:
        return [json.loads(each, parse_int=str, parse_float=str) for each in text.split("\n") if each.strip()]
    return json.loads(text, parse_int=str, parse_float=str)


def _title(value: Any) -> str | None:
    title = value.get("title") if isinstance(value, dict) else None
    return one_line(title) or None if isinstance(title, str) else None


def _write(value: Any, output: Output) -> None:
    """In the order of the file, without recursion."""
    pending: list[tuple[str, Any]] = [("", value)]
    while pending:
        path, each = pending.pop()
        if isinstance(each, dict) and each:
            pending += [(_within(path, key), inner) for key, inner in reversed(each.items())]
        elif isinstance(each, list) and each:
            pending += [(f"{path}[{i}]", each[i]) for i in range(len(each) - 1, -1, -1)]
        else:
            words = clean(each if isinstance(each, str) else json.dumps(each)).replace("\n", "\n  ")
            output.add(f"- {clean(path)}: {words}" if path else f"- {words}")


def _within(path: str, key: str) -> str:
    if not _NAME.fullmatch(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key
