"""PDF: the text of each page, in the order of the pages.

Each page of a PDF with several begins with the heading `## Page 3`. So a chunk's heading path says on which page it stands,
which is what a reader needs to look it up; a comment in the text would be found by nobody, or shown to everybody. Lines are
otherwise as they were set, but a word that was divided at the end of a line is whole again, since nobody
searches for half of it.
"""

from __future__ import annotations

import io
import re
from typing import Any

from pypdf import PageObject, PdfReader
from pypdf.errors import DependencyError

from providers.parsing.texts import Output, clean, one_line, title_of
from providers.ports import Parsed, Unreadable

DAMAGED = "The PDF is damaged or incomplete. Copy or download it again, or print it to a new PDF, and give that instead."
ENCRYPTED = "The PDF is encrypted. Save a copy without a password and give that instead."
PICTURES = (
    "The PDF has no text in it; it is scanned pictures. Run it through OCR (text recognition), for example with "
    "ocrmypdf, and give the PDF that this makes."
)

_DIVIDED = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_A-Z])")
_LEADERS = re.compile(r"(?: ?\.){5,}")
"""The dots of a table of contents."""
_LIKE_HEADING = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
_MADE_BY = re.compile(r"(?i)^(?:microsoft (?:word|powerpoint|excel) - |untitled\b.*|slide 1$)")


def read(content: bytes, name: str, room: int) -> Parsed:
    """Page by page. `metadata` has pages, pages_without_text (if any) and author. Raises `Unreadable`."""
    reader = _open(content)
    output = Output(room)
    try:
        count = len(reader.pages)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        raise Unreadable(DAMAGED) from error
    silent = broken = 0
    for number in range(count):
        try:
            text = _page(reader.pages[number])
        except (MemoryError, RecursionError):
            raise
        except Exception:  # noqa: BLE001 - a damaged page fails in many ways; the others are still worth reading
            broken += 1
            continue
        if not text:
            silent += 1
            continue
        output.add(f"## Page {number + 1}\n\n{text}\n" if count > 1 else text)
    if silent + broken == count:
        raise Unreadable(PICTURES if silent else DAMAGED)
    metadata = {"pages": count, "pages_without_text": silent, "pages_unreadable": broken}
    author = _info(reader, "/Author")
    title = _MADE_BY.sub("", _info(reader, "/Title"))
    return Parsed(
        text=output.text().rstrip("\n"),
        title=title or title_of(name),
        document_type="pdf",
        metadata={key: value for key, value in (metadata | {"author": author}).items() if value},
    )


def _open(content: bytes) -> PdfReader:
    try:
        reader = PdfReader(io.BytesIO(content), strict=False)
        # Many are encrypted with an empty password: anybody may read them.
        locked = reader.is_encrypted and not reader.decrypt("")
    except (MemoryError, RecursionError):
        raise
    except (DependencyError, NotImplementedError) as error:
        raise Unreadable(ENCRYPTED) from error
    except Exception as error:
        raise Unreadable(DAMAGED) from error
    if locked:
        raise Unreadable(ENCRYPTED)
    return reader


def _page(page: PageObject) -> str:
    text = clean(page.extract_text()).replace("\u00ad\n", "").replace("\u00ad", "").replace("\f", "\n")
    text = "\n".join(line.strip() for line in _LEADERS.sub(" …", text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", _LIKE_HEADING.sub(r"\\", _DIVIDED.sub("", text))).strip()


def _info(reader: PdfReader, key: str) -> str:
    try:
        found: Any = reader.metadata.get(key) if reader.metadata else None
        return one_line(str(found.get_object())) if found is not None else ""
    except Exception:  # noqa: BLE001 - optional, and often damaged
        return ""
