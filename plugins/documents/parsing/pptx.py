"""PPTX: a section a slide, with its tables, charts, notes and the words that stand for pictures.

What bold or coloured text looks like is left out: nobody searches for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from plugins.documents.parsing import formulas
from plugins.documents.parsing.charts import chart
from plugins.documents.parsing.grids import Cell, markdown
from plugins.documents.parsing.package import DAMAGED, Package
from plugins.documents.parsing.texts import numeral, power, whole
from plugins.files.local import UnreadableFileError

TITLES = ("title", "ctrTitle")
UNSEEN = ("sldNum", "dt", "ftr", "hdr", "sldImg")
"""What stands on every slide."""


def lines(package: Package) -> Iterator[str]:
    """The presentation in Markdown. Raises `UnreadableFileError`."""
    main = package.main("ppt/presentation.xml")
    root = package.xml(main)
    if root is None:
        raise UnreadableFileError(DAMAGED)
    related = package.related(main)
    paths = [related[key][1] for each in root.iter("sldId") if (key := each.get("r:id", "")) in related]
    for number, path in enumerate(paths, 1):
        if (slide := package.xml(path)) is not None:
            yield from _Slide(package, path).lines(slide, number)


class _Slide:
    def __init__(self, package: Package, path: str) -> None:
        self._package = package
        self._related = package.related(path)

    def lines(self, slide: Element, number: int) -> Iterator[str]:
        shapes = list(_shapes(slide))
        title = next((shape for shape in shapes if _placeholder(shape) in TITLES), None)
        words = " ".join(text for _, text, _ in _paragraphs(title)) if title is not None else ""
        hidden = " (hidden)" if slide.get("show") in ("0", "false") else ""
        yield f"## {words or f'Slide {number}'}{hidden}\n"
        for shape in shapes:
            if shape is not title and (block := "\n".join(self._shape(shape))):
                yield f"{block}\n"
        for kind, path in self._related.values():
            if kind == "notesSlide" and (remarks := self._package.xml(path)) is not None:
                said = [
                    text
                    for shape in _shapes(remarks)
                    if _placeholder(shape) == "body"
                    for text in _texts(shape)
                ]
                if said:
                    yield "\n".join([f"Notes: {said[0]}", *said[1:], ""])
            if kind == "comments" and (comments := self._package.xml(path)) is not None:
                yield from (f"Comment: {text}\n" for text in _comments(comments))

    def _shape(self, shape: Element) -> Iterator[str]:
        if _placeholder(shape) in UNSEEN:
            return
        if (table := shape.find(".//tbl")) is not None:
            yield from markdown(
                [
                    [_cell(cell) for cell in row.findall("tc") if not _is_covered(cell)]
                    for row in table.iter("tr")
                ]
            )
        elif shape.tag == "graphicFrame":
            for each in shape.iter():
                kind, path = self._related.get(each.get("r:id") or each.get("r:dm") or "", ("", ""))
                if kind in ("chart", "chartEx") and (root := self._package.xml(path)) is not None:
                    yield from chart(root)
                if kind == "diagramData" and (root := self._package.xml(path)) is not None:
                    yield from (f"- {text}" for point in root.iter("pt") for text in _texts(point))
        elif shape.tag == "pic":
            named = shape.find("nvPicPr/cNvPr")
            yield " ".join((named.get("descr") or "").split()) if named is not None else ""
        else:
            found = list(_paragraphs(shape))
            listed = _placeholder(shape) in ("body", "obj", "") and len(found) > 1
            for level, text, mark in found:
                shown = ("- " if listed or level else "") if mark is None else mark
                yield f"{'  ' * level if shown else ''}{shown}{text}"


def _shapes(root: Element) -> Iterator[Element]:
    """In their order, those of groups too. Of alternatives the first."""
    for each in root:
        if each.tag in ("sp", "pic", "graphicFrame"):
            yield each
        elif each.tag == "AlternateContent":
            yield from _shapes(next(iter(each), each))
        elif each.tag in ("cSld", "spTree", "grpSp", "Choice", "Fallback"):
            yield from _shapes(each)


def _placeholder(shape: Element) -> str | None:
    """The kind of a placeholder, '' of one without; None: it is none."""
    found = shape.find("*/nvPr/ph")
    return None if found is None else found.get("type", "")


def _paragraphs(shape: Element) -> Iterator[tuple[int, str, str | None]]:
    """How deep each is, its words, and what stands before it: nothing, a number, or what is usual (None)."""
    counts: dict[int, int] = {}
    for paragraph in shape.iter("p"):
        if text := _words(paragraph):
            properties = paragraph.find("pPr")
            level = min(whole(properties.get("lvl")), 8) if properties is not None else 0
            plain = properties is not None and properties.find("buNone") is not None
            numbered = properties.find("buAutoNum") if properties is not None else None
            counts = {each: count for each, count in counts.items() if each < level + (numbered is not None)}
            if numbered is None:
                yield level, text, "" if plain else None
                continue
            counts[level] = counts.get(level, whole(numbered.get("startAt"), 1) - 1) + 1
            yield level, text, _number(counts[level], numbered.get("type", ""))


def _number(number: int, kind: str) -> str:
    letters = {
        "alphaLc": "lowerLetter",
        "alphaUc": "upperLetter",
        "romanLc": "lowerRoman",
        "romanUc": "upperRoman",
    }
    said = numeral(number, next((name for start, name in letters.items() if kind.startswith(start)), ""))
    return (
        f"({said}) "
        if kind.endswith("ParenBoth")
        else f"{said}) "
        if kind.endswith("ParenR")
        else f"{said}. "
    )


def _texts(shape: Element) -> Iterator[str]:
    return (text for _, text, _ in _paragraphs(shape))


def _words(paragraph: Element) -> str:
    said = ""
    for each in paragraph:
        if each.tag in ("r", "fld"):
            text, about = each.findtext("t") or "", each.find("rPr")
            raised = about is not None and whole(about.get("baseline")) > 0
            said += power(text) if raised else text
        elif each.tag == "br":
            said += " "
        elif (formula := next(each.iter("oMath"), None)) is not None:
            said += formulas.text(formula)
    return " ".join(said.replace("_x000B_", " ").split())


def _cell(cell: Element) -> Cell:
    rows, columns = (whole(cell.get(name), 1) for name in ("rowSpan", "gridSpan"))
    return Cell(" ".join(_texts(cell)), rows, columns)


def _is_covered(cell: Element) -> bool:
    return any(cell.get(name) in ("1", "true") for name in ("hMerge", "vMerge"))


def _comments(root: Element) -> Iterator[str]:
    for each in root.iter("cm"):
        text = each.findtext("text") or " ".join(_texts(each))
        if text.strip():
            yield " ".join(text.split())
