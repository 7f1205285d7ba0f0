"""HTML as Markdown: what a reader of the page sees.

Gone are scripts, styles, comments, and what is hidden. Headings, lists, tables, links and code stay. Of pictures the text that
stands for them stays. Nothing is escaped: `snake_case` shall be found as it is written.
"""

from __future__ import annotations

import re
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.dammit import EncodingDetector
from bs4.element import PreformattedString
from markdownify import ATX, MarkdownConverter

from providers.parsing.decoding import decode
from providers.parsing.texts import clean, one_line, title_of
from providers.ports import Parsed

UNSEEN = [
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas", "audio", "video",
    "head", "select", "datalist", "dialog",
]  # fmt: skip
MAX_DEPTH = 300
"""Of tags. Converting recurses, so a page that is deeper becomes text without structure. Real pages are below 100."""

_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_UNSAFE = re.compile(r"\s*(?:javascript|data|vbscript):", re.IGNORECASE)


def read(content: bytes, name: str, room: int) -> Parsed:
    """The page; title from <title>, the first <h1>, or the name. Raises `Unreadable`."""
    declared = EncodingDetector.find_declared_encoding(content, is_html=True, search_entire_document=False)
    text, _ = decode(content, declared)
    text, title = convert(text)
    return Parsed(text=text, title=title or title_of(name), document_type="html", metadata={})


def convert(html: str) -> tuple[str, str | None]:
    """Markdown, and the page's title if it has one."""
    soup = BeautifulSoup(html, "html.parser")
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


class _Converter(MarkdownConverter):
    """Markdown without what only a browser can use."""

    def convert_img(self, el: Any, text: str, parent_tags: Any) -> str:
        return one_line(str(el.get("alt") or ""))

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:
        if _UNSAFE.match(str(el.get("href") or "")):
            return text
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
        found = soup.find(tag)
        if found is not None and (words := one_line(found.get_text(" "))):
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
