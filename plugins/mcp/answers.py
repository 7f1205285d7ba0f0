"""The answers of tools and resources: JSON that is short enough for a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

LONGEST_CONTENT = 2_000
"""Characters of one result; the tool get has the whole text."""
LONGEST_LINE = 100
"""Characters of one short result."""

SHOWN_METADATA = ("kind", "title", "speaker", "role", "category", "project")


def as_text(answer: object) -> str:
    return json.dumps(answer, ensure_ascii=False, default=_plain, separators=(",", ":"))


def shortened(content: str, longest: int) -> dict[str, object]:
    """A content; if it is too long, cut and with its length. A short one is its first line."""
    shown = content.strip().partition("\n")[0] if longest == LONGEST_LINE else content
    if len(shown[:longest]) == len(content):
        return {"content": content}
    return {"content": shown[:longest], "cut_from_characters": len(content)}


def of_metadata(metadata: Mapping[str, object]) -> dict[str, object]:
    """The metadata of a result that a model needs."""
    return {name: metadata[name] for name in SHOWN_METADATA if metadata.get(name) is not None}


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat(timespec="seconds")
        case UUID():
            return str(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")
