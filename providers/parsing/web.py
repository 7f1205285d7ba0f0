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

from providers.parsing.decoding import decode
from providers.parsing.texts import clean, one_line, title_of
from providers.ports import Parsed

UNSEEN = [
    "title", "script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas", "audio", "video",
    "select", "datalist", "dialog",
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
    "body": {"head"},
}  # fmt: skip
"""Which open tags each tag ends, when it directly follows in them: many pages leave their end tags out."""

MAX_DEPTH = 300
"""Of tags. Converting recurses, so a page that is deeper becomes text without structure. Real pages are below 100."""

_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_WITHIN = re.compile(r"\s*(?:#|javascript:|data:|vbscript:)", re.IGNORECASE)
"""Where a link leads that is of no use outside of the page."""
PERMALINKS = ("¶", "#", "§", "🔗")
"""What pages put behind a heading to link to it."""


def read(content: bytes, name: str, room: int) -> Parsed:
    """The page; title from <title>, the first <h1>, or the name. Raises `Unreadable`."""
    declared = EncodingDetector.find_declared_encoding(content, is_html=True, search_entire_document=False)
    text, _ = decode(content, declared)
    text, title = convert(text)
    return Parsed(text=text, title=title or title_of(name), document_type="html", metadata={})


def convert(html: str) -> tuple[str, str | None]:
    """Markdown, and the page's title if it has one."""
    soup = _Soup(html, "html.parser")
    title = _title(soup)
    _remove_unseen(soup)
    if _depth(soup) > MAX_DEPTH:
        text = soup.get_text("\n")
    else:
        text = _Converter(
            heading_style=ATX,
            bullets="-",
            escape_asterisks=False,
            escape_underscores=False,
            escape_misc=False,
            table_infer_header=True,
            code_language_callback=_language,
        ).convert_soup(soup)
    lines = clean(text).split("\n")
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

    def convert_img(self, el: Any, text: str, parent_tags: Any) -> str:
        return one_line(str(el.get("alt") or ""))

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:
        if text.strip() in PERMALINKS:
            return ""
        if _WITHIN.match(str(el.get("href") or "")):
            return text
        el.attrs.pop("title", None)
        return str(super().convert_a(el, text, parent_tags))  # type: ignore[misc]


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
    for tag in soup.find_all(UNSEEN):
        if not tag.decomposed:
            tag.decompose()
    for tag in soup.find_all(_hidden):
        if not tag.decomposed:
            tag.decompose()
    for each in soup.find_all(string=lambda text: isinstance(text, PreformattedString)):
        each.extract()


def _hidden(tag: Tag) -> bool:
    return tag.has_attr("hidden") or bool(_HIDDEN.search(str(tag.get("style") or "")))


def _depth(soup: BeautifulSoup) -> int:
    """The deepest nesting, without recursion."""
    depths = {id(soup): 0}
    for tag in soup.descendants:
        if isinstance(tag, Tag):
            depths[id(tag)] = depths[id(tag.parent)] + 1
    return max(depths.values())
