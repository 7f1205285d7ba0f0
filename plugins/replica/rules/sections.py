"""A file of many entries: text above the first section, then a section for each entry.

    ## Heading
    <!-- id: 0b6c6f4e-..., category: decision -->

    The entry's text.

Promise: what is written is read again as the same sections, whatever their texts contain. A line of a text that looks like the
beginning of a section gets a backslash, which is taken away again. Line ends, and empty lines around a text, do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from plugins.replica.rules.document_file import one_line, one_newline, plain, uuid_in

_BEGINS = re.compile(r"##(?:[ \t](.*))?")
"""A line that begins a section. Deeper headings do not, and neither does the one title of the file."""
_SAID = re.compile(r"<!--[ \t]*((?:id|conflict|category):.*)-->[ \t]*")
_LOOKS_SO = re.compile(r"\\*(?:##(?:[ \t]|$)|<!--[ \t]*(?:id|conflict|category):)")
_MARK = re.compile(
    r"(<!--[ \t]*memoryd collection[ \t]+([0-9a-fA-F-]{36}))(?:, version (\d{1,9}))?([ \t]*-->)"
)
_MARK_BYTES = 20_000
"""The mark is in the beginning of a file."""
_SHORT = re.compile("[0-9a-f]{16}")
_VALUE = re.compile(r"[^\W_][\w .()/&+-]{0,199}")


@dataclass(frozen=True, slots=True)
class Section:
    heading: str
    body: str
    id: UUID | None = None
    """The entry that it names."""
    conflict: UUID | None = None
    """The conflict that it names: then it has the text that lost."""
    notes: tuple[tuple[str, str], ...] = ()
    """What else memoryd says of it, in the line below the heading."""
    began: str = ""
    """Short for the text that it began from: when it was written, its own."""
    advice: str = field(default="", compare=False)
    """Of a conflict: what to do."""

    def note(self, name: str) -> str | None:
        return next((value for key, value in self.notes if key == name), None)


@dataclass(frozen=True, slots=True)
class Sections:
    preamble: str
    sections: list[Section]
    version: int | None = None
    """How often memoryd had written the file that this one began from."""


def mark(collection: UUID) -> str:
    """The line by which a file is known, wherever it is."""
    return f"<!-- memoryd collection {collection} -->"


def marked(data: bytes) -> UUID | None:
    """The collection that a file names."""
    for line in data[:_MARK_BYTES].decode("utf-8-sig", "ignore").replace("\r", "\n").split("\n"):
        if _BEGINS.fullmatch(line):
            return None
        if match := _MARK.fullmatch(line.strip()):
            return uuid_in(match[2])
    return None


def write_sections(
    preamble: str, sections: Sequence[Section], *, collection: UUID, version: int = 0
) -> bytes:
    above = plain(preamble)
    if marked(above.encode()) is None:
        parts = [above, mark(collection)]
        above = "\n\n".join(parts if len(above.encode()) < _MARK_BYTES // 2 else reversed(parts)).strip("\n")
    if version:
        above = _with_version(above, version)[0]
    return "\n".join([above, "", *(_written(one) for one in sections)]).encode()


def read_sections(data: bytes) -> Sections | None:
    """What a file says; None where it is no text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    lines = one_newline(text).split("\n")
    starts = [at for at, line in enumerate(lines) if _BEGINS.fullmatch(line)]
    ends = [*starts[1:], len(lines)] if starts else []
    above = plain("\n".join(lines[: starts[0] if starts else len(lines)]))
    above, version = _with_version(above, None)
    return Sections(
        above, [_read(lines[start:end]) for start, end in zip(starts, ends, strict=True)], version
    )


def _with_version(above: str, version: int | None) -> tuple[str, int | None]:
    """The text above the sections with this version in its mark, and the version that was there."""
    lines = above.split("\n")
    for at, line in enumerate(lines):
        if match := _MARK.fullmatch(line.strip()):
            lines[at] = match[1] + ("" if version is None else f", version {version}") + match[4]
            return "\n".join(lines), None if match[3] is None else int(match[3])
    return above, None


def short(digest: bytes) -> str:
    """Of a text's digest what a section says."""
    return digest.hex()[:16]


def shown(value: str | None) -> str | None:
    """A value as a note of a section; None where it cannot be one."""
    text = one_line(value or "")
    return text if _VALUE.fullmatch(text) and "--" not in text else None


def _written(section: Section) -> str:
    ids = [("conflict", section.conflict), ("id", section.id)]
    said = [f"{name}: {value}" for name, value in ids if value is not None]
    said += [f"{name}: {value}" for name, value in section.notes]
    if section.began:
        said.append(f"hash: {section.began}")
    if section.advice:
        said.append(section.advice)
    return "\n".join(
        [
            f"## {one_line(section.heading)}".rstrip(),
            *([f"<!-- {', '.join(said)} -->"] if said else []),
            "",
            *("\\" + line if _LOOKS_SO.match(line) else line for line in plain(section.body).split("\n")),
            "",
        ]
    )


def _read(lines: list[str]) -> Section:
    begins = _BEGINS.fullmatch(lines[0])
    assert begins is not None
    found = Section(one_line(begins[1] or ""), "")
    at = 1
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at < len(lines) and (said := _SAID.fullmatch(lines[at])):
        found = _with(found, said[1])
        lines = lines[at:]
    body = [line[1:] if line[:1] == "\\" and _LOOKS_SO.match(line) else line for line in lines[1:]]
    return replace(found, body=plain("\n".join(body)))


def _with(section: Section, said: str) -> Section:
    notes: list[tuple[str, str]] = []
    ids: dict[str, UUID | None] = {"id": None, "conflict": None}
    for part in said.split(","):
        name, colon, value = part.strip().partition(":")
        if name in ids and colon:
            ids[name] = ids[name] or uuid_in(value.strip())
        elif name.strip() == "hash":
            section = replace(section, began=value.strip() if _SHORT.fullmatch(value.strip()) else "")
        elif colon and (note := shown(value)) is not None:
            notes.append((name.strip(), note))
    if ids["conflict"] is not None:
        notes = []
    return replace(section, id=ids["id"], conflict=ids["conflict"], notes=tuple(notes))
