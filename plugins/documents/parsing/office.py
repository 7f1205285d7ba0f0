"""DOCX, PPTX and XLSX: which of the readers takes a file, and its title.

Measured by `python -m benchmarks.files.readers`, no library for all three gives what the files show: notes, charts and
comments, the numbers of lists, dates and prices as a sheet shows them. So all three are read here from their XML.
"""

from __future__ import annotations

from plugins.documents.parsing import docx, pptx, xlsx
from plugins.documents.parsing.headings import best_title
from plugins.documents.parsing.package import Package, office_type
from plugins.documents.parsing.texts import Output, json_value, title_of
from plugins.documents.ports import Parsed

READERS = {"docx": docx.lines, "pptx": pptx.lines, "xlsx": xlsx.lines}
MAX_NAMES = 200
"""Of sheets and authors, in the metadata."""


def read(content: bytes, name: str, room: int) -> Parsed:
    """The document. `metadata` has authors, and sheets of an XLSX. Raises `UnreadableFileError`."""
    document_type = office_type(content)
    package = Package(content)
    said = package.properties()
    output = Output(room)
    for line in READERS[document_type](package):
        output.add(line)
    text = output.text().strip("\n")
    # The first heading of a workbook is the name of a sheet, which is often "Sheet1".
    title = best_title(said["title"], "" if document_type == "xlsx" else text)
    metadata = {"authors": said["authors"], "sheets": xlsx.sheets(package) if document_type == "xlsx" else []}
    return Parsed(
        text=text,
        title=title or title_of(name),
        document_type=document_type,
        metadata={key: json_value(value[:MAX_NAMES]) for key, value in metadata.items() if value},
    )
