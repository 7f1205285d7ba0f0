"""Markdown: taken as it is, but for its front matter, which becomes metadata.

Front matter that is no valid YAML stays in the text, so that nothing that a person wrote is lost, and the metadata
say `front_matter: unreadable`. So does YAML that is made to be expensive: with references to other parts of itself
(a few lines can stand for gigabytes), very deep, or very long.
"""

from __future__ import annotations

import re
from typing import Any

import frontmatter
import yaml
from frontmatter.default_handlers import SafeLoader, YAMLHandler

from providers.parsing.decoding import decode
from providers.parsing.headings import first_heading
from providers.parsing.texts import json_value, one_line, title_of
from providers.ports import Parsed

MAX_FRONT_MATTER = 32_768
"""Characters."""
MAX_DEPTH = 30
UNREADABLE = {"front_matter": "unreadable"}

_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)


def read(content: bytes, name: str, room: int) -> Parsed:
    """The text without front matter; title from front matter, the first heading, or the name. Raises `Unreadable`."""
    text, _ = decode(content)
    metadata, text = split(text)
    title = metadata.get("title")
    return Parsed(
        text=text,
        title=(one_line(title) if isinstance(title, str) else "") or first_heading(text) or title_of(name),
        document_type="markdown",
        metadata=metadata,
    )


def split(text: str) -> tuple[dict[str, Any], str]:
    """Front matter as JSON values, and the text after it."""
    if not re.match(r"---[ \t]*\n", text):
        return {}, text
    end = _END.search(text, 4, MAX_FRONT_MATTER)
    if end is None:
        # A rule at the top of an ordinary text, or no end in sight.
        return {}, text
    try:
        metadata, _ = frontmatter.parse(text[: end.start()] + "---\n", handler=_Handler())
        return json_value(metadata), text[end.end() :].lstrip("\n")
    except _NoFrontMatterError:
        return {}, text
    except Exception:  # noqa: BLE001 - YAML of any kind makes its library fail in many ways
        return dict(UNREADABLE), text


class _NoFrontMatterError(Exception):
    pass


class _Handler(YAMLHandler):
    """Refuses YAML that is made to be expensive."""

    FM_BOUNDARY = re.compile(r"^---[ \t]*$", re.MULTILINE)

    def load(self, fm: str, **kwargs: object) -> Any:
        """The mapping. Raises _NoFrontMatterError if it is another value: then these are words between two rules."""
        depth = 0
        for event in yaml.parse(fm, Loader=SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
                raise ValueError("references, or too deep")
        value = super().load(fm, **kwargs)
        if not isinstance(value, dict | None):
            raise _NoFrontMatterError
        return value
