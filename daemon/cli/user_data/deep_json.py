"""Reading an export whose rows nest deeper than Python's own reader goes.

Promise: the outer object is read, and each row is found and kept as its JSON text. Rows are found without recursion, so they
may nest to any depth. What is inside a row is not checked here: Postgres does that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

SPACE = re.compile(r"[ \t\r\n]*")
STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
PLAIN = re.compile(r"[^\s,\[\]{}\":]+")
# What matters to where a value ends: strings, which may hold brackets, and brackets.
MARKS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
CLOSED_BY = {"[": "]", "{": "}"}


def shallow(text: str) -> dict[str, Any]:
    """The document, each row of "tables" as its JSON text. Raises ValueError where it is not whole."""
    document: dict[str, Any] = {}
    end = 0
    for key, start, end in _members(text, _skip(text, 0)):
        if key == "tables":
            document[key] = {table: _table(text, at, to) for table, at, to in _members(text, start)}
        else:
            document[key] = _small(text[start:end])
    if _skip(text, _after(text, _skip(text, 0))) != len(text):
        raise ValueError("something follows its end")
    return document


def _table(text: str, start: int, end: int) -> list[str] | None:
    """The rows; None where it is no array."""
    return [text[at:to] for at, to in _items(text, start)] if text[start] == "[" else _small(text[start:end])


def _small(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        return None


def _members(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Of the object at `start`, whose values are not looked into: each key, where its value starts and ends."""
    for at in _parts(text, start, "{"):
        name = STRING.match(text, at)
        if name is None:
            raise ValueError(f"a name is missing at character {at}")
        value = _skip(text, _expect(text, _skip(text, name.end()), ":"))
        yield json.loads(name.group()), value, _after(text, value)


def _items(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Of the array at `start`: where each value starts and ends."""
    for at in _parts(text, start, "["):
        yield at, _after(text, at)


def _parts(text: str, start: int, opening: str) -> Iterator[int]:
    """Where each part of the object or array at `start` begins."""
    at = _skip(text, _expect(text, start, opening))
    if text[at : at + 1] == CLOSED_BY[opening]:
        return
    while True:
        yield at
        if opening == "{":
            name = STRING.match(text, at)
            at = _skip(text, _expect(text, _skip(text, name.end() if name else at), ":"))
        at = _skip(text, _after(text, at))
        if text[at : at + 1] == CLOSED_BY[opening]:
            return
        at = _skip(text, _expect(text, at, ","))


def _after(text: str, start: int) -> int:
    """Where the value at `start` has ended."""
    if text[start : start + 1] not in ("[", "{"):
        plain = STRING.match(text, start) or PLAIN.match(text, start)
        if plain is None:
            raise ValueError(f"a value is missing at character {start}")
        return plain.end()
    waiting: list[str] = []
    for mark in MARKS.finditer(text, start):
        said = mark.group()
        if said in CLOSED_BY:
            waiting.append(CLOSED_BY[said])
        elif said in ("]", "}"):
            if waiting.pop() != said:
                break
            if not waiting:
                return mark.end()
    raise ValueError(f"what begins at character {start} does not end")


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise ValueError(f"character {at} should be {mark}")
    return at + 1


def _skip(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at
