"""DOCX as Markdown: headings, lists with their numbers, tables; headers, footers, notes, comments, formulas, text boxes.

A note or comment stands below the paragraph that it is about. What was deleted and what is hidden is left out, and so is what
is bold: nobody searches for it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from plugins.documents.parsing import formulas
from plugins.documents.parsing.charts import chart
from plugins.documents.parsing.grids import Cell, markdown
from plugins.documents.parsing.package import DAMAGED, Package
from plugins.documents.parsing.texts import numeral, power, whole
from plugins.files.decoding import decode
from plugins.files.local import UnreadableFileError

THROUGH = frozenset((
    "hyperlink", "ins", "moveTo", "smartTag", "sdt", "sdtContent", "fldSimple", "customXml", "dir", "bdo", "Choice", "Fallback",
))  # fmt: skip
"""What only surrounds text."""
LETTERS = {"tab": " ", "ptab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
MAX_LEVEL = 8

_PAGE = re.compile(r"\W*[^\W\d]{0,6}\W*\d*\W*(?:[^\W\d]{1,4}\W*\d*)?\W*")
"""The number of a page, and how many there are."""
_LETTER = re.compile(r"[0-9A-Ea-e][0-9A-Fa-f]{3}")
"""Of a font that has letters. Others have pictures."""
_MARK = re.compile(r"(?:-|\d{1,9}[.)]) ")
"""Of an item, in Markdown."""
_LEVEL_NUMBER = re.compile(r"%([1-9])")
_LIKE_MARKUP = re.compile(r"(?=#{1,6} )")


def lines(package: Package) -> Iterator[str]:
    """The document. Raises `UnreadableFileError`."""
    path = package.main("word/document.xml")
    root = package.xml(path)
    if root is None or (body := root.find("body")) is None:
        raise UnreadableFileError(DAMAGED)
    document = _Document(package, path)
    yield from document.around("header")
    before = ""
    for block in document.blocks(body):
        if before and not (_is_item(before) and _is_item(block)):
            yield ""
        yield block
        before = block
    yield from document.around("footer")


def _is_item(block: str) -> bool:
    return re.match(r" *(?:-|\(?\w{1,6}[.)]) ", block) is not None


@dataclass(frozen=True, slots=True)
class _Level:
    """Of a list: in which signs it counts, from which number on, and what stands around them."""

    kind: str = "bullet"
    start: int = 1
    form: str = ""
    in_digits: bool = False


@dataclass(frozen=True, slots=True)
class _Style:
    heading: int | None
    number: str | None
    level: int


class _Document:
    def __init__(self, package: Package, path: str) -> None:
        self._package = package
        self._related = package.related(path)
        self._styles: dict[str, _Style] = {}
        self._read_styles()
        self._levels: dict[str, dict[int, _Level]] = {}
        """Of the lists, by their numbers."""
        self._lists: dict[str, str] = {}
        self._read_numbering()
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        self._widths: list[int] = [2] * (MAX_LEVEL + 1)
        self._remarks = {
            kind: {
                each.get("id", ""): each
                for each in self._part(f"{kind}s")
                if each.get("type") in (None, "normal")
            }
            for kind in ("footnote", "endnote", "comment")
        }
        self._count = 0
        self._nested = 0
        self._below: list[str] = []
        """What stands below the paragraph or table that is being read."""

    def around(self, kind: str) -> Iterator[str]:
        """The headers or footers of all pages, each once."""
        seen: set[str] = set()
        for each, path in list(self._related.values()):
            root = self._package.xml(path) if each == kind else None
            text = self._within(root)
            if text not in seen and not _PAGE.fullmatch(text):
                seen.add(text)
                yield from [text, ""] if kind == "header" else ["", text]

    def blocks(self, root: Element) -> Iterator[str]:
        """Paragraphs, items and tables."""
        for each in root:
            if each.tag == "p":
                yield from self._paragraph(each)
            elif each.tag == "tbl":
                yield from self._table(each)
            elif each.tag == "oMathPara":
                yield formulas.text(each)
            elif each.tag == "altChunk":
                yield self._page(each)
            elif each.tag == "AlternateContent":
                yield from self.blocks(next(iter(each), each))
            elif each.tag in THROUGH:
                yield from self.blocks(each)
            if each.tag in ("p", "tbl"):
                below, self._below = self._below, []
                yield from below

    def _page(self, element: Element) -> str:
        """A page of HTML in the document, as some programs export all that they have."""
        _, path = self._related.get(element.get("r:id", ""), ("", ""))
        if not path.endswith((".html", ".htm", ".xhtml")):
            return ""
        content = self._package.content(path)
        from plugins.documents.parsing import web  # its packages come with an extra

        with suppress(UnreadableFileError):
            return web.convert(decode(content, web.declared(content))[0])[0]
        return ""

    def _paragraph(self, paragraph: Element) -> Iterator[str]:
        text = "\n".join(" ".join(line.split()) for line in self._words(paragraph).split("\n")).strip()
        if not text:
            return
        properties = paragraph.find("pPr")
        style = self._styles.get(_value(properties, "pStyle") or self._usual, _Style(None, None, 0))
        heading = _outline(properties) or style.heading
        numbered = properties.find("numPr") if properties is not None else None
        number = _value(numbered, "numId") or style.number
        level = min(whole(_value(numbered, "ilvl"), style.level), MAX_LEVEL)
        mark = self._mark(number, level) if number in self._lists else None
        if heading is not None:
            yield f"{'#' * heading} {(mark or '').removeprefix('- ')}{' '.join(text.split())}"
        elif mark is not None:
            self._widths[level] = len(mark) if _MARK.fullmatch(mark) else 0
            indent = " " * sum(self._widths[:level])
            yield indent + mark + text.replace("\n", "\n" + indent + " " * self._widths[level])
        else:
            yield _LIKE_MARKUP.sub(r"\\", text)

    def _mark(self, number: str, level: int) -> str:
        """What stands before the next item of a list."""
        levels = self._levels[number]
        own = levels.get(level, _Level())
        counts = self._counts[self._lists[number]]
        counts[level] = counts.get(level, own.start - 1) + 1
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        if own.kind == "bullet":
            return "- "

        def said(found: re.Match[str]) -> str:
            at = int(found[1]) - 1
            other = levels.get(at, _Level())
            return numeral(counts.get(at, other.start), "decimal" if own.in_digits else other.kind)

        mark = " ".join(_LEVEL_NUMBER.sub(said, own.form).split()) if own.kind != "none" else ""
        return f"{mark} " if mark else ""

    def _words(self, element: Element) -> str:
        said = ""
        for each in element:
            if each.tag == "r":
                said += self._run(each)
            elif each.tag in ("oMath", "oMathPara"):
                said += formulas.text(each)
            elif each.tag == "hyperlink":
                kind, target = self._related.get(each.get("r:id", ""), ("", ""))
                words = self._words(each)
                said += (
                    f"[{words}]({target})"
                    if kind == "external" and words.strip() and words != target
                    else words
                )
            elif each.tag in THROUGH:
                said += self._words(each)
            elif each.tag == "AlternateContent":
                said += self._words(next(iter(each), each))
        return said

    def _run(self, run: Element) -> str:
        if _value(run.find("rPr"), "vanish") not in (None, "0", "false"):
            return ""
        said = ""
        for each in run:
            if each.tag == "t":
                said += (each.text or "").replace("\u00ad", "").replace("\u2011", "-")
            elif each.tag == "AlternateContent":
                said += self._run(next(iter(each), each))
            elif each.tag in ("footnoteReference", "endnoteReference", "commentReference"):
                said += self._remark(each.tag.removesuffix("Reference"), each.get("id", ""))
            elif each.tag in ("drawing", "pict", "object"):
                said += self._drawn(each)
            elif each.tag == "ruby":
                base, reading = ("".join(map(self._words, each.findall(name))) for name in ("rubyBase", "rt"))
                said += f"{base}({reading})" if reading else base
            elif each.tag == "sym" and _LETTER.fullmatch(code := each.get("char", "")):
                said += chr(int(code, 16))
            elif each.tag != "br" or each.get("type") in (None, "textWrapping"):
                said += LETTERS.get(each.tag, "")
        return power(said) if _value(run.find("rPr"), "vertAlign") == "superscript" else said

    def _remark(self, kind: str, key: str) -> str:
        remark = self._remarks[kind].pop(key, None)
        text = self._within(remark)
        if not text:
            return ""
        if kind == "comment":
            author = remark.get("author", "") if remark is not None else ""
            self._below.append(f"Comment{f' ({author})' if author else ''}: {text}")
            return ""
        self._count += 1
        self._below.append(f"[{self._count}] {text}")
        return f"[{self._count}]"

    def _drawn(self, element: Element) -> str:
        boxes = list(element.iter("txbxContent"))
        for each in boxes:
            kept, self._below = self._below, []
            self._below = [*kept, *self.blocks(each)]
        for each in element.iter("chart"):
            kind, path = self._related.get(each.get("r:id", ""), ("", ""))
            root = self._package.xml(path) if kind == "chart" else None
            self._below += ["\n".join(chart(root))] if root is not None else []
        described = next((text for each in element.iter("docPr") if (text := each.get("descr"))), "")
        return f" {' '.join(described.split())} " if described and not boxes else ""

    def _within(self, root: Element | None) -> str:
        """The text of a cell, note, header or footer, on one line."""
        if root is None:
            return ""
        kept, self._below, self._nested = self._below, [], self._nested + 1
        text = " ".join(" ".join(self.blocks(root)).split())
        self._below, self._nested = kept, self._nested - 1
        return text

    def _table(self, table: Element) -> Iterator[str]:
        if all(len(list(_inside(row, "tc"))) < 2 for row in _inside(table, "tr")):
            # Only a frame around its text.
            for row in _inside(table, "tr"):
                for cell in _inside(row, "tc"):
                    yield from self.blocks(cell)
            return
        rows: list[list[_Merged]] = []
        above: dict[int, _Merged] = {}
        for row in _inside(table, "tr"):
            properties = row.find("trPr")
            named = _value(properties, "tblHeader") not in (None, "0", "false")
            first = whole(_value(properties, "gridBefore"))
            cells = [_Merged("", 1, 1, named) for _ in range(min(first, 100))]
            column = len(cells)
            for cell in _inside(row, "tc"):
                about = cell.find("tcPr")
                merge = _value(about, "vMerge")
                if merge not in (None, "restart") and column in above:
                    above[column].rows += 1
                    column += above[column].columns
                    continue
                width = min(whole(_value(about, "gridSpan"), 1), 1_000)
                made = _Merged(self._within(cell), 1, width, named)
                above.pop(column, None)
                if merge == "restart":
                    above[column] = made
                cells.append(made)
                column += width
            rows.append(cells)
        if self._nested:
            yield "; ".join(", ".join(cell.text for cell in row if cell.text) for row in rows)
            return
        marked = any(cell.named for row in rows for cell in row)
        text = "\n".join(
            markdown(
                [[Cell(c.text, c.rows, c.columns, c.named if marked else None) for c in row] for row in rows]
            )
        )
        if text:
            yield text

    def _part(self, kind: str) -> list[Element]:
        path = next((path for each, path in self._related.values() if each == kind), "")
        root = self._package.xml(path)
        return [] if root is None else list(root)

    def _read_styles(self) -> None:
        found = {each.get("styleId", ""): each for each in self._part("styles") if each.tag == "style"}
        self._usual = next(
            (
                key
                for key, each in found.items()
                if each.get("default") in ("1", "true") and each.get("type") == "paragraph"
            ),
            "",
        )
        for key, style in found.items():
            heading = number = level = None
            seen: set[str] = set()
            above: Element | None = style
            while above is not None and (name := above.get("styleId", "")) not in seen:
                seen.add(name)
                properties = above.find("pPr")
                named = re.fullmatch(r"(?i)heading ([1-6])|(title)", _value(above, "name") or "")
                heading = heading or (int(named[1] or 1) if named else _outline(properties))
                numbered = properties.find("numPr") if properties is not None else None
                number = number or _value(numbered, "numId")
                level = level or _value(numbered, "ilvl")
                above = found.get(_value(above, "basedOn") or "")
            self._styles[key] = _Style(heading, number, whole(level))

    def _read_numbering(self) -> None:
        parts = self._part("numbering")
        kinds = {each.get("abstractNumId", ""): each for each in parts if each.tag == "abstractNum"}
        for each in parts:
            abstract = kinds.get(_value(each, "abstractNumId") or "") if each.tag == "num" else None
            if abstract is None:
                continue
            key = each.get("numId", "")
            levels = [
                *abstract.findall("lvl"),
                *(lvl for change in each.iter("lvlOverride") for lvl in change.findall("lvl")),
            ]
            starts = {
                change.get("ilvl", ""): start
                for change in each.iter("lvlOverride")
                if (start := _value(change, "startOverride")) is not None
            }
            self._levels[key] = {
                (at := whole(lvl.get("ilvl"))): _Level(
                    _value(lvl, "numFmt") or "decimal",
                    whole(starts.get(lvl.get("ilvl", ""), _value(lvl, "start")), 1),
                    f"%{at + 1}." if (form := _value(lvl, "lvlText")) is None else form,
                    _value(lvl, "isLgl") not in (None, "0", "false"),
                )
                for lvl in levels
            }
            # Numbers go on in all lists of one kind, but where one is told to begin again.
            self._lists[key] = f"own {key}" if starts else abstract.get("abstractNumId", "")


@dataclass(slots=True)
class _Merged:
    text: str
    rows: int
    columns: int
    named: bool


def _inside(element: Element, tag: str) -> Iterator[Element]:
    for each in element:
        if each.tag == tag:
            yield each
        elif each.tag in THROUGH:
            yield from _inside(each, tag)


def _outline(properties: Element | None) -> int | None:
    level = whole(_value(properties, "outlineLvl"), 9)
    return level + 1 if level < 6 else None


def _value(element: Element | None, name: str) -> str | None:
    """What a property says; an empty text for one that is only there. None: it is not there."""
    found = None if element is None else element.find(name)
    return None if found is None else found.get("val", "")
