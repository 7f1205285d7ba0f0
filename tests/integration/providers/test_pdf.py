"""PDF becomes Markdown: its pages, what is drawn twice, fonts that do not say their letters."""

from __future__ import annotations

import io

import pytest
from reportlab.pdfgen.canvas import Canvas

from plugins.documents.ports import Parsed, Parser
from plugins.files.local import UnreadableFileError
from tests.support.content.documents import encrypted, pdf


async def test_a_pdf_is_its_pages(parser: Parser) -> None:
    content = pdf(
        [
            ["The first page has mem-", "ory in it.", "# 5 is no heading", "Index . . . . . . . . . 7"],
            [],
            ["The last."],
        ],
        title="Report",
        author="Ada",
    )
    parsed = await parser.parse(content, "scan.bin")
    assert parsed == Parsed(
        text="## Page 1\n\nThe first page has memory in it.\n\\# 5 is no heading\nIndex … 7\n\n## Page 3\n\nThe last.",
        title="Report",
        document_type="pdf",
        metadata={"pages": 3, "pages_without_text": 1, "author": "Ada"},
    )


async def test_a_pdf_has_what_was_filled_into_it_and_noted_on_it(parser: Parser) -> None:
    made = io.BytesIO()
    canvas = Canvas(made)
    canvas.setAuthor("anonymous")
    canvas.drawString(72, 760, "Permit for the crane")
    canvas.acroForm.textfield(name="applicant", value="Rosalind Quint", x=150, y=700)
    canvas.acroForm.checkbox(name="urgent", checked=False, x=150, y=650)
    canvas.textAnnotation("Shorten this", Rect=[100, 600, 120, 620])
    canvas.save()
    parsed = await parser.parse(made.getvalue(), "a.pdf")
    assert parsed.text == "Permit for the crane\n\n- applicant: Rosalind Quint\n- Note: Shorten this"
    assert "author" not in parsed.metadata


def _drawn(text: str, *, size: int, by: float, letters: bool) -> bytes:
    """A PDF whose last line is drawn twice, `by` points apart."""
    made = io.BytesIO()
    canvas = Canvas(made)
    canvas.drawString(72, 720, "A plain line of words, of the usual size.")
    canvas.setFont("Courier", size)
    for offset in (0, by):
        for number, each in enumerate(text if letters else [text]):
            canvas.drawString(72 + number * 0.6 * size + offset, 680, each)
    canvas.save()
    return made.getvalue()


@pytest.mark.parametrize("letters", [True, False])
@pytest.mark.parametrize("by", [0, 0.3, 1])
async def test_what_a_pdf_draws_twice_to_look_bold_is_read_once(
    parser: Parser, by: float, letters: bool
) -> None:
    parsed = await parser.parse(_drawn("WARRANTY", size=18, by=by, letters=letters), "a.pdf")
    assert parsed.text == "A plain line of words, of the usual size.\nWARRANTY"
    assert parsed.title == "WARRANTY"  # reportlab's own is "untitled"


def _raw_pdf(*objects: str) -> bytes:
    written, starts = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        starts.append(len(written))
        written += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{start:010d} 00000 n \n" for start in starts)
    return (
        f"{written}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF"
    ).encode()


async def test_a_page_whose_font_does_not_say_its_letters_is_left_out(parser: Parser) -> None:
    def page(contents: int, font: int) -> str:
        return f"<< /Type /Page /Parent 2 0 R /Contents {contents} 0 R /Resources << /Font << /F {font} 0 R >> >> >>"

    def words(text: str) -> str:
        drawn = f"BT /F 12 Tf 72 720 Td ({text}) Tj ET"
        return f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream"

    glyphs = " ".join(f"/g{n}" for n in range(26))
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R 5 0 R] /Count 2 /MediaBox [0 0 612 792] >>",
        page(4, 7), words("A page of words."), page(6, 8), words("abcdefghijkl" * 3),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Odd /Encoding << /Differences [97 {glyphs}] >> >>",
    )  # fmt: skip
    parsed = await parser.parse(_raw_pdf(*objects), "a.pdf")
    assert (parsed.text, dict(parsed.metadata)) == (
        "## Page 1\n\nA page of words.",
        {"pages": 2, "pages_unreadable": 1},
    )
    with pytest.raises(UnreadableFileError, match="--force-ocr"):
        await parser.parse(
            _raw_pdf(*objects).replace(b"[3 0 R 5 0 R] /Count 2", b"[5 0 R] /Count 1      "), "a.pdf"
        )


async def test_a_pdf_that_everybody_may_open_is_read(parser: Parser) -> None:
    parsed = await parser.parse(encrypted(pdf([["hello"]], title="untitled"), ""), "my_file.pdf")
    assert (parsed.text, parsed.title) == ("hello", "my file")
