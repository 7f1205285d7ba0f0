"""Files that are broken, or made to do harm, are refused with what to do, or read as far as they go."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from plugins.documents.parsing.parser import ChildParser
from plugins.documents.ports import Parsed, Parser
from plugins.files.local import UnreadableFileError
from tests.support.content.documents import claiming, docx, encrypted, pdf, pptx, xlsx, zipped

EMAIL = (
    b"From: ada@example.org\nSubject: report\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
    b"--X\nContent-Type: text/plain\n\nhello\n--X\nContent-Type: text/html\n\n<h1>hello</h1>\n--X--\n"
)
HTML = b"<html><title>t</title><h1>head</h1><ul><li>one</ul><table><tr><td>1<td>2</table><pre>code</pre>"


@pytest.fixture(scope="module")
async def parser() -> AsyncIterator[Parser]:
    made = ChildParser()
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "a.md", "is empty"),
        (b"", "a.pdf", "is empty"),
        (b" \n\t\r\n", "a.txt", "no text in the file"),
        (b"\x00" * 100, "a.txt", "not text"),
        (bytes(Random(1).randbytes(5_000)), "a.md", "not text"),
        (b"\xff\xfe" + bytes(Random(1).randbytes(5_000)), "a.txt", "not text"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "a.png", "picture. Run it through OCR"),
        (b"\x1f\x8b\x08" + bytes(100), "a.gz", "archive. Unpack it"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "a.docx", "old Office file .* or protected by a password"),
        (b"{\\rtf1 hello}", "a.rtf", "RTF.* Save it as DOCX"),
        (b"words", "a.docx", "called .docx, but is none"),
        (b"words", "a.pdf", "called .pdf, but is none"),
        (b"words", "a.eml", "no headers of an e-mail"),
        (b"<script>all()</script>", "a.html", "no text in the file"),
        (b"%PDF-1.7\nnothing", "a.pdf", "damaged or incomplete"),
        (b"PK\x03\x04nothing", "a.docx", "damaged or incomplete"),
        (zipped({"a.txt": "hello"}), "a.docx", "zip archive and no DOCX"),
        (zipped({"mimetype": "application/vnd.oasis.opendocument.text"}), "a.odt", "OpenDocument"),
        (docx()[:-300], "a.docx", "damaged or incomplete"),
    ],
)  # fmt: skip
async def test_what_cannot_be_read_says_what_to_do(
    parser: Parser, content: bytes, name: str, message: str
) -> None:
    with pytest.raises(UnreadableFileError, match=message):
        await parser.parse(content, name)


async def test_an_encrypted_pdf_is_refused(parser: Parser) -> None:
    with pytest.raises(
        UnreadableFileError,
        match=r"The PDF is encrypted\. Save a copy without a password and give that instead\.",
    ):
        await parser.parse(encrypted(pdf([["secret"]]), "password"), "a.pdf")


async def test_a_pdf_of_pictures_is_sent_to_ocr(parser: Parser) -> None:
    with pytest.raises(
        UnreadableFileError, match=r"no text in it; it is scanned pictures\. Run it through OCR"
    ):
        await parser.parse(pdf([[], []]), "a.pdf")


async def test_a_truncated_pdf_is_refused_or_read_as_far_as_it_goes(parser: Parser) -> None:
    whole = pdf([[f"page {number}"] for number in range(9)])
    for share in (0.1, 0.5, 0.9):
        try:
            parsed = await parser.parse(whole[: int(len(whole) * share)], "a.pdf")
        except UnreadableFileError as error:
            assert "damaged or incomplete" in str(error)  # noqa: PT017 - either is right
        else:
            assert "page" in parsed.text


async def test_a_file_over_the_limit_is_refused_at_once(parser: Parser, tmp_path: Path) -> None:
    with (tmp_path / "big.pdf").open("wb") as file:
        file.write(b"%PDF-1.7")
        file.truncate(200_000_001)
    content = (tmp_path / "big.pdf").read_bytes()
    taken = []
    for _ in range(3):  # the machine may do something else in one of them
        begun = time.monotonic()
        with pytest.raises(UnreadableFileError, match="larger than 200 MB"):
            await parser.parse(content, "big.pdf")
        taken.append(time.monotonic() - begun)
    assert min(taken) < 0.1


async def test_a_zip_that_claims_ten_gigabytes_is_refused(parser: Parser) -> None:
    content = docx(extra={f"word/media/{n}": os.urandom(3_000_000) for n in range(3)})
    with pytest.raises(UnreadableFileError, match="unpacks to far more"):
        await parser.parse(claiming(content, 1_200_000_000), "a.docx")


async def test_a_zip_bomb_is_refused(parser: Parser) -> None:
    with pytest.raises(UnreadableFileError, match="unpacks to far more"):
        await parser.parse(docx(extra={"word/more.xml": bytes(50_000_000)}), "a.docx")


async def test_a_zip_bomb_that_claims_to_be_small_is_refused(parser: Parser) -> None:
    with pytest.raises(UnreadableFileError, match="damaged"):
        await parser.parse(claiming(docx(extra={"word/more.xml": bytes(50_000_000)}), 1_000), "a.docx")


async def test_a_zip_with_a_password_is_refused(parser: Parser) -> None:
    content = bytearray(docx())
    place = content.find(b"PK\x01\x02")
    flags = struct.unpack_from("<H", content, place + 8)[0]
    struct.pack_into("<H", content, place + 8, flags | 1)
    with pytest.raises(UnreadableFileError, match="protected by a password"):
        await parser.parse(bytes(content), "a.docx")


async def test_html_of_any_depth_is_read(parser: Parser) -> None:
    for page in (
        "<div>" * 100_000 + "core" + "</div>" * 100_000,
        "<ul><li>" * 20_000 + "core",
        "<b>" * 250 + "core",
    ):
        assert "core" in (await parser.parse(page.encode(), "a.html")).text


async def test_json_of_any_depth_is_read(parser: Parser) -> None:
    text = "[" * 100_000 + "]" * 100_000
    parsed = await parser.parse(text.encode(), "a.json")
    assert parsed.text == f"```json\n{text}\n```"
    text = '{"a":' * 20_000 + "1" + "}" * 20_000
    assert (await parser.parse(text.encode(), "a.json")).document_type == "json"


async def test_json_with_long_paths_does_not_grow_without_bound(parser: Parser) -> None:
    text = '{"' + "k" * 50_000 + '": [' + "1," * 30_000 + "1]}"
    with pytest.raises(UnreadableFileError, match=r"longer than 10 MB\. Split"):
        await parser.parse(text.encode(), "a.json")


async def test_lone_surrogates_in_json_are_replaced(parser: Parser) -> None:
    assert (
        await parser.parse(b'{"a\\ud83d": "b\\udc4d\\u0000c", "d": "\\ud83d\\udc4d"}', "a.json")
    ).text == ("- a\ufffd: b\ufffdc\n- d: 👍")


async def test_a_csv_cell_of_five_megabytes_is_kept(parser: Parser) -> None:
    parsed = await parser.parse(b'a,b\n1,"' + b"word " * 1_000_000 + b'"\n2,3\n', "a.csv")
    assert parsed.metadata == {"rows": 2, "columns": 2}
    assert len(parsed.text) > 4_900_000
    assert parsed.text.endswith("| 2 | 3 |")


async def test_a_csv_with_a_long_header_does_not_grow_without_bound(parser: Parser) -> None:
    content = b"h" * 100_000 + b"\n" + b"1\n" * 15_000
    assert len((await parser.parse(content, "a.csv")).text) < 2 * len(content)


async def test_text_over_the_limit_is_refused(parser: Parser) -> None:
    with pytest.raises(UnreadableFileError, match=r"longer than 10 MB\. Split the file"):
        await parser.parse("ä".encode() * 5_100_000, "a.txt")


async def test_an_email_with_broken_parts_is_read(parser: Parser) -> None:
    message = (
        b"From: =?nonsense?q?x?=\nTo: <<>>,,;:\nSubject: re\xffport\nDate: never\nMIME-Version: 1.0\n"
        b"Content-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: text/plain; charset=nonsense\n"
        b"Content-Transfer-Encoding: base64\n\n!!!not base64\n--X\nContent-Type: text/plain\n\nhello\n"
        b"--X\nContent-Type: application/x; name*=nonsense'%%'%\nContent-Disposition: attach"
    )
    parsed = await parser.parse(message, "a.eml")
    assert "hello" in parsed.text
    assert parsed.metadata["date"] == "never"


async def test_an_attachment_of_five_megabytes_is_only_named(parser: Parser) -> None:
    attached = (
        b"--X\nContent-Type: text/csv\nContent-Disposition: attachment; filename=big.csv\n\n"
        + b"a,b\n" * 1_250_000
    )
    parsed = await parser.parse(EMAIL.replace(b"--X--", attached + b"--X--"), "a.eml")
    assert parsed.metadata["attachments"] == ["big.csv"]
    assert len(parsed.text) < 200


async def test_an_email_of_many_levels_does_no_harm(parser: Parser) -> None:
    levels = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(1_000)
    )
    try:
        await parser.parse(b"From: a@example.org\n" + levels, "a.eml")
    except UnreadableFileError as error:
        assert "drop" in str(error) or "no text" in str(error)  # noqa: PT017 - either is right


async def test_no_damage_to_a_file_does_more_than_make_it_unreadable(parser: Parser) -> None:
    files = {"a.docx": docx(), "a.xlsx": xlsx(), "a.pptx": pptx(), "a.pdf": pdf([["x y"], ["z"]]),
             "a.eml": EMAIL, "a.html": HTML, "a.md": b"---\na: [1, {b: c}]\n---\n# T\n", "a.json": b'{"a": [1, "b"]}',
             "a.csv": b'a,"b"\n1,2\n'}  # fmt: skip
    random = Random(20261122)
    for name, whole in files.items():
        for _ in range(30):
            content = bytearray(whole)
            for _ in range(random.randint(1, 8)):
                content[random.randrange(len(content))] = random.randrange(256)
            del content[random.randint(len(content) // 2, len(content) * 3) :]
            try:
                parsed = await parser.parse(bytes(content), name)
            except UnreadableFileError as error:
                assert "\n" not in str(error)  # noqa: PT017 - either is right
            else:
                _holds(parsed)


def _holds(parsed: Parsed) -> None:
    parsed.text.encode()
    assert parsed.text.strip()
    assert "\x00" not in parsed.text
    assert "\r" not in parsed.text
