"""HTML as Markdown: what a reader of the page sees.

Gone are scripts, styles, comments, and what is hidden. Headings, lists, tables, links and code stay. Of pictures the text that
stands for them stays. Nothing is escaped: `snake_case` shall be found as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.dammit import EncodingDetector
from bs4.element import PreformattedString
from markdownify import ATX, MarkdownConverter

from plugins.documents.parsing.grids import Cell, markdown
from plugins.documents.parsing.headings import best_title
from plugins.documents.parsing.texts import numeral, one_line, power, title_of, whole
from plugins.documents.ports import Parsed
from plugins.files.decoding import clean, decode

UNSEEN = [
    "title", "script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas", "audio", "video",
    "datalist", "dialog",
]  # fmt: skip
_ROW = frozenset(("p", "td", "th", "tr"))
ENDS: dict[str, AbstractSet[str]] = {
    "li": {"p", "li"}, "dt": {"p", "dt", "dd"}, "dd": {"p", "dt", "dd"},
    "td": {"p", "td", "th"}, "th": {"p", "td", "th"}, "tr": _ROW,
    "thead": _ROW, "tbody": _ROW | {"thead", "tbody"}, "tfoot": _ROW | {"thead", "tbody"},
    **dict.fromkeys(
        ("p", "div", "section", "article", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "pre",
         "blockquote"),
        frozenset(("p", "head")),
    ),
    "body": {"head"}, "option": {"option"}, "optgroup": {"option", "optgroup"},
}  # fmt: skip
"""Which open tags each tag ends, when it directly follows in them: many pages leave their end tags out."""

MAX_DEPTH = 300
"""Of tags. Converting recurses, so a page that is deeper becomes text without structure. Real pages are below 100."""

APART = frozenset((
    "address", "aside", "center", "details", "dir", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup",
    "legend", "main", "menu", "nav", "search", "summary", "textarea",
))  # fmt: skip
"""What stands in lines of its own, beside what the converter knows."""
FORMULAS = {"msup": "^", "msub": "_", "msubsup": "_^", "mfrac": "/"}
LISTS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
BESIDE = frozenset(("button", "label", "meter", "optgroup", "option", "output", "progress"))
"""What stands beside its neighbours, with room between."""
_APART = re.compile(r"display\s*:\s*(?:block|flex|grid|table|list-item|flow-root)", re.IGNORECASE)
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_WITHIN = re.compile(r"\s*(?:#|javascript:|data:|vbscript:)", re.IGNORECASE)
"""Where a link leads that is of no use outside of the page."""
BLOCKS = ["table", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "form", "article", "section"]
"""What is in the cells of a table that is there for the layout."""
LONG = 1_000
"""Characters of a cell that only a layout has, where no cell is marked as a name."""
SHORT = 100
PERMALINKS = ("¶", "#", "§", "🔗")
"""What pages put behind a heading to link to it."""


def read(content: bytes, name: str, room: int) -> Parsed:
    """The page; title from <title>, the first <h1>, or the name. Raises `UnreadableFileError`."""
    html, mark = decode(content, declared(content))
    text, title = convert(html)
    return Parsed(
        text=text, title=best_title(title, text) or title_of(name), document_type="html", metadata=mark
    )


def declared(content: bytes) -> str | None:
    """The encoding that the page names."""
    return EncodingDetector.find_declared_encoding(content, is_html=True, search_entire_document=False)


def convert(html: str) -> tuple[str, str | None]:
    """Markdown, and the page's title if it has one."""
    soup = _Soup(html, "html.parser")
    title = _title(soup)
    _remove_unseen(soup)
    _open_layouts(soup)
    _set_apart(soup)
    if _depth(soup) > MAX_DEPTH:
        text = soup.get_text("\n")
    else:
        text = _Converter(
            heading_style=ATX,
            bullets="-",
            escape_asterisks=False,
            escape_underscores=False,
            escape_misc=False,
            code_language_callback=_language,
        ).convert_soup(soup)
    lines = clean(text.replace("\u00ad", "")).split("\n")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n"), title


class _Soup(BeautifulSoup):
    """Ends tags whose end may be left out: the standard library's parser would nest each in the one before."""

    def handle_starttag(self, name: str, *args: Any, **kwargs: Any) -> Any:
        ended = ENDS.get(name.lower())
        if ended and self.currentTag is not None and self.currentTag.name in ended:
            self.endData()
            while self.currentTag.name in ended:
                self.popTag()
        return super().handle_starttag(name, *args, **kwargs)


class _Converter(MarkdownConverter):
    """Markdown without what only a browser can use."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._cells: dict[int, str] = {}
        """What is in each, by the id of its tag, for the table that it is in."""
        self._numbers: dict[int, str] = {}
        """Of the items of ordered lists, by the ids of their tags."""

    def convert_img(self, el: Any, text: str, parent_tags: Any) -> str:
        return one_line(str(el.get("alt") or ""))

    def convert_sup(self, el: Any, text: str, parent_tags: Any) -> str:
        return power(text)

    def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
        """An item of an ordered list with the number or letter that the page shows."""
        if el.parent is not None and el.parent.name == "ol" and id(el) not in self._numbers:
            self._numbers |= _numbers(el.parent)
        number = self._numbers.get(id(el))
        line = str(super().convert_li(el, text, parent_tags))  # type: ignore[misc]
        return line if number is None else re.sub(r"\A\d+\. ", lambda _: f"{number}. ", line)

    def convert_msup(self, el: Any, text: str, parent_tags: Any) -> str:
        """Of a formula, as its parts that stand beside, above and below each other."""
        marks = ("", *FORMULAS[el.name])
        parts = [each.get_text() for each in el.find_all(True, recursive=False)]
        return "".join(
            mark + (part if part.isalnum() else f"({part})") for mark, part in zip(marks, parts, strict=False)
        )

    convert_msub = convert_mfrac = convert_msubsup = convert_msup

    def convert_input(self, el: Any, text: str, parent_tags: Any) -> str:
        if str(el.get("type")).lower() not in ("checkbox", "radio"):
            return ""
        apart = "" if str(el.next_sibling or "")[:1].isspace() else " "
        return f"[{'x' if el.has_attr('checked') else ' '}]{apart}"

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:
        if text.strip() in PERMALINKS:
            return ""
        if _WITHIN.match(str(el.get("href") or "")):
            return text
        el.attrs.pop("title", None)
        return str(super().convert_a(el, text, parent_tags))  # type: ignore[misc]

    def convert_td(self, el: Any, text: str, parent_tags: Any) -> str:
        self._cells[id(el)] = " ".join(text.split())
        return ""

    convert_th = convert_td

    def convert_tr(self, el: Any, text: str, parent_tags: Any) -> str:
        return ""

    def convert_table(self, el: Any, text: str, parent_tags: Any) -> str:
        named = _own(el, ["th", "thead"]) != []
        heads = [row for head in _own(el, ["thead"]) for row in head.find_all("tr", recursive=False)]
        rows = [
            [
                Cell(
                    self._cells.pop(id(cell), ""),
                    _span(cell, "rowspan"),
                    _span(cell, "colspan"),
                    (cell.name == "th" or cell.parent in heads) if named else None,
                )
                for cell in row.find_all(["td", "th"], recursive=False)
            ]
            for row in _own(el, ["tr"])
        ]
        if parent_tags & {"td", "th"}:
            # A table in a cell of another one.
            return "; ".join(", ".join(cell.text for cell in row if cell.text) for row in rows)
        return "\n\n" + "\n".join([text.strip(), "", *markdown(rows)]) + "\n\n"


def _numbers(ordered: Tag) -> dict[int, str]:
    """What the page shows before each item of a list."""
    kind = LISTS.get(str(ordered.get("type")), "")
    items = ordered.find_all("li", recursive=False)
    step = -1 if ordered.has_attr("reversed") else 1
    number = whole(str(ordered.get("start")), 1 if step > 0 else len(items)) - step
    found = {}
    for each in items:
        number = whole(str(each.get("value")), number + step)
        found[id(each)] = numeral(number, kind)
    return found


def _own(table: Tag, names: list[str]) -> list[Tag]:
    """The tags of a table with these names, but for those of tables that are in its cells."""
    return [tag for tag in table.find_all(names) if tag.find_parent("table") is table]


def _span(cell: Tag, name: str) -> int:
    """How many rows or columns a cell is merged of. 0 stands for all rows that follow."""
    said = re.match(r"\s*(\d{1,5})", str(cell.get(name) or ""))
    return 1 if said is None else int(said[1]) or (65_534 if name == "rowspan" else 1)


def _open_layouts(soup: BeautifulSoup) -> None:
    """Makes tables that only put text beside text into blocks, and rows of short texts into lines."""
    for table in soup.find_all("table"):
        if _is_layout(table):
            for tag in _own(table, ["tr", "thead", "tbody", "tfoot", "caption"]):
                tag.name = "div"
                cells = tag.find_all(["td", "th"], recursive=False)
                short = all(
                    len(cell.get_text()) < SHORT and not cell.find(["table", "div", "p", *BLOCKS])
                    for cell in cells
                )
                for cell in cells:
                    cell.name = "span" if short else "div"
                    cell.append(" ")
            table.name = "div"


def _is_layout(table: Tag) -> bool:
    """Whether nothing says that it is data, and it nests tables or blocks, or has no two rows of two cells with text."""
    if str(table.get("role") or "").lower() in ("presentation", "none"):
        return True
    if _own(table, ["th", "thead", "caption"]):
        return False
    if table.find(BLOCKS):
        return True
    texts = [
        [cell.get_text(" ", strip=True) for cell in row.find_all(["td"], recursive=False)]
        for row in _own(table, ["tr"])
    ]
    return (
        sum(len(list(filter(None, row))) > 1 for row in texts) < 2
        or max(len(text) for row in texts for text in row) > LONG
    )


def _language(pre: Tag) -> str | None:
    """Of a block of code: pages name it by a class such as `language-python`."""
    for tag in (pre, *pre.find_all("code", limit=1)):
        for each in tag.get_attribute_list("class"):
            if each and (found := re.fullmatch(r"(?:language|lang|highlight)-([\w+#.-]{1,30})", each)):
                return found[1]
    return None


def _title(soup: BeautifulSoup) -> str | None:
    for tag in ("title", "h1"):
        for found in soup.find_all(tag, limit=5):
            if found.find_parent("svg") is None and (words := one_line(found.get_text(" "))):
                return words
    return None


def _remove_unseen(soup: BeautifulSoup) -> None:
    for tag in (*soup.find_all(UNSEEN), *soup.find_all(_hidden)):
        if not tag.decomposed:
            tag.decompose()
    for each in soup.find_all(string=lambda text: isinstance(text, PreformattedString)):
        each.extract()


def _set_apart(soup: BeautifulSoup) -> None:
    """Sees to it that words of neighbours are not one word."""
    for tag in soup.find_all(True):
        if (
            tag.name in APART
            or (tag.name in ("a", "span") and _APART.search(str(tag.get("style") or "")))
            or (tag.name in ("td", "th", "tr") and tag.find_parent("table") is None)
        ):
            tag.name = "div"
        elif tag.name in BESIDE or "-" in tag.name:
            tag.insert_before(" ")
            tag.insert_after(" ")
        elif tag.name == "rt" and tag.find_previous_sibling("rp") is None:
            tag.insert_before("(")
            tag.insert_after(")")


def _hidden(tag: Tag) -> bool:
    if tag.name == "option":
        return not tag.has_attr("selected")
    return tag.has_attr("hidden") or bool(_HIDDEN.search(str(tag.get("style") or "")))


def _depth(soup: BeautifulSoup) -> int:
    """The deepest nesting, without recursion."""
    depths = {id(soup): 0}
    for tag in soup.descendants:
        if isinstance(tag, Tag):
            depths[id(tag)] = depths[id(tag.parent)] + 1
    return max(depths.values())
