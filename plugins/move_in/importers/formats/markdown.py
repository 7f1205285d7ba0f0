"""Markdown: a folder of files, or one.

Each top item of a list is a memory with the headings above it: notes for agents are lists of single facts, and a search finds
a single fact better than a file of fifty. So is each task within an item, with the items above it. The text of a section
outside of lists is one memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from plugins.move_in.importers.items import Items, Memory, Omission, digest, first

FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
FIELD = re.compile(r"^([A-Za-z_][\w -]*):[ \t]*(.*)", re.MULTILINE)
HEADING = re.compile(r"(#{1,6})[ \t]+([^ \t].*)$")
ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?(.*)")
TASKS = {None: None, " ": "goal", "x": "outcome", "X": "outcome"}
"""The kind of an item by its box: what is to be done, and what was."""
DEEPEST = 8
LONGEST_ABOVE = 200
"""Of the items that a task is nested in: how many stand above it, and how many characters of each."""
FENCE = re.compile(r"[ \t]*(```|~~~)")


def items(path: str, record: Any) -> Items:
    """The memories of one file, whose `text` and time of change (`modified`) are given."""
    text = record["text"].replace("\r\n", "\n")
    front = FRONT.match(text)
    fields = dict(FIELD.findall(front[1])) if front else {}
    seen: set[str] = set()
    parts = _Parts()
    for line in (text[front.end() :] if front else text).split("\n"):
        parts.add(line)
    for part in parts.all:
        above, kind = part.above, TASKS[part.box]
        if not (said := "\n".join(part.lines).strip()):
            continue
        # Done is another memory than open.
        key = digest(path, above, said, kind) if kind == "goal" else digest(path, above, said)
        if key in seen:
            continue
        seen.add(key)
        yield Memory(
            id=key,
            text=f"{' > '.join(above)}: {said}" if above else said,
            kind=kind,
            created_at=first(fields, "created", "created_at", "date") or record["modified"],
            metadata={"file": path, "front_matter": fields},
        )
    if not seen:
        yield Omission("file", "it has no text")


@dataclass(slots=True)
class _Part:
    """An item, or a text outside of lists: what stands above it, its lines, and of a task the box."""

    above: tuple[str, ...]
    lines: list[str]
    box: str | None = None
    indent: int = 0


class _Parts:
    """The parts of a text, which is given line by line."""

    def __init__(self) -> None:
        self.all = [_Part((), [])]
        self._headings: list[tuple[int, str]] = []
        self._items: list[_Part] = []
        """The item that goes on, after those that it is nested in."""
        self._fenced = False

    def add(self, line: str) -> None:
        inside, self._fenced = self._fenced, self._fenced ^ (FENCE.match(line) is not None)
        if not inside and not self._fenced:
            if heading := HEADING.match(line):
                level = len(heading[1])
                self._headings = [
                    *(h for h in self._headings if h[0] < level),
                    (level, heading[2].rstrip(" \t#")),
                ]
                self._section()
                return
            if (item := ITEM.match(line)) and self._begins(item):
                return
        if self._items and not inside:
            self._go_back(line)
        (self._items or self.all)[-1].lines.append(line)

    def _section(self) -> None:
        self._items = []
        self.all.append(_Part(tuple(h for _, h in self._headings), []))

    def _begins(self, item: re.Match[str]) -> bool:
        """Whether a part begins: a top item, or a task within one. Another nested item is text of what it is in."""
        indent = _columns(item[1])
        if indent and not self._items:
            return False
        while self._items and self._items[-1].indent >= indent:
            self._items.pop()
        if indent and item[2] is None:
            return False
        within = [one.lines[0][:LONGEST_ABOVE] for one in self._items[-DEEPEST:] if one.lines[0].strip()]
        self._items.append(_Part((*(h for _, h in self._headings), *within), [item[3]], item[2], indent))
        self.all.append(self._items[-1])
        return True

    def _go_back(self, line: str) -> None:
        """After an empty line what is indented less belongs to an outer item, or to no list."""
        after_empty = not self._items[-1].lines[-1].strip()
        if not line.strip() or not (after_empty or self._fenced):
            return
        if line[0].isspace():
            indent = _columns(line[: len(line) - len(line.lstrip())])
            while len(self._items) > 1 and self._items[-1].indent >= indent:
                self._items.pop()
        elif not self._fenced:
            self._section()


def _columns(blanks: str) -> int:
    return len(blanks.expandtabs(4))
