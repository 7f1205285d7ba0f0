"""Markdown: a folder of files, or one.

Each top item of a list is a memory with the headings above it: notes for agents are lists of single facts, and a search finds
a single fact better than a file of fifty. The text of a section outside of lists is one memory.
"""

from __future__ import annotations

import re
from typing import Any

from plugins.move_in.importers.items import Items, Memory, Omission, digest, first

FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
FIELD = re.compile(r"^([A-Za-z_][\w -]*):[ \t]*(.*)", re.MULTILINE)
HEADING = re.compile(r"(#{1,6})[ \t]+([^ \t].*)$")
ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?(.*)")
TASKS = {None: None, " ": "goal", "x": "outcome", "X": "outcome"}
"""The kind of an item by its box: what is to be done, and what was."""
FENCE = re.compile(r"[ \t]*(```|~~~)")


def items(path: str, record: Any) -> Items:
    """The memories of one file, whose `text` and time of change (`modified`) are given."""
    text = record["text"].replace("\r\n", "\n")
    front = FRONT.match(text)
    fields = dict(FIELD.findall(front[1])) if front else {}
    seen: set[str] = set()
    for headings, said, kind in _parts(text[front.end() :] if front else text):
        # Done is another memory than open.
        key = digest(path, headings, said, kind) if kind == "goal" else digest(path, headings, said)
        if key in seen:
            continue
        seen.add(key)
        yield Memory(
            id=key,
            text=f"{' > '.join(headings)}: {said}" if headings else said,
            kind=kind,
            created_at=first(fields, "created", "created_at", "date") or record["modified"],
            metadata={"file": path, "front_matter": fields},
        )
    if not seen:
        yield Omission("file", "it has no text")


def _parts(text: str) -> list[tuple[tuple[str, ...], str, str | None]]:
    """Headings, text, and the kind of a task."""
    parts: list[tuple[tuple[str, ...], str, str | None]] = []
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    fenced = is_item = False
    box: str | None = None

    def end() -> None:
        nonlocal box
        if said := "\n".join(lines).strip():
            parts.append((tuple(h for _, h in headings), said, TASKS[box]))
        lines.clear()
        box = None

    for line in text.split("\n"):
        fenced ^= FENCE.match(line) is not None
        if not fenced and (heading := HEADING.match(line)):
            end()
            is_item = False
            headings = [
                *(h for h in headings if h[0] < len(heading[1])),
                (len(heading[1]), heading[2].rstrip(" \t#")),
            ]
        elif not fenced and (item := ITEM.match(line)):
            end()
            is_item = True
            box = item[1]
            lines.append(item[2])
        else:
            if (
                is_item
                and not fenced
                and line.strip()
                and not line[0].isspace()
                and lines
                and not lines[-1].strip()
            ):
                end()  # a paragraph after the list
                is_item = False
            lines.append(line)
    end()
    return parts
