"""Charts of Office files: the values that they show, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from plugins.documents.parsing.formats import shown
from plugins.documents.parsing.grids import Cell, markdown
from plugins.documents.parsing.texts import whole

MAX_POINTS = 10_000


def chart(root: Element) -> Iterator[str]:
    """Title and table. A chart without values in the file is its title alone."""
    title = next((" ".join(_words(each)) for each in root.iter("title")), "")
    if title:
        yield f"Chart: {title}\n"
    names: list[str] = []
    columns: list[list[str]] = []
    for series in root.iter("ser"):
        categories = next(
            (_points(each) for name in ("cat", "xVal") if (each := series.find(name)) is not None), []
        )
        values = next(
            (_points(each) for name in ("val", "yVal") if (each := series.find(name)) is not None), []
        )
        if not columns:
            columns.append(categories or [str(n) for n in range(1, len(values) + 1)])
        names.append(" ".join(" ".join(_words(each)) for each in series.findall("tx")))
        columns.append(values)
    for data in root.iter("data"):  # of the kinds of charts that came in 2016
        columns += [_points(each) for each in data if each.tag in ("strDim", "numDim")]
        names += [" ".join(_words(each)) for each in root.iter("tx")]
    if len(columns) > 1:
        height = max(map(len, columns))
        rows = [[column[n] if n < len(column) else "" for column in columns] for n in range(height)]
        head = ["", *names, *[""] * len(columns)][: len(columns)]
        yield from markdown(
            [[Cell(text, is_name=n == 0) for text in row] for n, row in enumerate([head, *rows])]
        )


def _words(element: Element) -> list[str]:
    return [
        text
        for each in element.iter()
        if each.tag in ("t", "v") and (text := " ".join((each.text or "").split()))
    ]


def _points(element: Element) -> list[str]:
    """The values, each at its number."""
    code = element.findtext(".//formatCode") or next(
        (said for each in element.iter("lvl") if (said := each.get("formatCode"))), "General"
    )
    found: dict[int, str] = {}
    for point in element.iter("pt"):
        text = point.findtext("v") or point.text or ""
        if (number := whole(point.get("idx"), MAX_POINTS)) < MAX_POINTS:
            found.setdefault(number, shown(text, code))
    return [found.get(n, "") for n in range(max(found, default=-1) + 1)]
