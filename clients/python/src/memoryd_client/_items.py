"""How an item of a host, which is any JSON, becomes one row of a conversation, and the same item again.

Its text is the row's content, so that recall finds it. The rest is in the metadata, under the name of the host: `item`, as JSON
without these texts, and `texts`, which says where each of them belongs. An item is given back as it was, also with the
characters that Postgres cannot store. If its rest has no room in the metadata, its other long strings are in the content, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from memoryd_client import _values as values
from memoryd_client._errors import Refused

Path = list[Any]
"""The keys and indexes that lead to a string."""

LARGEST_REST = 900_000
"""Bytes; metadata may have 1 MB."""
LONG = 1000
"""Characters of a string that does not stay in the metadata where room is short."""
NOT_STORED = re.compile("[\0\ud800-\udfff]")
TOO_BIG = "Store what is big elsewhere, and its place in the item."


def split(host: str, item: object, said: Sequence[Path]) -> tuple[str, str]:
    """The content and the metadata of a row. `said`: where the item has what people read. Raises Refused."""
    rest = json_of(item)
    texts: list[str] = []
    positions: list[list[Any]] = []
    _cut(rest, said, texts, positions)
    metadata = _metadata(host, rest, positions)
    if len(metadata) > LARGEST_REST:
        _cut(rest, [path for path, text in strings_in(rest) if len(text) > LONG], texts, positions)
        metadata = _metadata(host, rest, positions)
    if len(metadata) > LARGEST_REST:
        raise Refused("An item has more than 900,000 bytes beside its long texts.", hint=TOO_BIG)
    content = "\n".join(texts)
    if len(content) > values.LONGEST_TEXT:
        raise Refused(
            f"An item has {len(content):,} characters; at most {values.LONGEST_TEXT:,} are allowed.",
            hint=TOO_BIG,
        )
    return content, metadata


def joined(host: str, content: str, metadata: str) -> Any:
    """The item of a row; None where there is none, or where its texts were changed so that none knows where they belong."""
    try:
        kept = json.loads(metadata)[host]
        item, positions = json.loads(kept["item"]), kept["texts"]
        if len(positions) == 1:
            # A text that was corrected in the table is given back corrected.
            _put(item, positions[0][0], _restored(content, *positions[0][1:]))
            return item
        if len(content) != sum(length + 1 for _, length, _ in positions) - bool(positions):
            return None
        at = 0
        for path, length, replaced in positions:
            _put(item, path, _restored(content[at : at + length], length, replaced))
            at += length + 1
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    return item


def json_of(item: object) -> Any:
    """A copy, as JSON has it. Raises Refused."""
    try:
        return json.loads(json.dumps(item))
    except (TypeError, ValueError, RecursionError):
        pass  # raised below, so that no error that may quote a value hangs on ours
    raise Refused(
        "An item cannot be written as JSON.",
        hint="It may have dicts with string keys, lists, strings, numbers, booleans and None.",
    )


def strings_in(item: object) -> Iterator[tuple[Path, str]]:
    """All strings of an item, and where they are."""
    if isinstance(item, str):
        yield [], item
    elif isinstance(item, (dict, list)):
        for key, inner in item.items() if isinstance(item, dict) else enumerate(item):
            for path, text in strings_in(inner):
                yield [key, *path], text


def _cut(rest: Any, paths: Sequence[Path], texts: list[str], positions: list[list[Any]]) -> None:
    for path in paths:
        text = _at(rest, path)
        if text:
            texts.append(NOT_STORED.sub("\ufffd", text))
            replaced = [[found.start(), ord(found[0])] for found in NOT_STORED.finditer(text)]
            positions.append([path, len(text), replaced])
            _put(rest, path, "")


def _metadata(host: str, rest: object, positions: list[list[Any]]) -> str:
    item = json.dumps(rest, ensure_ascii=False)  # NUL is \u0000 in it, which Postgres can store
    if not values.is_unicode(item):
        item = json.dumps(rest)
    return json.dumps({host: {"item": item, "texts": positions}})


def _restored(text: str, length: int, replaced: list[list[int]]) -> str:
    if not replaced or len(text) != length:
        return text
    characters = list(text)
    for at, code in replaced:
        characters[at] = chr(code)
    return "".join(characters)


def _at(item: Any, path: Path) -> str:
    for key in path:
        item = item[key]
    return item if isinstance(item, str) else ""


def _put(item: Any, path: Path, text: str) -> None:
    for key in path[:-1]:
        item = item[key]
    item[path[-1]] = text
