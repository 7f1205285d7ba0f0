"""Markdown: taken as it is, but for its front matter, which becomes metadata.

Front matter is read by YAML 1.2, in which `no`, `12:30` and `2026-11-02` are text; numbers that are not written as JSON writes
them (`0123`, `1.10`) are text, too. A value that cannot be read costs its own field alone.

Front matter that is no valid YAML stays in the text, so that nothing that a person wrote is lost, and the metadata
say `front_matter: unreadable`. So does YAML that is made to be expensive: with references to other parts of itself
(a few lines can stand for gigabytes), very deep, or very long.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from plugins.documents.parsing.headings import best_title
from plugins.documents.parsing.texts import json_value, one_line, title_of
from plugins.documents.ports import Parsed
from plugins.files.decoding import decode

MAX_FRONT_MATTER = 32_768
"""Characters."""
MAX_DEPTH = 30
UNREADABLE = {"front_matter": "unreadable"}

_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.(?:\d{0,14}[1-9]|0))?")


def read(content: bytes, name: str, room: int) -> Parsed:
    """The text without front matter; title from front matter, the first heading, or the name. Raises `UnreadableFileError`."""
    text, mark = decode(content)
    metadata, text = split(text)
    said = metadata.get("title")
    title = one_line(str(said)) if isinstance(said, str | int | float) else ""
    return Parsed(
        text=text,
        title=best_title(title, text) or title or title_of(name),
        document_type="markdown",
        metadata=metadata | mark,
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
        metadata = _mapping(text[4 : end.start()])
    except Exception:  # noqa: BLE001 - YAML of any kind makes its library fail in many ways
        return dict(UNREADABLE), text
    # Where it is no mapping, these are words between two rules.
    return ({}, text) if metadata is None else (json_value(metadata), text[end.end() :].lstrip("\n"))


def _mapping(written: str) -> dict[str, Any] | None:
    """None: it is another value. Raises YAMLError, and ValueError where it is made to be expensive."""
    depth = 0
    for event in yaml.parse(written, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
            raise ValueError("references, or too deep")
    root = yaml.compose(written, Loader=yaml.SafeLoader)
    if isinstance(root, yaml.MappingNode):
        return _value(root)  # type: ignore[no-any-return]
    return {} if root is None or root.value == "" else None


def _value(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {_key(key): _value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value(each) for each in node.value]
    plain = node.style is None and not node.tag.startswith("!")
    if plain and node.value in ("", "~", "null", "Null", "NULL"):
        return None
    if (
        plain
        and node.value.lower() in ("true", "false")
        and node.value in (node.value.lower(), node.value.title(), node.value.upper())
    ):
        return node.value.lower() == "true"
    return json.loads(node.value) if plain and _NUMBER.fullmatch(node.value) else node.value


def _key(node: Any) -> str:
    return str(node.value if isinstance(node, yaml.ScalarNode) else _value(node))
