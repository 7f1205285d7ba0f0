"""What a zip container is, and whether it is safe to read: looked at before any reader of office files sees it.

A zip of 10 MB can hold 10 GB. What the entries say of their sizes is added up, and then each is unpacked once, piece by
piece, and its checksum compared: an entry that says too little is found out, and so is a damaged one.
"""

from __future__ import annotations

import io
import zipfile
import zlib

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
