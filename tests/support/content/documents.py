"""Real files of the formats that memoryd reads, made in memory: what a person would drop."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence

from pypdf import PdfReader, PdfWriter
from reportlab.pdfgen.canvas import Canvas

_OFFICE = "http://schemas.openxmlformats.org/"
_WORD = f'xmlns:w="{_OFFICE}wordprocessingml/2006/main"'
_SHEET = f'xmlns="{_OFFICE}spreadsheetml/2006/main" xmlns:r="{_OFFICE}officeDocument/2006/relationships"'
_SLIDE = (
    f'xmlns:a="{_OFFICE}drawingml/2006/main" xmlns:r="{_OFFICE}officeDocument/2006/relationships" '
    f'xmlns:p="{_OFFICE}presentationml/2006/main"'
)
_TYPES = (
    f'<Types xmlns="{_OFFICE}package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>'
)


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """A zip archive with these files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def claiming(archive: bytes, size: int) -> bytes:
    """The zip archive, whose directory says of each file that it unpacks to `size` bytes."""
    changed = bytearray(archive)
    place = changed.find(b"PK\x01\x02")
    while place >= 0:
        changed[place + 24 : place + 28] = struct.pack("<I", size)
        place = changed.find(b"PK\x01\x02", place + 4)
    return bytes(changed)


def docx(*, title: str | None = "The plan", extra: Mapping[str, str | bytes] | None = None) -> bytes:
    """Two headings, a list, a table, by Ada. `extra`: more files in it."""
    body = (
        _paragraph("Release plan", "Heading1")
        + _paragraph("We publish on Fridays.")
        + _paragraph("Steps", "Heading2")
        + '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr>'
        + "<w:r><w:t>build the wheel</w:t></w:r></w:p>"
        + f"<w:tbl><w:tr>{_cell('Task')}{_cell('Days')}</w:tr><w:tr>{_cell('Build')}{_cell('3')}</w:tr></w:tbl>"
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/>'
        f'<w:pPr><w:outlineLvl w:val="{n - 1}"/></w:pPr></w:style>'
        for n in (1, 2)
    )
    numbering = (
        '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    )
    titled = f"<dc:title>{title}</dc:title>" if title else ""
    core = (
        f'<cp:coreProperties xmlns:cp="{_OFFICE}package/2006/metadata/core-properties" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/">{titled}'
        "<dc:creator>Ada</dc:creator></cp:coreProperties>"
    )
    return zipped(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _relations("officeDocument word/document.xml"),
            "word/document.xml": f"<w:document {_WORD}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f"<w:styles {_WORD}>{styles}</w:styles>",
            "word/numbering.xml": f"<w:numbering {_WORD}>{numbering}</w:numbering>",
            "word/_rels/document.xml.rels": _relations("styles styles.xml", "numbering numbering.xml"),
            "docProps/core.xml": core,
            **(extra or {}),
        }
    )


def xlsx(*, extra: Mapping[str, str | bytes] | None = None) -> bytes:
    """Two sheets, Costs and Towns. `extra`: more files in it, or others."""
    costs = (
        f'<row r="1">{_text("A1", "City")}{_text("B1", "Euro")}</row>'
        f'<row r="2">{_text("A2", "Köln")}<c r="B2"><v>12.5</v></c></row>'
    )
    towns = f'<row r="1">{_text("A1", "Bonn")}</row>'
    sheets = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in ((1, "Costs"), (2, "Towns"))
    )
    return zipped(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _relations("officeDocument xl/workbook.xml"),
            "xl/workbook.xml": f"<workbook {_SHEET}><sheets>{sheets}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": _relations(
                "worksheet worksheets/sheet1.xml", "worksheet worksheets/sheet2.xml"
            ),
            "xl/worksheets/sheet1.xml": f"<worksheet {_SHEET}><sheetData>{costs}</sheetData></worksheet>",
            "xl/worksheets/sheet2.xml": f"<worksheet {_SHEET}><sheetData>{towns}</sheetData></worksheet>",
            **(extra or {}),
        }
    )


def pptx(*, extra: Mapping[str, str | bytes] | None = None) -> bytes:
    """Two slides. `extra`: more files in it, or others."""
    return zipped(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _relations("officeDocument ppt/presentation.xml"),
            "ppt/presentation.xml": f'<p:presentation {_SLIDE}><p:sldIdLst><p:sldId id="256" r:id="rId1"/>'
            '<p:sldId id="257" r:id="rId2"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": _relations(
                "slide slides/slide1.xml", "slide slides/slide2.xml"
            ),
            "ppt/slides/slide1.xml": _slide("Why memory", "Agents forget."),
            "ppt/slides/slide2.xml": _slide("How it works", "They ask."),
            **(extra or {}),
        }
    )


def pdf(pages: Sequence[Sequence[str]], *, title: str | None = None, author: str | None = None) -> bytes:
    """A page for each list of lines; one without lines has only a drawing."""
    made = io.BytesIO()
    canvas = Canvas(made)
    if title:
        canvas.setTitle(title)
    if author:
        canvas.setAuthor(author)
    for lines in pages:
        canvas.rect(50, 50, 20, 20, fill=1)
        for number, line in enumerate(lines):
            canvas.drawString(72, 760 - 16 * number, line)
        canvas.showPage()
    canvas.save()
    return made.getvalue()


def encrypted(content: bytes, password: str) -> bytes:
    """The PDF with a password, '' for one that everybody's viewer opens."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(content)))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def _relations(*pairs: str) -> str:
    each = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}officeDocument/2006/relationships/{pair.split()[0]}" '
        f'Target="{pair.split()[1]}"/>'
        for n, pair in enumerate(pairs, 1)
    )
    return f'<Relationships xmlns="{_OFFICE}package/2006/relationships">{each}</Relationships>'


def _paragraph(text: str, style: str | None = None) -> str:
    chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{chosen}<w:r><w:t>{text}</w:t></w:r></w:p>"


def _cell(text: str) -> str:
    return f"<w:tc>{_paragraph(text)}</w:tc>"


def _text(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def _slide(title: str, text: str) -> str:
    shapes = _shape(title, '<p:ph type="title"/>') + _shape(text, "")
    return f"<p:sld {_SLIDE}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"


def _shape(text: str, kind: str) -> str:
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/><p:cNvSpPr/><p:nvPr>{kind}</p:nvPr></p:nvSpPr><p:spPr/>'
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
