"""Notes for the team's knowledge in files: Markdown and JSON, read into what note_knowledge() takes.

Markdown: each heading that has text below it is a note, the heading its title. Where the text is a list, each item is a note
of its own; what is bold at its beginning is its title. JSON: one note or a list of notes, or one on each line, with the names
of the columns of shared_knowledge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

KEYS = (
    "content", "category", "created_by", "title", "tier", "confidence", "tags", "related_ids", "decision_context",
    "outcome", "source", "created_by_name",
)  # fmt: skip
"""What a note may say: the arguments of note_knowledge()."""
TITLE = 120
"""Characters of a title that is made of the content."""

_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^(?:[-*+]|\d{1,9}[.)])\s+(.*)$")
_BOLD = re.compile(r"^\*\*(.+?)\*\*\s*[:.\u2013\u2014-]?\s*(.*)$", re.DOTALL)
_FENCE = re.compile(r"^\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Seed:
    """A note, and where it stands: `number` is its number in the file, from 1."""

    number: int
    values: Mapping[str, Any] = field(default_factory=dict)


class SeedError(ValueError):
    """A file or a note that cannot be read; the message says why, for the person who named the file."""


def from_markdown(text: str) -> Iterator[Seed]:
    """The notes of a Markdown file, in order. Raises SeedError of the whole file."""
    _refuse_nul(text)
    number = 0
    for heading, lines in _sections(text):
        for title, content in _notes(heading, lines):
            number += 1
            yield Seed(number, {"title": title, "content": content})


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each heading with the lines below it, up to the next one."""
    heading, lines, fenced = "", list[str](), False
    for line in text.splitlines():
        fenced ^= _FENCE.match(line) is not None
        found = None if fenced else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        yield heading, lines
        heading, lines = found[1], []
    yield heading, lines


def _notes(heading: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Title and content of each note in a section."""
    body = "\n".join(lines).strip()
    if not body:
        return
    items = _items(body)
    if items is None:
        yield (heading or first_line(body)), body
        return
    for item in items:
        bold = _BOLD.match(item)
        if bold is not None and bold[2].strip():
            yield bold[1].strip(), bold[2].strip()
        else:
            yield first_line(item), item


def _items(body: str) -> list[str] | None:
    """The items of a text that is one list; None if it is not."""
    items: list[str] = []
    for line in body.splitlines():
        found = _ITEM.match(line)
        if found is not None:
            items.append(found[1])
        elif not line.strip() or (items and line[0] in " \t"):
            if items and line.strip():
                items[-1] += "\n" + line.strip()
        else:
            return None
    return [item for item in items if item.strip()]


def first_line(text: str) -> str:
    """The beginning of a text, as a title: of its first line, whole words if it can be."""
    line = text.strip().splitlines()[0].strip("#*_ \t") if text.strip() else ""
    return line if len(line) <= TITLE else line[:TITLE].rsplit(" ", 1)[0]


def from_json(text: str) -> Iterator[Seed]:
    """The notes of a JSON file, in order. Raises SeedError: of the whole file, or at the note that is none."""
    _refuse_nul(text)
    for number, value in enumerate(_values(text), 1):
        if not isinstance(value, dict):
            raise SeedError(f"note {number} is no JSON object")
        unknown = sorted(set(value) - set(KEYS) - _IGNORED)
        if unknown:
            raise SeedError(
                f"note {number} has an unknown key {unknown[0][:60]!r}; known are: {', '.join(KEYS)}"
            )
        if not isinstance(value.get("content"), str) or not value["content"].strip():
            raise SeedError(f"note {number} has no content")
        values = {key: value[key] for key in KEYS if value.get(key) is not None}
        if "\\u0000" in json.dumps(values).replace("\\\\", ""):
            raise SeedError(f"note {number} has a NUL character (\\u0000), {_NOT_STORED}")
        yield Seed(number, {"title": first_line(value["content"])} | values)


def _refuse_nul(text: str) -> None:
    offset = text.find("\x00")
    if offset >= 0:
        line = len(text[:offset].splitlines()) + (text[:offset].endswith("\n") or offset == 0)
        raise SeedError(f"line {line} has a NUL character, {_NOT_STORED}")


_NOT_STORED = "which Postgres does not store. Remove it, and take the file in again: what is stored already stays as it is"

_IGNORED = {"surprise_score", "created_at", "id"}
"""Of rows that were copied from a database: they get their own."""


def _values(text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise SeedError(f"it is neither JSON nor JSON on each line: {error}") from None
    return whole if isinstance(whole, list) else [whole]
