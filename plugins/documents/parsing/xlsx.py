"""XLSX: a table a sheet, with the cells' texts as the sheet shows them. Hidden sheets say that they are hidden."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError

from plugins.documents.parsing.charts import chart
from plugins.documents.parsing.formats import BUILT_IN, shown
from plugins.documents.parsing.grids import Cell, markdown
from plugins.documents.parsing.package import DAMAGED, Package
from plugins.documents.parsing.texts import power, whole
from plugins.files.local import UnreadableFileError

_SPOT = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
MAX_COVERED = 100_000
"""Cells that are parts of merged ones."""
Spans = dict[tuple[int, int], tuple[int, int]]


def sheets(package: Package) -> list[str]:
    root = package.xml(package.main("xl/workbook.xml"))
    return [each.get("name", "") for each in ([] if root is None else root.iter("sheet"))]


def lines(package: Package) -> Iterator[str]:
    """The workbook in Markdown. Raises `UnreadableFileError`."""
    main = package.main("xl/workbook.xml")
    root = package.xml(main)
    if root is None:
        raise UnreadableFileError(DAMAGED)
    related = package.related(main)
    book = _Book(package, dict(related.values()), root)
    for sheet in root.iter("sheet"):
        path = related.get(sheet.get("r:id", ""), ("", ""))[1]
        hidden = "" if sheet.get("state", "visible") == "visible" else " (hidden)"
        table = markdown(book.rows(path))
        remarks = list(_remarks(package, path))
        if table or remarks:
            yield f"## {sheet.get('name', '')}{hidden}\n"
            yield from [*table, ""] if table else []
            yield from [*remarks, ""] if remarks else []


class _Book:
    """What the cells of all sheets refer to."""

    def __init__(self, package: Package, parts: dict[str, str], root: Element) -> None:
        self._package = package
        strings = package.xml(parts.get("sharedStrings", ""))
        self._strings = [_rich(each) for each in ([] if strings is None else strings)]
        styles = package.xml(parts.get("styles", ""))
        codes: dict[int, str] = {}
        self._formats: list[str] = []
        if styles is not None:
            codes = {
                whole(each.get("numFmtId")): each.get("formatCode", "") for each in styles.iter("numFmt")
            }
            used = styles.find("cellXfs")
            for each in [] if used is None else used:
                number = whole(each.get("numFmtId"))
                known = BUILT_IN.get(number, "yyyy-mm-dd" if 27 <= number <= 58 else "General")
                self._formats.append(codes.get(number, known))
        properties = root.find("workbookPr")
        self._since_1904 = properties is not None and properties.get("date1904") in ("1", "true")

    def rows(self, path: str) -> list[list[Cell]]:
        """The cells of a sheet, without rows and columns in which nothing stands."""
        found: dict[int, dict[int, str]] = {}
        spans: Spans = {}
        row = column = 0
        try:
            for each in self._package.elements(path):
                if each.tag == "c":
                    spot = _SPOT.fullmatch(each.get("r", ""))
                    column = _column(spot[1]) if spot else column + 1
                    if text := self._text(each):
                        found.setdefault(int(spot[2]) if spot else row + 1, {})[column] = text
                elif each.tag == "row":
                    row, column = whole(each.get("r"), row + 1), 0
                    each.clear()
                elif each.tag == "mergeCell":
                    _add_span(each.get("ref", ""), spans)
        except ParseError:
            pass  # as far as it goes
        return _table(found, spans)

    def _text(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        value = cell.findtext("v") or ""
        if kind == "s":
            return self._strings[int(value)] if whole(value, len(self._strings)) < len(self._strings) else ""
        if kind == "inlineStr":
            return "".join(map(_rich, cell.findall("is")))
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if not value and (formula := cell.findtext("f")):
            return f"={formula}"
        if kind != "n" or not value:
            return value
        style = whole(cell.get("s"))
        code = self._formats[style] if style < len(self._formats) else "General"
        return shown(value, code, since_1904=self._since_1904)


def _table(found: dict[int, dict[int, str]], spans: Spans) -> list[list[Cell]]:
    columns = sorted({column for row in found.values() for column in row})
    numbers = sorted(found)
    covered: set[tuple[int, int]] = set()
    rows = []
    for row in numbers:
        cells = []
        for column in columns:
            if (row, column) in covered:
                continue
            down, right = spans.get((row, column), (row, column))
            below = numbers[bisect_left(numbers, row) : bisect_right(numbers, down)]
            beside = columns[bisect_left(columns, column) : bisect_right(columns, right)]
            if len(covered) < MAX_COVERED and len(below) * len(beside) > 1:
                covered.update((r, c) for r in below[:MAX_COVERED] for c in beside)
            cells.append(Cell(found[row].get(column, ""), len(below), len(beside)))
        rows.append(cells)
    return rows


def _add_span(reference: str, spans: Spans) -> None:
    spots = [_SPOT.fullmatch(each) for each in reference.split(":")]
    if len(spots) == 2 and spots[0] and spots[1] and len(spans) < 100_000:
        spans[int(spots[0][2]), _column(spots[0][1])] = int(spots[1][2]), _column(spots[1][1])


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number


def _rich(element: Element) -> str:
    """The text of a string, without what says how it is pronounced."""
    said = [
        power(each.text or "") if _is_raised(part) else each.text or ""
        for part in element
        if part.tag in ("t", "r")
        for each in part.iter("t")
    ]
    return "".join(said).replace("_x000D_", "")


def _is_raised(part: Element) -> bool:
    align = part.find("rPr/vertAlign")
    return align is not None and align.get("val") == "superscript"


def _remarks(package: Package, sheet: str) -> Iterator[str]:
    """What people noted beside cells, and what stands in shapes."""
    for kind, part in package.related(sheet).values():
        root = package.xml(part) if kind in ("comments", "threadedComment", "drawing") else None
        if root is None:
            continue
        for other, path in package.related(part).values():
            drawn = package.xml(path) if other in ("chart", "chartEx") else None
            # Its values stand in the cells.
            if drawn is not None and (title := next(chart(drawn), "")).startswith("Chart: "):
                yield f"- {title.strip()}"
        for each in root.iter("comment" if kind == "comments" else "threadedComment"):
            text = " ".join("".join(each.itertext()).split())
            if not text.startswith("[Threaded comment]"):
                yield f"- Comment on {each.get('ref', '')}: {text}"
        for paragraph in root.iter("p") if kind == "drawing" else ():
            if text := "".join(t.text or "" for t in paragraph.iter("t")).strip():
                yield f"- {text}"
