"""DOCX, PPTX and XLSX: what a person sees in the file is read, and one odd part costs no other."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import pytest

from plugins.documents.parsing.formats import shown
from plugins.documents.ports import Parsed, Parser
from tests.support.content.documents import docx, pptx, xlsx, zipped

OFFICE = "http://schemas.openxmlformats.org/"
WORD = f'xmlns:w="{OFFICE}wordprocessingml/2006/main" xmlns:r="{OFFICE}officeDocument/2006/relationships"'
DRAWN = (
    f'xmlns:a="{OFFICE}drawingml/2006/main" xmlns:r="{OFFICE}officeDocument/2006/relationships" '
    f'xmlns:p="{OFFICE}presentationml/2006/main" xmlns:c="{OFFICE}drawingml/2006/chart"'
)
SHEET = f'xmlns="{OFFICE}spreadsheetml/2006/main"'
MATH = f'xmlns:m="{OFFICE}officeDocument/2006/math"'


def _relations(**targets: str) -> str:
    """Each `kind_name="target"`; one with an address leads out of the file."""
    outside = " TargetMode='External'"
    each = "".join(
        f'<Relationship Id="{key}" Type="{OFFICE}officeDocument/2006/relationships/{key.partition("_")[0]}" '
        f'Target="{target}"{outside if "://" in target else ""}/>'
        for key, target in targets.items()
    )
    return f'<Relationships xmlns="{OFFICE}package/2006/relationships">{each}</Relationships>'


def _word(body: str, parts: Mapping[str, str] | None = None) -> bytes:
    """A DOCX with this body, and parts like `footnotes`."""
    parts = parts or {}
    return docx(
        title=None,
        extra={
            "word/document.xml": f"<w:document {WORD} {MATH}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": _relations(
                hyperlink="https://example.org/x",
                styles="styles.xml",
                **{name: f"{name}.xml" for name in parts},
            ),
            **{f"word/{name}.xml": f"<w:{name} {WORD}>{part}</w:{name}>" for name, part in parts.items()},
        },
    )


def _p(inner: str, about: str = "") -> str:
    return f"<w:p><w:pPr>{about}</w:pPr>{inner}</w:p>"


def _r(text: str, more: str = "") -> str:
    return f"<w:r>{more}<w:t>{text}</w:t></w:r>"


def _item(number: int, level: int, text: str) -> str:
    return _p(_r(text), f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def _levels(*forms: tuple[str, str]) -> str:
    return "".join(
        f'<w:lvl w:ilvl="{n}"><w:numFmt w:val="{kind}"/><w:lvlText w:val="{form}"/></w:lvl>'
        for n, (kind, form) in enumerate(forms)
    )


NUMBERING = "".join(
    f'<w:abstractNum w:abstractNumId="{n}">{levels}</w:abstractNum>'
    for n, levels in enumerate(
        (
            '<w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="decimal"/></w:lvl>',
            '<w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl>',
            _levels(("lowerLetter", "%1)"), ("lowerRoman", "(%2)")),
            _levels(("upperRoman", "Article %1."), ("decimal", "§ %1.%2")).replace(
                '<w:lvlText w:val="§', '<w:isLgl/><w:lvlText w:val="§'
            ),
            _levels(("decimal", "%1"), ("decimal", "%1.%2")),
        )
    )
) + "".join(f'<w:num w:numId="{n + 1}"><w:abstractNumId w:val="{n}"/></w:num>' for n in range(5))


def _notes(kind: str, *texts: str) -> str:
    empty = "".join(f'<w:{kind} w:type="separator" w:id="{n}"><w:p/></w:{kind}>' for n in (-1, 0))
    return empty + "".join(
        f'<w:{kind} w:id="{n}" w:author="Ann">{_p(_r(text))}</w:{kind}>' for n, text in enumerate(texts, 1)
    )


def _reference(kind: str, number: int) -> str:
    return f'<w:r><w:{kind}Reference w:id="{number}"/></w:r>'


WORDS: dict[str, tuple[bytes, str]] = {
    "tabs and hyphens": (
        _word(
            _p("<w:r><w:t>Anna</w:t><w:tab/><w:t>B12</w:t><w:noBreakHyphen/><w:t>a</w:t><w:br/><w:t>sof</w:t><w:softHyphen/><w:t>t</w:t></w:r>")
        ),
        "Anna B12-a\nsoft",
    ),
    "notes and comments": (
        _word(
            _p(_r("One") + _reference("footnote", 1) + _r(" two") + _reference("endnote", 1) + _reference("comment", 1))
            + _p(_r("Three") + _reference("footnote", 2)),
            {
                "footnotes": _notes("footnote", "First foot.", "Second foot."),
                "endnotes": _notes("endnote", "First end."),
                "comments": _notes("comment", "Is it so?"),
            },
        ),
        "One[1] two[2]\n\n[1] First foot.\n\n[2] First end.\n\nComment (Ann): Is it so?\n\nThree[3]\n\n[3] Second foot.",
    ),
    "header and footer": (
        _word(_p(_r("Body.")), {"header": _p(_r("The Lamp Company")), "footer": _p(_r("Page 1 of 3"))}),
        "The Lamp Company\n\nBody.",
    ),
    "formulas": (
        _word(
            _p(
                _r("For ")
                + "<m:oMath><m:r><m:t>m=</m:t></m:r><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>b+c</m:t></m:r>"
                "</m:den></m:f><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>"
                + _r(", stop.")
            )
        ),
        "For m=1/(b+c)x^2, stop.",
    ),
    "lists": (
        _word(
            _item(1, 0, "one") + _item(1, 1, "inner") + _item(1, 0, "two")
            + _item(2, 0, "dot") + _item(2, 1, "deep") + _item(1, 0, "three"),
            {"numbering": NUMBERING},
        ),
        "1. one\n   1. inner\n2. two\n- dot\n  - deep\n3. three",
    ),
    "lists of letters": (
        _word(
            "".join(_item(3, level, text) for level, text in ((0, "pay"), (1, "late"), (1, "never"), (0, "leave"))),
            {"numbering": NUMBERING},
        ),
        "a) pay\n(i) late\n(ii) never\nb) leave",
    ),
    "numbers of several levels": (
        _word(_item(4, 0, "Name") + _item(4, 1, "Seat") + _item(4, 0, "Fees") + _item(4, 1, "Due"), {"numbering": NUMBERING}),
        "Article I. Name\n\n§ 1.1 Seat\n\nArticle II. Fees\n\n§ 2.1 Due",
    ),
    "numbered headings": (
        _word(
            "".join(
                _p(_r(text), f'<w:outlineLvl w:val="{level}"/><w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="5"/></w:numPr>')
                for level, text in ((0, "Scope"), (0, "Dock"), (1, "Helmets"))
            ),
            {"numbering": NUMBERING},
        ),
        "# 1 Scope\n\n# 2 Dock\n\n## 2.1 Helmets",
    ),
    "powers and readings": (
        _word(
            _p(
                _r("10") + _r("6", '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>') + _r(" at ")
                + f"<w:r><w:ruby><w:rt>{_r('おおさか')}</w:rt><w:rubyBase>{_r('大阪')}</w:rubyBase></w:ruby></w:r>"
            )
        ),
        "10^6 at 大阪(おおさか)",
    ),
    "changes, links, boxes": (
        _word(
            _p(
                f"<w:del>{_r('gone')}</w:del><w:ins>{_r('new')}</w:ins>"
                f"<w:hyperlink r:id='hyperlink'>{_r(' link')}</w:hyperlink>"
                f"<w:sdt><w:sdtContent>{_r(' held')}</w:sdtContent></w:sdt>" + _r("hidden", "<w:rPr><w:vanish/></w:rPr>")
                + f"<w:r><w:pict><w:txbxContent>{_p(_r('In a box.'))}</w:txbxContent></w:pict></w:r>"
            )
        ),
        "new[ link](https://example.org/x) held\n\nIn a box.",
    ),
    "merged cells": (
        _word(
            "<w:tbl>"
            f"<w:tr><w:tc>{_p(_r('Task'))}</w:tc><w:tc>{_p(_r('Who'))}</w:tc><w:tc>{_p(_r('Days'))}</w:tc></w:tr>"
            f'<w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{_p(_r("Build"))}</w:tc><w:tc>{_p(_r("Ann"))}</w:tc>'
            f"<w:tc>{_p(_r('3'))}</w:tc></w:tr>"
            "<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc>"
            f'<w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{_p(_r("all"))}</w:tc></w:tr>'
            "</w:tbl>"
        ),
        "| Task | Who | Days |\n| --- | --- | --- |\n| Build | Ann | 3 |\n| Build | all | all |",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WORDS)
async def test_a_docx_says_what_its_pages_show(parser: Parser, case: str) -> None:
    content, text = WORDS[case]
    assert (await parser.parse(content, "a.docx")).text == text


def _sheet(rows: str, *, more: str = "", state: str = "visible", codes: tuple[str, ...] = ()) -> bytes:
    formats = "".join(f'<numFmt numFmtId="{200 + n}" formatCode="{code}"/>' for n, code in enumerate(codes))
    used = "".join(f'<xf numFmtId="{200 + n}"/>' for n in range(len(codes)))
    workbook = (
        f'<workbook {SHEET} xmlns:r="{OFFICE}officeDocument/2006/relationships"><sheets>'
        f'<sheet name="Costs" sheetId="1" r:id="worksheet" state="{state}"/></sheets></workbook>'
    )
    return xlsx(
        extra={
            "xl/workbook.xml": workbook,
            "xl/_rels/workbook.xml.rels": _relations(worksheet="worksheets/sheet1.xml", styles="styles.xml"),
            "xl/styles.xml": f"<styleSheet {SHEET}><numFmts>{formats}</numFmts><cellXfs>{used}</cellXfs></styleSheet>",
            "xl/worksheets/sheet1.xml": f"<worksheet {SHEET}><sheetData>{rows}</sheetData>{more}</worksheet>",
        }
    )


FORMATS = [
    ("46095", "yyyy-mm-dd", "2026-03-14"), ("46095", "dd.mm.yyyy", "14.03.2026"), ("46095", "d mmmm yyyy", "14 March 2026"),
    ("46095", "[$-F800]dddd, mmmm dd, yyyy", "2026-03-14"), ("46095.5729166667", "yyyy-mm-dd hh:mm", "2026-03-14 13:45"),
    ("0.572916666666667", "h:mm AM/PM", "1:45 PM"), ("1.25347222222222", "[h]:mm", "30:05"),
    ("0.00214120370370370", "mm:ss", "03:05"),
    ("0.125", "0.0%", "12.5%"), ("-0.25", "0%", "-25%"), ("1234.5", '#,##0.00 "€"', "1,234.50 €"),
    ("-1234.5", '[$$-409]#,##0.00;[Red]-[$$-409]#,##0.00', "-$1,234.50"), ("0", '_-* #,##0_-;-* #,##0_-;_-* "-"_-;_-@_-', "-"),
    ("1234567", "#,##0", "1,234,567"), ("1234567", '#,##0," k"', "1,235 k"), ("12345678", "0.00E+00", "1.23E+07"),
    ("1234", "00000", "01234"), ("5551234567", "(000) 000-0000", "(555) 123-4567"), ("1.25", "# ?/?", "1 1/4"),
    ("1E-7", "General", "1E-07"),
    ("-5", "0;(0)", "(5)"), ("0.30000000000000004", "General", "0.3"), ("12.50", "General", "12.5"), ("1.5", "@", "1.5"),
    ("7", '0 "days"', "7 days"), ("2", '[>=5]"big";"small"', "small"), ("1e400", "yyyy", "1e400"), ("46095", '"', "46095"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "code", "text"), FORMATS)
async def test_a_number_is_read_as_the_sheet_shows_it(value: str, code: str, text: str) -> None:
    assert shown(value, code) == text


async def test_a_sheet_is_what_it_shows(parser: Parser) -> None:
    rows = (
        '<row r="1"><c r="A1" t="str"><v>day</v></c><c r="B1" t="str"><v>price</v></c><c r="C1" t="str"><v>paid</v></c></row>'
        '<row r="2"><c r="A2" s="0"><v>46095</v></c><c r="B2" s="1"><v>1234.5</v></c><c r="C2" t="b"><v>1</v></c></row>'
        '<row r="9"><c r="A9" t="str"><v>sum</v></c><c r="B9"><f>SUM(B2:B3)</f></c></row>'
    )
    merged = '<mergeCells><mergeCell ref="B9:C9"/></mergeCells>'
    content = _sheet(rows, more=merged, state="hidden", codes=("yyyy-mm-dd", "#,##0.00\\ [$€-407]"))
    assert (await parser.parse(content, "a.xlsx")).text == (
        "## Costs (hidden)\n\n| day | price | paid |\n| --- | --- | --- |\n| 2026-03-14 | 1,234.50 € | TRUE |\n"
        "| sum | =SUM(B2:B3) | =SUM(B2:B3) |"
    )


def _box(text: str, kind: str = "", more: str = "") -> str:
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/><p:nvPr>{kind}</p:nvPr></p:nvSpPr><p:txBody><a:bodyPr/>'
        f"<a:p>{more}<a:r><a:rPr b='1'/><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def _frame(inner: str) -> str:
    return f"<p:graphicFrame><a:graphic><a:graphicData>{inner}</a:graphicData></a:graphic></p:graphicFrame>"


async def _slide(parser: Parser, shapes: str, parts: Mapping[str, str], **relations: str) -> Parsed:
    def tree(shapes: str) -> str:
        return f"<p:x {DRAWN}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:x>"

    return await parser.parse(
        pptx(
            extra={
                "ppt/slides/slide1.xml": tree(shapes),
                "ppt/slides/_rels/slide1.xml.rels": _relations(**relations),
                **{f"ppt/{name}": part if "<c:" in part else tree(part) for name, part in parts.items()},
            }
        ),
        "a.pptx",
    )


async def test_a_slide_has_its_notes_charts_and_tables_whatever_its_pictures_are(parser: Parser) -> None:
    picture = (
        '<p:pic><p:nvPicPr><p:cNvPr id="9" name="p" descr="A heron"/></p:nvPicPr>'
        '<p:blipFill><a:blip r:{}="{}"/></p:blipFill></p:pic>'
    )
    points = "".join(f'<c:pt idx="{n}"><c:v>{v}</c:v></c:pt>' for n, v in enumerate(("0.5", "0.25")))
    chart = (
        f"<c:chartSpace {DRAWN}><c:title><a:t>Ducks</a:t></c:title><c:ser><c:tx><c:v>Lake</c:v></c:tx>"
        f"<c:cat><c:pt idx='0'><c:v>East</c:v></c:pt></c:cat><c:val><c:formatCode>0%</c:formatCode>"
        f"{points}</c:val></c:ser></c:chartSpace>"
    )
    parsed = await _slide(
        parser,
        _box("Why", '<p:ph type="title"/>')
        + _box("buy lamps", more="<a:r><a:rPr b='1'/><a:t>Key point:</a:t></a:r><a:br/>")
        + picture.format("link", "image_1") + picture.format("embed", "image_2") + picture.format("embed", "none")
        + _frame("<c:chart r:id='chart'/>") + _frame("<a:tbl><a:tr><a:tc gridSpan='2'><a:p><a:r><a:t>a</a:t></a:r></a:p></a:tc>"
        "<a:tc hMerge='1'/></a:tr><a:tr><a:tc><a:p><a:r><a:t>b</a:t></a:r></a:p></a:tc><a:tc/></a:tr></a:tbl>")
        + _box("7", '<p:ph type="sldNum"/>') + f"<p:grpSp>{_box('In a group')}</p:grpSp>",
        {"charts/chart1.xml": chart, "notesSlides/n.xml": _box("Thank Kim", '<p:ph type="body"/>')},
        image_1="https://example.org/x.png", image_2="../media/gone.png", chart="../charts/chart1.xml",
        notesSlide="../notesSlides/n.xml",
    )  # fmt: skip
    assert parsed.text.partition("\n\n## How")[0] == (
        "## Why\n\nKey point: buy lamps\n\nA heron\n\nA heron\n\nA heron\n\n"
        "Chart: Ducks\n\n|  | Lake |\n| --- | --- |\n| East | 50% |\n|  | 25% |\n\n"
        "| a | a |\n| --- | --- |\n| b |  |\n\nIn a group\n\nNotes: Thank Kim"
    )


async def test_the_numbers_of_a_slide_are_those_that_it_shows(parser: Parser) -> None:
    said = (
        ("pay", 0, "alphaLcParenR"),
        ("late", 1, "romanUcPeriod"),
        ("leave", 0, "alphaLcParenR"),
        ("end", 0, ""),
    )
    paragraphs = "".join(
        f"<a:p><a:pPr lvl='{level}'>{f'<a:buAutoNum type={kind!r}/>' if kind else ''}</a:pPr><a:r><a:t>{text}</a:t></a:r></a:p>"
        for text, level, kind in said
    )
    shape = f"<p:sp><p:nvSpPr><p:nvPr><p:ph/></p:nvPr></p:nvSpPr><p:txBody>{paragraphs}</p:txBody></p:sp>"
    parsed = await _slide(parser, shape, {})
    assert parsed.text.startswith("## Slide 1\n\na) pay\n  I. late\nb) leave\n- end")


async def test_a_page_inside_a_docx_is_read(parser: Parser) -> None:
    with zipfile.ZipFile(io.BytesIO(_word("<w:altChunk r:id='aFChunk'/>"))) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    parts["word/_rels/document.xml.rels"] = _relations(aFChunk="page.html").encode()
    parts["word/page.html"] = b"<html><h1>Retro</h1><p>Ship on Fridays</html>"
    assert (await parser.parse(zipped(parts), "a.docx")).text == "# Retro\n\nShip on Fridays"


@pytest.mark.parametrize(
    "part", ["word/styles.xml", "word/numbering.xml", "docProps/core.xml", "word/_rels/document.xml.rels"]
)
@pytest.mark.parametrize("damage", ["<broken", "<w:x/>", None])
async def test_one_odd_part_costs_no_other(parser: Parser, part: str, damage: str | None) -> None:
    with zipfile.ZipFile(io.BytesIO(docx())) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    if damage is None:
        del parts[part]
    else:
        parts[part] = damage.encode()
    assert "We publish on Fridays." in (await parser.parse(zipped(parts), "a.docx")).text


@pytest.mark.parametrize(
    "title",
    [
        "(anonymous)",
        "Slide 1",
        "10811.exe",
        "Microsoft Word - Document2.doc",
        "untitled",
        "PowerPoint-Präsentation",
    ],
)
async def test_a_title_that_says_nothing_gives_way_to_the_first_heading(parser: Parser, title: str) -> None:
    assert (await parser.parse(docx(title=title), "x.docx")).title == "Release plan"
    assert (
        await parser.parse(f"<title>{title}</title><h2>Why lamps</h2>".encode(), "x.html")
    ).title == "Why lamps"


async def test_a_title_loses_the_program_that_made_it(parser: Parser) -> None:
    assert (
        await parser.parse(docx(title="Microsoft Word - Annual report.doc"), "x.docx")
    ).title == "Annual report"
