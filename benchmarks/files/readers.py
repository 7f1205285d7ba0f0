"""Holds readers of documents against public test files: how many pieces of text each reader gives that it must give.

    python -m benchmarks.files.readers FOLDER

`readers.toml` says which pieces each file has, and where the files are from. Readers that are not installed are left out:
`pip install markitdown[all] kreuzberg pypdf docling-parse` in an environment of its own brings those that were compared.
"""

from __future__ import annotations

import asyncio
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.harness import Figures, arguments, print_table, report
from plugins.documents.parsing.parser import ChildParser
from plugins.files.local import UnreadableFileError

EXPECTED: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KINDS = ("csv", "docx", "pptx", "xlsx", "pdf", "html", "eml")
Reader = Callable[[Path], str]


def memoryd(path: Path) -> str:
    """memoryd's own, in its child process."""

    async def read(content: bytes) -> str:
        parser = ChildParser()
        try:
            return (await parser.parse(content, path.name)).text
        except UnreadableFileError as error:
            return f"rejected: {error}"
        finally:
            await parser.close()

    return asyncio.run(read(path.read_bytes()))


def markitdown(path: Path) -> str:
    """Microsoft's, with mammoth, python-pptx, openpyxl and pdfminer."""
    return str(import_module("markitdown").MarkItDown().convert(str(path)).text_content)


def kreuzberg(path: Path) -> str:
    """One package in Rust."""
    package = import_module("kreuzberg")
    config = package.ExtractionConfig(output_format="markdown", use_cache=False)
    return str(package.extract_file_sync(str(path), config=config).content)


def docling_parse(path: Path) -> str:
    """PDF alone."""
    lines = import_module("docling_core.types.doc.page").TextCellUnit.LINE
    pages = import_module("docling_parse.pdf_parser").DoclingPdfParser().load(str(path)).iterate_pages()
    return "\n\n".join(
        "\n".join(cell.text for cell in page.iterate_cells(unit_type=lines)) for _, page in pages
    )


def pypdf(path: Path) -> str:
    """PDF alone, in Python."""
    return "\n\n".join(page.extract_text() for page in import_module("pypdf").PdfReader(path).pages)


READERS: Mapping[str, tuple[Reader, tuple[str, ...]]] = {
    "memoryd": (memoryd, KINDS),
    "markitdown": (markitdown, KINDS),
    "kreuzberg": (kreuzberg, KINDS),
    "docling_parse": (docling_parse, ("pdf",)),
    "pypdf": (pypdf, ("pdf",)),
}


def right(text: str, expected: Mapping[str, list[str]]) -> list[bool]:
    """For each piece whether the text has it, and for each that it must lack whether it lacks it."""
    words = " ".join(text.split())
    has = [" ".join(piece.split()) in words for piece in expected.get("has", [])]
    return has + [bool(words) and " ".join(piece.split()) not in words for piece in expected.get("lacks", [])]


def main() -> None:
    """Print a row for each reader, and what memoryd misses."""
    parser = arguments(__doc__ or "")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    folder: Path = options.folder
    files = {name: folder / name for name in EXPECTED if (folder / name).is_file()}
    if not files:
        sys.exit(f"{folder} has none of the files that readers.toml names")
    there = Counter(path.suffix[1:] for path in files.values())
    rows, lines = [], list[Figures]()
    for reader, (read, kinds) in READERS.items():
        if find_spec(reader) is None and reader != "memoryd":
            continue
        begun = time.perf_counter()
        found = {
            name: right(_read(read, path), EXPECTED[name])
            for name, path in files.items()
            if path.suffix[1:] in kinds
        }
        seconds = round(time.perf_counter() - begun, 1)
        by_kind = {
            k: [one for n, each in found.items() if n.endswith(f".{k}") for one in each] for k in kinds
        }
        counts = {kind: f"{sum(each)}/{len(each)}" for kind, each in by_kind.items()}
        rows.append((reader, [*(counts.get(kind, "") for kind in KINDS), str(seconds)]))
        missed = [name for name, each in found.items() if not all(each)]
        lines.append({"reader": reader, **counts, "seconds": seconds, "misses_something_of": missed})
    print_table(["reader", *(f"{kind} ({there[kind]})" for kind in KINDS), "seconds"], rows)
    report("readers", lines, options.json)


def _read(read: Reader, path: Path) -> str:
    try:
        return read(path)
    except Exception as error:  # noqa: BLE001 - whatever a reader does, the others go on
        return f"failed: {type(error).__name__}"


if __name__ == "__main__":
    main()
