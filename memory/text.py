"""Text as a person would see it: what a terminal shows at the end, on one line, cut to a length.

Promise: any `str` goes in (escape sequences, lone surrogates, NUL, five megabytes of carriage returns) and
clean, storable text comes out, in time linear in the length.
"""

from __future__ import annotations

import re

ELLIPSIS = "…"

# Every alternative can only succeed or stop at once, so no input makes these backtrack.
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS ...: titles, targets of links
    r"|[ -/]*[0-~]?)"  # single-character escapes and character sets
    r"|\x9b[0-?]*[ -/]*[@-~]?"
    r"|\x9d[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
)
_ERASE_LINE = re.compile(r"\x1b\[([012]?)K")
_ERASED_TAIL, _ERASED_ALL = "\x1c", "\x1d"  # stand-ins for "erase line" while a line is redrawn
_STAND_INS = re.compile(f"[{_ERASED_TAIL}{_ERASED_ALL}]")
_REDRAWS = re.compile(f"[\r\b{_ERASED_ALL}]")
_REDRAW_PARTS = re.compile(f"[\r\b{_ERASED_TAIL}{_ERASED_ALL}]|[^\r\b{_ERASED_TAIL}{_ERASED_ALL}]+")
_BLANKS = re.compile("[\t\v\f\x85\u2028\u2029]")
# Controls, the invisible characters that reorder text on screen, and those that hide a text in it (tags).
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
# memoryd.is_blank() and memoryd.unseen() in the database have the same.
_SEEN = re.compile(
    "[^\\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def is_blank(text: str) -> bool:
    """Whether it has nothing that is seen."""
    return _SEEN.search(text) is None


def rendered(text: str) -> str:
    """The text as a terminal would leave it, line by line: no escapes, progress bars at their last state.

    Lone surrogates become U+FFFD; tabs and exotic line breaks become blanks; other controls go.
    """
    if text.replace("\n", " ").isprintable():
        return text
    text = _STAND_INS.sub("", text)
    if "\x1b" in text or "\x9b" in text or "\x9d" in text:
        if "K" in text:
            # What erases to the line's start is sent from its end: it empties the line as well.
            text = _ERASE_LINE.sub(
                lambda found: _ERASED_ALL if found[1] in ("1", "2") else _ERASED_TAIL, text
            )
        text = _ESCAPE.sub("", text)
    if _REDRAWS.search(text):
        text = "\n".join(
            _redrawn(line) if _REDRAWS.search(line) else line
            for line in text.replace("\r\n", "\n").split("\n")
        )
    text = _BLANKS.sub(" ", text)
    text = _INVISIBLE.sub("", text)
    return _SURROGATE.sub("\ufffd", text)


def one_line(text: str, limit: int) -> str:
    """The rendered text with every run of white space as one blank, at most `limit` characters.

    What a person wrote is not a progress bar: here a carriage return is white space and erases nothing.
    """
    # Rendering and white space may shrink the text, so look at more than the limit, but never at megabytes.
    return cut(" ".join(rendered(text[: limit * 8 + 1024].replace("\r", "\n")).split()), limit)


def cut(text: str, limit: int) -> str:
    """The text, or its first `limit - 1` characters and an ellipsis."""
    if len(text) <= limit:
        return text
    return text[: max(limit - 1, 0)].rstrip() + ELLIPSIS


def _redrawn(line: str) -> str:
    """One line on which the cursor moved back (carriage returns, backspaces, erasures)."""
    shown: list[str] = []
    column = 0
    for part in _REDRAW_PARTS.findall(line):
        if part == "\r":
            column = 0
        elif part == "\b":
            column = max(column - 1, 0)
        elif part == _ERASED_TAIL:
            del shown[column:]
        elif part == _ERASED_ALL:
            shown.clear()
            column = 0
        else:
            shown[column : column + len(part)] = part
            column += len(part)
    return "".join(shown)
