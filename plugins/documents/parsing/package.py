"""An office file: whether its zip container is safe to read, and its parts of XML, which DOCX, PPTX and XLSX have in common.

A zip of 10 MB can hold 10 GB. What the entries say of their sizes is added up, and then each is unpacked once, piece by
piece, and its checksum compared: an entry that says too little is found out, and so is a damaged one.

Promise: a part that is missing or damaged is none; it does not cost the others.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, iterparse

from plugins.documents.parsing.texts import one_line
from plugins.files.local import UnreadableFileError

MAX_UNPACKED = 500_000_000
"""Bytes, of all entries together."""
MAX_RATIO = 200
"""Unpacked to packed; the XML of a big sheet has 20 to 50."""
FREE = 20_000_000
"""Bytes up to which the ratio does not matter."""
MAX_ENTRIES = 20_000

MAIN_PARTS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}

BOMB = (
    "The file unpacks to far more than an office document has. It is damaged or made to do harm. "
    "If you trust it, save it again from the program that made it and give that instead."
)
DAMAGED = "The file is damaged or incomplete. Copy or download it again and give that instead."
NOT_OFFICE = (
    "The file is a zip archive and no DOCX, PPTX or XLSX. Unpack it and give the files that are in it."
)
LOCKED = "The file is protected by a password. Save a copy without one and give that instead."


def office_type(content: bytes) -> str:
    """'docx', 'pptx' or 'xlsx'. Raises `UnreadableFileError` for any other container, and for one that is not safe."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as container:
            entries = container.infolist()
            _check_sizes(entries, len(content))
            found = _type(container)
            if container.testzip() is not None:
                raise UnreadableFileError(DAMAGED)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ValueError,
        OSError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise UnreadableFileError(DAMAGED) from error
    return found


def _check_sizes(entries: list[zipfile.ZipInfo], packed: int) -> None:
    total = sum(entry.file_size for entry in entries)
    if len(entries) > MAX_ENTRIES or total > MAX_UNPACKED or (total > FREE and total > packed * MAX_RATIO):
        raise UnreadableFileError(BOMB)
    if any(entry.flag_bits & 1 for entry in entries):
        raise UnreadableFileError(LOCKED)


def _type(container: zipfile.ZipFile) -> str:
    names = set(container.namelist())
    if "mimetype" in names and container.getinfo("mimetype").file_size < 200:
        kind = container.read("mimetype")
        if kind.startswith(b"application/vnd.oasis.opendocument"):
            raise UnreadableFileError(
                "The file is of OpenDocument (ODT, ODS, ODP). Save it as DOCX, XLSX or PPTX and give that instead."
            )
        if kind.startswith(b"application/epub"):
            raise UnreadableFileError(
                "The file is an e-book (EPUB). Convert it to PDF or HTML and give that instead."
            )
    if "[Content_Types].xml" in names:
        for folder, found in MAIN_PARTS.items():
            if any(name.startswith(folder) for name in names):
                return found
    raise UnreadableFileError(NOT_OFFICE)


class Package:
    """The parts, each by its path."""

    def __init__(self, content: bytes) -> None:
        self._zip = zipfile.ZipFile(io.BytesIO(content))
        self._names = {name.lower(): name for name in self._zip.namelist()}

    def xml(self, path: str) -> Element | None:
        """The root of a part; names are without their namespaces, but for the `r:` of ids of relations."""
        root = None
        try:
            for root in self.elements(path):  # noqa: B007 - the last one is the root
                pass
        except ParseError:
            return None
        return root

    def content(self, path: str) -> bytes:
        """The bytes of a part; none of one that is missing."""
        name = self._names.get(path.lower())
        return b"" if name is None else self._zip.read(name)

    def elements(self, path: str) -> Iterator[Element]:
        """Each element of a part when it has ended, the root last. Raises ParseError."""
        if (name := self._names.get(path.lower())) is None:
            return
        with self._zip.open(name) as file:
            for _, element in iterparse(file):  # noqa: S314 - in the confined child; expat bounds entities
                element.tag = element.tag.rpartition("}")[2]
                for key in [key for key in element.attrib if key[0] == "{"]:
                    space, _, local = key.rpartition("}")
                    element.attrib["r:" + local if space.endswith("relationships") else local] = (
                        element.attrib.pop(key)
                    )
                yield element

    def related(self, path: str) -> dict[str, tuple[str, str]]:
        """What a part refers to, by the id: the kind, and the other part's path; `external`, and where it leads."""
        folder, name = posixpath.split(path)
        root = self.xml(posixpath.join(folder, "_rels", f"{name}.rels"))
        found = {}
        for each in [] if root is None else root:
            kind, target = each.get("Type", "").rpartition("/")[2], each.get("Target", "")
            inside = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found[each.get("Id", "")] = (
                ("external", target) if each.get("TargetMode") == "External" else (kind, inside)
            )
        return found

    def main(self, otherwise: str) -> str:
        """The path of the part that the others belong to."""
        return next((path for kind, path in self.related("").values() if kind == "officeDocument"), otherwise)

    def properties(self) -> dict[str, Any]:
        """What the file says of itself: `title` and `authors`."""
        root = self.xml("docProps/core.xml")
        said = {each.tag: one_line("".join(each.itertext())) for each in ([] if root is None else root)}
        authors = [each for name in said.get("creator", "").split(";") if (each := name.strip())]
        return {"title": said.get("title", ""), "authors": authors}
