"""The glossary of memoryd (docs/glossary.md), to which the pages link from the words that they use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
# Installed it lies beside the pages, in a checkout among the documentation.
FILES = (FOLDER / "glossary.md", FOLDER.parents[1] / "docs" / "glossary.md")
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|[^|]*\|$", re.MULTILINE)
LINK = re.compile(r" ?\((?:\[[^\]]*\]\([^)]*\)|`[\w/]+(?:\.py|/)`)\)|\[([^\]]*)\]\([^)]*\)")
"""A link, and a file of the source: neither leads anywhere from a page. A link within a sentence leaves its words."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word, what it means, and where the page of words has it."""

    word: str
    meaning: str
    anchor: str


@cache
def terms() -> Mapping[str, Term]:
    """The words of the glossary, in its order, by word; of "context, context block" by each."""
    text = next(path.read_text("utf-8") for path in FILES if path.exists())
    found: dict[str, Term] = {}
    for words, meaning in ROW.findall(text):
        if words not in ("word", "---"):
            plain = LINK.sub(lambda link: link[1] or "", meaning).translate({ord("`"): None, ord("*"): None})
            made = Term(words, plain, re.sub(r"\W+", "-", words.lower()))
            found.update(dict.fromkeys(words.split(", "), made))
    return found
