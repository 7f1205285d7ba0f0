"""Renders values as HTML by templates.

Promise: every stored value is shown as text. Templates escape all values and mark no stored value as safe; `prose` escapes
what it does not show as headings, lists and the like.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse

from plugins.web.addresses import address_of
from plugins.web.forms import Option

FOLDER = Path(__file__).parent
# Of the words that pages use. Installed it lies beside the pages, in a checkout among the documentation.
GLOSSARIES = (FOLDER / "glossary.md", FOLDER.parents[1] / "docs" / "glossary.md")
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|[^|]*\|$", re.MULTILINE)
LINK = re.compile(r" ?\((?:\[[^\]]*\]\([^)]*\)|`[\w/]+(?:\.py|/)`)\)|\[([^\]]*)\]\([^)]*\)")
"""A link, and a file of the source: neither leads anywhere from a page. A link within a sentence leaves its words."""
NOTHING = "\u2013"
MENU = (
    ("/", "Now"),
    ("/memories", "Memories"),
    ("/recall", "Recall"),
    ("/context", "Context"),
    ("/graph", "Graph"),
    ("/tasks", "Tasks"),
    ("/users", "Users"),
    ("/conversations", "Conversations"),
    ("/documents", "Documents"),
    ("/knowledge", "Knowledge"),
    ("/dreams", "Dreams"),
    ("/trail", "Trail"),
    ("/audit", "Audit"),
)
"""Path and name of each page."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What was sent to a page with a bad value, the field that has it (empty: none alone), and which values are valid."""

    path: str
    asked: QueryParams
    field: str
    sentence: str
    like: Sequence[Option] = ()
    """Values of the field that may be meant."""

    def instead(self, value: str) -> QueryParams:
        """What was sent, with another value of the field."""
        kept = [(name, said) for name, said in self.asked.multi_items() if name not in (self.field, "csrf")]
        return QueryParams([*kept, (self.field, value)])


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """An HTML page; the template reads `values` by name."""
    session = getattr(request.state, "session", None)
    web = getattr(request.app.state, "web", None) if "app" in request.scope else None
    fault: Fault | None = getattr(request.state, "fault", None)
    if fault is not None:
        status = 400
    if changed := getattr(request.state, "changed", False):
        status = 409
    html = (
        environment()
        .get_template(template)
        .render(
            request=request,
            menu=MENU,
            path=request.url.path,
            asked=request.query_params if fault is None else fault.asked,
            session=session,
            csrf="" if session is None else session.csrf,
            user=None if web is None else web.user,
            edits=web is not None and web.edits,
            database=None if web is None else web.settings.database,
            changed=changed,
            typed=request.state.form.get("content") if changed else None,
            fault=fault,
            user_named=getattr(request.state, "user_named", None),
            **({"names": {}, "nobody": []} | values),
        )
    )
    # No script takes the address of what was refused for that of a page.
    return HTMLResponse(html, status_code=status, headers={} if fault is None else {"HX-Push-Url": "false"})


def tell(request: Request, done: str, what: str = "", text: str = "") -> None:
    """Has the next page of the session say what was done: to what, and the beginning of its text."""
    request.state.session.kept["told"] = (done, what, text)


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    made.filters.update(when=when, size=size, number=number, short=short, prose=prose)
    made.globals.update(
        static=static,
        query=query,
        address=address_of,
        terms=terms,
        counted=counted,
        now=lambda: datetime.now(UTC),
    )
    return made


@cache
def static(name: str) -> str:
    """The URL of a static file. It changes with the file, so browsers may keep the file for ever."""
    digest = hashlib.sha256((FOLDER / "static" / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def query(request: Request, **changes: object) -> str:
    """This page's URL with other values in its query; None removes a value."""
    values = {**request.query_params, **changes}
    return address_of(request, request.url.path, values)


def when(time: datetime | None, seconds: bool = False) -> Markup:
    """A time: people see the day and the minute, or the second; the element has all of it."""
    if time is None:
        return escape(NOTHING)
    shown = time.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        shown.isoformat(timespec="seconds"),
        shown.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"),
    )


def size(count: float | None) -> str:
    """A number of bytes, as people read it."""
    if count is None:
        return NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def number(value: float | None, digits: int = 0) -> str:
    """A number with spaces between thousands."""
    return NOTHING if value is None else f"{value:,.{digits}f}".replace(",", "\u202f")


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


@dataclass(frozen=True, slots=True)
class Term:
    """A word, what it means, and where the page of words has it."""

    word: str
    meaning: str
    anchor: str


@cache
def terms() -> Mapping[str, Term]:
    """The words of the glossary, in its order, by word; of "context, context block" by each."""
    text = next(path.read_text("utf-8") for path in GLOSSARIES if path.exists())
    found: dict[str, Term] = {}
    for words, meaning in ROW.findall(text):
        if words not in ("word", "---"):
            plain = LINK.sub(lambda link: link[1] or "", meaning).translate({ord("`"): None, ord("*"): None})
            made = Term(words, plain, re.sub(r"\W+", "-", words.lower()))
            found.update(dict.fromkeys(words.split(", "), made))
    return found


# Nothing that leads elsewhere or loads something, and no HTML: what looks like it is text.
MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
MARKDOWN.disable(["html_block", "html_inline", "link", "image", "autolink", "reference"])


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def prose(text: str) -> Markup:
    """A text of Markdown with its headings, paragraphs, lists, tables and blocks of code. All else in it is text.

    Where a word would be lost (in the fifth cell of a table of four columns, or twenty lists deep), it is shown as it is.
    """
    tokens = MARKDOWN.parse(text)
    if _letters(text) != sum(_letters(token.content) + _letters(token.info) for token in tokens):
        return Markup("<pre>{}</pre>").format(text)
    for token in tokens:
        # The page's own headings are higher; columns would be aligned by a style, which the policy of the pages forbids.
        if token.type.startswith("heading"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        elif token.tag in ("th", "td"):
            token.attrs = {}
    return Markup(MARKDOWN.renderer.render(tokens, MARKDOWN.options, {}))  # noqa: S704 - the renderer escapes all of the text


def short(text: object, length: int = 240) -> Markup:
    """The beginning of a text, on one line."""
    whole = " ".join(str(text).split())
    return escape(whole if len(whole) <= length else whole[: length - 1].rstrip() + "…")
