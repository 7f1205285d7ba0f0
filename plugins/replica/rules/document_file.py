"""Writes a document as a Markdown file (front matter, an empty line, the text), and reads such a file in any state.

Promise: a written text is read again as the same text. Line ends, and empty lines before and after the text, do not count.
Front matter is read line by line, without YAML's tags and aliases. Lines that are not memoryd's are kept. If it is broken, its
readable lines count, and the rest is text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from uuid import UUID

MAX_BYTES = 10_000_000
"""The limit of a file: the longest document."""
MAX_TITLE = 10_000
MAX_FRONT_LINES, MAX_ADDED_LINES = 1_000, 900
"""The limit of front matter with the lines that people added. Longer front matter counts as text."""

_KEYS = ("id", "title", "source", "document_type", "created", "updated", "hash", "conflict", "conflict_of")
_LINE = re.compile(r"(\w+):(?:[ \t]+(.*?))?[ \t]*")
_PLAIN = re.compile(r"[^\W\d_][\w ,.()/&+-]*")
_NOT_PLAIN = frozenset(("true", "false", "yes", "no", "null", "on", "off", "nan", "inf"))
_NOTE = "# memoryd: "


@dataclass(frozen=True, slots=True)
class Text:
    """The part of a document that people and agents write."""

    title: str
    body: str
    front_matter: str = ""
    """Lines that people added to the front matter."""

    def digest(self) -> bytes:
        """SHA-256, the same for texts that count as the same."""
        parts = [one_line(self.title), plain(self.body), added_lines(self.front_matter)]
        return sha256(json.dumps(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class FrontMatter:
    id: UUID
    source: str | None
    document_type: str | None
    created: datetime
    updated: datetime
    conflict: UUID | None = None
    """The conflict, in the file of a conflict."""
    note: str = ""
    """A line that tells people what to do."""


@dataclass(frozen=True, slots=True)
class DocumentText:
    id: UUID | None
    conflict: UUID | None
    title: str | None
    body: str
    front_matter: str
    began: bytes = b""
    """The digest of the text that it began from; empty if it names none."""

    def text(self, title: str) -> Text:
        """Its text; `title` is used if it names none."""
        return Text(self.title or title, self.body, self.front_matter)


def write(front: FrontMatter, text: Text) -> bytes:
    body = plain(text.body)
    said = {
        "conflict": str(front.conflict or ""),
        "conflict_of" if front.conflict else "id": str(front.id),
        "title": _scalar(one_line(text.title)),
        "source": _scalar(one_line(front.source or "")),
        "document_type": _scalar(one_line(front.document_type or "")),
        "created": front.created.isoformat(timespec="seconds"),
        "updated": front.updated.isoformat(timespec="seconds"),
        "hash": text.digest().hex(),
    }
    lines = [f"{_NOTE}{front.note}"] if front.note else []
    lines += [f"{key}: {value}" for key, value in said.items() if value]
    if extra := added_lines(text.front_matter):
        lines.append(extra)
    return "\n".join(["---", *lines, "---", "", body, ""]).encode()


def read(data: bytes) -> DocumentText | None:
    """Reads a file; None if a document cannot hold its text."""
    if len(data) > MAX_BYTES or b"\0" in data or not data.strip():
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    lines = one_newline(text).split("\n")
    ours, extra, end = _front(lines)
    title = _value(ours.get("title", ""))
    return DocumentText(
        id=uuid_in(_value(ours.get("id", ""))),
        conflict=uuid_in(_value(ours.get("conflict", ""))),
        title=one_line(title)[:MAX_TITLE] or None,
        body=plain("\n".join(lines[end:])),
        front_matter="\n".join(extra).strip("\n"),
        began=_hash(_value(ours.get("hash", ""))),
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


def plain(body: str) -> str:
    """A text with one kind of line end, without empty lines before and after it."""
    return one_newline(body).strip("\n")


def added_lines(front_matter: str) -> str:
    kept = _sort([line for line in one_newline(front_matter).split("\n") if line.rstrip() != "---"])[1]
    # An indented line at the beginning would belong to the line of ours before it.
    first = next((at for at, line in enumerate(kept) if line and line[0] not in " \t"), len(kept))
    return "\n".join(kept[first : first + MAX_ADDED_LINES]).strip("\n")


def one_newline(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _front(lines: list[str]) -> tuple[dict[str, str], list[str], int]:
    """The values of our lines, the other lines, and the start of the text."""
    opened = lines[0].rstrip() == "---"
    for at, line in enumerate(lines[1 : MAX_FRONT_LINES + 1], 1):
        if opened and line.rstrip() == "---":
            return *_sort(lines[1:at]), at + 1
    # Its first or its last line is missing: the lines that are ours are front matter all the same.
    start = end = int(opened)
    while end < len(lines) and (match := _LINE.fullmatch(lines[end])) and match[1] in _KEYS:
        end += 1
    ours, _ = _sort(lines[start:end])
    if not opened and uuid_in(_value(ours.get("id", ""))) is None:
        return {}, [], 0
    if end < len(lines) and lines[end].rstrip() == "---" and not opened:
        end += 1
    return ours, [], end


def _sort(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Lines of front matter: ours by their key, and the others."""
    ours: dict[str, str] = {}
    others: list[str] = []
    key: str | None = None
    for line in lines:
        match = _LINE.fullmatch(line)
        if match and match[1] in _KEYS:
            key = match[1]
            ours.setdefault(key, match[2] or "")
        elif key is not None and line[:1] in (" ", "\t"):
            # A value that goes on in further lines.
            ours[key] = f"{ours[key].removesuffix('-').removesuffix('>').removesuffix('|')} {line.strip()}"
        elif not line.startswith(_NOTE):
            key = None
            others.append(line.rstrip())
    return ours, others


def _value(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            said = json.loads(text)
        except ValueError:
            return text[1:-1]
        return said if _is_text(said) else text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _is_text(said: object) -> bool:
    """Whether Postgres can store it: an escape may be half a character."""
    return isinstance(said, str) and "\0" not in said and not re.search("[\ud800-\udfff]", said)


def _scalar(text: str) -> str:
    plain_one = _PLAIN.fullmatch(text) and text.casefold() not in _NOT_PLAIN and text == text.strip()
    return text if not text or plain_one else json.dumps(text, ensure_ascii=False)


def _hash(text: str) -> bytes:
    return bytes.fromhex(text) if re.fullmatch("[0-9a-f]{64}", text) else b""


def uuid_in(text: str) -> UUID | None:
    """The id in its usual form of 36 characters; None for any other text."""
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None
