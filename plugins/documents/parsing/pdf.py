"""PDF: the text of each page, in the order of the pages.

Each page of a PDF with several begins with the heading `## Page 3`. So a chunk's heading path says on which page it stands,
which is what a reader needs to look it up; a comment in the text would be found by nobody, or shown to everybody. Lines are
otherwise as they were set, but a word that was divided at the end of a line is whole again, since nobody
searches for half of it.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from statistics import median
from typing import Any

import pypdfium2
from pypdfium2 import raw

from plugins.documents.parsing.headings import best_title
from plugins.documents.parsing.texts import Output, one_line, title_of
from plugins.documents.ports import Parsed
from plugins.files.decoding import clean
from plugins.files.local import UnreadableFileError

DAMAGED = "The PDF is damaged or incomplete. Copy or download it again, or print it to a new PDF, and give that instead."
ENCRYPTED = "The PDF is encrypted. Save a copy without a password and give that instead."
PICTURES = (
    "The PDF has no text in it; it is scanned pictures. Run it through OCR (text recognition), for example with "
    "ocrmypdf, and give the PDF that this makes."
)
UNMAPPED = (
    "The fonts of the PDF do not say which letters they show. Run it through OCR (text recognition), for example with "
    "ocrmypdf --force-ocr, and give the PDF that this makes."
)
MOST_UNMAPPED = 0.1
"""Of the characters of a page: more are no text."""
NEAR = 0.3
"""Of the size of a letter: the same letter so near is the same letter, drawn twice to look bold."""
ANNOTATIONS = (
    raw.FPDF_ANNOT_TEXT,
    raw.FPDF_ANNOT_FREETEXT,
    raw.FPDF_ANNOT_HIGHLIGHT,
    raw.FPDF_ANNOT_UNDERLINE,
)
MAX_ADDED = 5_000
"""Fields and notes of a page."""
MAX_SAID = 20_000
"""Bytes of each."""
LARGER = 1.2
"""Than most of the page: a line of this size is its heading."""

_DIVIDED = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_A-Z])")
_LEADERS = re.compile(r"(?: ?\.){5,}")
"""The dots of a table of contents."""
_LIKE_HEADING = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
_TWICE = re.compile(r"(\S[^\n]{3,40}?)[ ]?\1")
_HYPHEN = re.compile("[\x02\ufffe]")
"""What PDFium makes of a hyphen at the end of a line, which it joins with the next one."""
_DIVIDED_BY_PDFIUM = re.compile(r"(?<=[^\W\d_])[\x02\ufffe](?=[^\W\d_A-Z])")


def read(content: bytes, name: str, room: int) -> Parsed:
    """Page by page. `metadata`: pages, pages_without_text, pages_unreadable (if any), author. Raises `UnreadableFileError`."""
    document = _open(content)
    count = len(document)
    output = Output(room)
    faults: Counter[str] = Counter()
    title = best_title(_info(document, "Title"))
    for number in range(count):
        try:
            sheet = document[number]
            page = sheet.get_textpage()
        except pypdfium2.PdfiumError:
            faults[DAMAGED] += 1
            continue
        text = "\n\n".join(filter(None, (_text(page), "\n".join(_added(sheet, document.formenv)))))
        if not text:
            faults[PICTURES] += 1
        elif _unmapped(page, text) > MOST_UNMAPPED * len("".join(text.split())):
            faults[UNMAPPED] += 1
        else:
            output.add(f"## Page {number + 1}\n\n{text}\n" if count > 1 else text)
            title = title or best_title(_heading(page))
        page.close()
    if faults.total() == count:
        raise UnreadableFileError(max(faults, key=lambda fault: faults[fault], default=DAMAGED))
    metadata = {"pages": count, "pages_without_text": faults[PICTURES]}
    metadata["pages_unreadable"] = faults[DAMAGED] + faults[UNMAPPED]
    found: dict[str, Any] = metadata | {"author": best_title(_info(document, "Author"))}
    return Parsed(
        text=output.text().rstrip("\n"),
        title=title or title_of(name),
        document_type="pdf",
        metadata={key: value for key, value in found.items() if value},
    )


def _open(content: bytes) -> pypdfium2.PdfDocument:
    try:
        # Many are encrypted with an empty password: anybody may read them.
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        locked = getattr(error, "err_code", None) in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY)
        raise UnreadableFileError(ENCRYPTED if locked else DAMAGED) from error
    with suppress(pypdfium2.PdfiumError):
        document.init_forms()
    return document


def _added(page: pypdfium2.PdfPage, form: pypdfium2.PdfFormEnv | None) -> Iterator[str]:
    """What people filled into the fields of a page, by the names of the fields, and what they noted on it."""
    for nth in range(min(raw.FPDFPage_GetAnnotCount(page), MAX_ADDED)):
        added = raw.FPDFPage_GetAnnot(page, nth)
        try:
            kind = raw.FPDFAnnot_GetSubtype(added)
            if kind == raw.FPDF_ANNOT_WIDGET and form is not None:
                value = _said(raw.FPDFAnnot_GetFormFieldValue, form, added)
                name = _said(raw.FPDFAnnot_GetFormFieldAlternateName, form, added) or _said(
                    raw.FPDFAnnot_GetFormFieldName, form, added
                )
                if value and value != "Off":
                    yield f"- {name}: {value}"
            elif kind in ANNOTATIONS and (text := _said(raw.FPDFAnnot_GetStringValue, added, b"Contents")):
                yield f"- Note: {text}"
        finally:
            raw.FPDFPage_CloseAnnot(added)


def _said(function: Any, *about: Any) -> str:
    """What PDFium writes into a buffer, in UTF-16."""
    size = min(function(*about, None, 0), MAX_SAID)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    function(*about, buffer, size)
    return one_line(bytes(buffer)[: max(size - 2, 0)].decode("utf-16-le", "replace"), MAX_SAID)


def _text(page: pypdfium2.PdfTextPage) -> str:
    text = _clean(page.get_text_range())
    return _clean("".join(_once(page))) if _TWICE.search(text) else text


def _clean(text: str) -> str:
    text = (
        clean(_HYPHEN.sub("-", _DIVIDED_BY_PDFIUM.sub("", text)))
        .replace("\u00ad\n", "")
        .replace("\u00ad", "")
        .replace("\f", "\n")
    )
    text = "\n".join(" ".join(line.split(" ")).strip() for line in _LEADERS.sub(" …", text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", _LIKE_HEADING.sub(r"\\", _DIVIDED.sub("", text))).strip()


def _once(page: pypdfium2.PdfTextPage) -> Iterator[str]:
    """The letters, without those that are drawn again where they are."""
    seen: dict[int, list[tuple[float, float]]] = defaultdict(list)
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    for at in range(page.count_chars()):
        letter = raw.FPDFText_GetUnicode(page, at)
        if letter > 32 and raw.FPDFText_GetCharBox(page, at, left, right, bottom, top):
            x, y = (left.value + right.value) / 2, (bottom.value + top.value) / 2
            near = NEAR * max(right.value - left.value, top.value - bottom.value, 1)
            if any(abs(x - a) < near and abs(y - b) < near for a, b in seen[letter][-50:]):
                continue
            seen[letter].append((x, y))
        yield chr(letter)


def _unmapped(page: pypdfium2.PdfTextPage, text: str) -> int:
    """How many letters have no letter: their font does not say which, or says a control or a private character."""
    wrong = sum(unicodedata.category(each) in ("Cc", "Co", "Cn") and each not in "\n\t" for each in text)
    return max(wrong, sum(int(raw.FPDFText_HasUnicodeMapError(page, n)) for n in range(page.count_chars())))


def _heading(page: pypdfium2.PdfTextPage) -> str | None:
    """The lines at the top of a page that are larger than most of it."""
    box = raw.FS_RECTF()
    lines: list[tuple[float, str]] = []
    sizes: list[float] = []
    words, size = "", 0.0
    for at in range(min(page.count_chars(), 3_000)):
        letter = chr(raw.FPDFText_GetUnicode(page, at))
        if letter in "\r\n":
            lines += [(size, words)] if words.strip() else []
            words, size = "", 0.0
        else:
            words += letter
            if not letter.isspace() and raw.FPDFText_GetLooseCharBox(page, at, box):
                size = max(size, abs(box.top - box.bottom))
                sizes.append(size)
    lines += [(size, words)] if words.strip() else []
    largest = max((size for size, _ in lines), default=0.0)
    if not sizes or largest < LARGER * median(sizes):
        return None
    first = next(n for n, (size, _) in enumerate(lines) if size > 0.95 * largest)
    last = next((n for n, (size, _) in enumerate(lines) if n > first and size <= 0.95 * largest), len(lines))
    return one_line(" ".join(words for _, words in lines[first : min(last, first + 3)]))


def _info(document: pypdfium2.PdfDocument, key: str) -> str:
    try:
        return one_line(document.get_metadata_value(key))
    except (pypdfium2.PdfiumError, UnicodeError):
        return ""  # optional, and often damaged
