"""DOCX, PPTX and XLSX, by kreuzberg, where memoryd was installed with the extra `office`.

Why kreuzberg and not markitdown (judged in November 2026 by what their packages declare): kreuzberg 4.10 is one wheel under
the MIT licence, 39 MB, 98 MB unpacked, and depends on no other package. markitdown 0.1.9 needs magika, which tells with a
model on onnxruntime what a file is, and requests, an HTTP client; and further packages for each format: mammoth and
lxml, python-pptx, pandas and openpyxl. That is code of many more people that reads files of strangers.

Promise: no picture is looked at and no model is loaded (OCR, layout and embeddings are off), nothing is cached on disk, and no
connection is opened. It is imported in the child process only.
"""

from __future__ import annotations

from typing import Any

import kreuzberg

from providers.parsing.containers import DAMAGED, office_type
from providers.parsing.headings import first_heading
from providers.parsing.texts import clean, json_value, one_line, title_of
from providers.ports import Parsed, Unreadable

FORMATS = "application/vnd.openxmlformats-officedocument."
MIME = {
    "docx": FORMATS + "wordprocessingml.document",
    "pptx": FORMATS + "presentationml.presentation",
    "xlsx": FORMATS + "spreadsheetml.sheet",
}
MAX_NAMES = 200
"""Of sheets, in the metadata."""


def read(content: bytes, name: str, room: int) -> Parsed:
    """The document. `metadata` has authors, and sheets of an XLSX. Raises `Unreadable`."""
    document_type = office_type(content)
    try:
        result = kreuzberg.extract_bytes_sync(content, MIME[document_type], config=_config())
    except kreuzberg.KreuzbergError as error:
        raise Unreadable(DAMAGED) from error
    found = result.metadata
    text = clean(result.content).strip("\n")
    return Parsed(
        text=text,
        title=one_line(str(found.get("title") or "")) or _heading(text, document_type) or title_of(name),
        document_type=document_type,
        metadata=_metadata(found),
    )


def _config() -> Any:
    config = kreuzberg.ExtractionConfig(
        output_format="markdown",
        use_cache=False,
        enable_quality_processing=False,
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),
        ocr=None,
        layout=None,
    )
    config.max_archive_depth = 0  # only what the person wrote, not files embedded in it
    return config


def _heading(text: str, document_type: str) -> str | None:
    # The first heading of a workbook is the name of a sheet, which is often "Sheet1".
    return None if document_type == "xlsx" else first_heading(text)


def _metadata(found: Any) -> dict[str, Any]:
    chosen = {"authors": found.get("authors"), "sheets": found.get("sheet_names")}
    return {key: json_value(list(each)[:MAX_NAMES]) for key, each in chosen.items() if each}
