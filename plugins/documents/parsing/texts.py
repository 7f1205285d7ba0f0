"""What every format does alike: texts that a database takes, JSON values, titles, numbers as files and lists write them, and a
limit for what is written.

Promise: no text that comes from here has NUL, a lone surrogate or a carriage return in it.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from plugins.files.decoding import clean
from plugins.files.local import UnreadableFileError

MAX_TITLE = 200
"""Characters."""
MAX_DEPTH = 50
"""Of a JSON value; what is nested deeper becomes null."""
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"),
    (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


class Output:
    """Collects lines until they are longer than `room` bytes: a small file may stand for a very long text."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Raises `UnreadableFileError` when there is no room for the line. Counts characters, so that it is fast."""
        self._used += len(line) + 1
        if self._used > self._room + 1:
            raise too_long(self._room)
        self._lines.append(line)

    def text(self) -> str:
        return "\n".join(self._lines)


def too_long(room: int) -> UnreadableFileError:
    """The error for a file that is too much text."""
    return UnreadableFileError(
        f"The text in the file is longer than {size(room)}. Split the file into smaller ones and give those."
    )


def size(count: int) -> str:
    """A number of bytes for people: '10 MB', '1.5 GB', '900 bytes'."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} bytes"


def one_line(text: str, most: int = MAX_TITLE) -> str:
    """The text on one line, of at most `most` characters."""
    # Only the beginning is looked at: a line may be 5 MB.
    return " ".join(clean(text[: most * 10]).split())[:most].rstrip()


def power(raised: str) -> str:
    """What is set above the line: a number is a power, and not more digits of what stands before."""
    return f"^{raised}" if re.fullmatch(r"[-\u2212]?\d+", raised) else raised


def title_of(name: str) -> str | None:
    """The file's name without its extension, '_' and '-' read as spaces. None if nothing is left."""
    return one_line(re.sub(r"[_-]+", " ", PurePath(name.replace("\\", "/")).stem)) or None


def json_value(value: Any, depth: int = 0) -> Any:
    """The value as JSON has it: dates are texts, numbers that JSON or a database has not are texts."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return value if abs(value) < 2**63 else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if depth >= MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        return {clean(str(key)): json_value(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(each, depth + 1) for each in value]
    return None


def numeral(number: int, kind: str) -> str:
    """The number as a list shows it: `a`, `iv`, `07`, by Word's name of the kind; digits where that is not known."""
    small = kind.lower()
    if small.endswith("letter") and 0 < number <= 780:
        said = chr(96 + (number - 1) % 26 + 1) * ((number - 1) // 26 + 1)
    elif small.endswith("roman") and 0 < number < 4000:
        said = ""
        for value, letters in _ROMAN:
            said += letters * (number // value)
            number %= value
    else:
        return f"{number:02}" if kind == "decimalZero" else str(number)
    return said.upper() if kind.startswith("upper") else said


def whole(number: str | None, otherwise: int = 0) -> int:
    """The number that an attribute says; another where it says none."""
    return (
        int(number) if number and number.isascii() and number.isdecimal() and len(number) < 8 else otherwise
    )
