"""An office file as parts of XML: what DOCX, PPTX and XLSX have in common.

Promise: a part that is missing or damaged is none; it does not cost the others.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, iterparse

from plugins.documents.parsing.texts import one_line


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
