"""The headings of a Markdown text, and which of them is its title."""

from __future__ import annotations

import re
from collections.abc import Iterator

from plugins.documents.parsing.texts import one_line

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_CLOSING = re.compile(r"[ \t]+#+[ \t]*\Z")
_LINK = re.compile(r"!?\[([^\[\]]{0,500})\]\([^()\s]{0,2000}\)")
_MADE_BY = re.compile(r"microsoft (?:office )?(?:word|powerpoint|excel) - ", re.IGNORECASE)
_EXTENSION = re.compile(
    r"\.(?:docx?|docm|dotx?|rtf|odt|wpd|xls[xm]?|ods|csv|ppt[xm]?|odp|pdf|ps|eps|tex|dvi|indd|qxd|fm|pub|html?|txt|md|tmp|exe)\Z",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"\W*(?:anonymous|unknown|unnamed|untitled|unbenannt|unspecified|sans titre|sin título|no title|none|null|title|titel|titre"
    r"|(?:untitled |new |word |microsoft word |neues? )?(?:document|dokument|doc|presentation|präsentation|présentation"
    r"|presentación|workbook|mappe|book|sheet|tabelle|slide|folie|diapositive|diapositiva|page|seite|scan|image|file|layout|template)"
    r"|powerpoint[ -](?:presentation|präsentation)|présentation powerpoint|presentación de powerpoint|index|home"
    r"|microsoft (?:word|powerpoint|excel)|[0-9a-f-]{16,})[\W\d]*",
    re.IGNORECASE,
)
"""What programs call what nobody has named."""


def best_title(said: str | None, text: str = "") -> str | None:
    """What a file says is its title, or else its first heading: the first of them that says something."""
    for each in (said or "", *_headings(text)):
        title = _EXTENSION.sub("", _MADE_BY.sub("", one_line(each)))
        if not _NOTHING.fullmatch(title) and len(re.findall(r"[^\W\d_]", title)) > 1:
            return title
    return None


def _headings(text: str) -> Iterator[str]:
    """The headings outside of code, as plain words."""
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
            yield _words(_CLOSING.sub("", heading[1]))
        elif before and _UNDERLINE.fullmatch(line) and "=" in line:
            yield _words(before)
        before = line.strip()


def _words(heading: str) -> str:
    heading = _LINK.sub(r"\1", heading[:5_000])
    return one_line(re.sub(r"\*\*|__|`", "", heading))
