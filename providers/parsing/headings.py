"""The headings of a Markdown text."""

from __future__ import annotations

import re

from providers.parsing.texts import one_line

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_CLOSING = re.compile(r"[ \t]+#+[ \t]*\Z")
_LINK = re.compile(r"!?\[([^\[\]]{0,500})\]\([^()\s]{0,2000}\)")


def first_heading(text: str) -> str | None:
    """The first heading outside of code, as plain words."""
    fence = ""
    before = ""
    # Only the beginning: a title stands there.
    for line in text[:100_000].split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
            continue
        if mark:
            fence, before = mark[1], ""
            continue
        if heading := _HEADING.fullmatch(line):
            return _words(_CLOSING.sub("", heading[1])) or None
        if before and _UNDERLINE.fullmatch(line) and "=" in line:
            return _words(before) or None
        before = line.strip()
    return None


def _words(heading: str) -> str:
    heading = _LINK.sub(r"\1", heading[:5_000])
    return one_line(re.sub(r"\*\*|__|`", "", heading))
