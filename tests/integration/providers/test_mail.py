"""What an e-mail says is read, however its program has packed it."""

from __future__ import annotations

import pytest

from plugins.documents.ports import Parser

HEAD = "From: Ann <ann@example.org>\nTo: bob@example.org\nSubject: x\nMIME-Version: 1.0\n"
INVOICE = "<p>Invoice 4711: 1,250 EUR are due on 14 March 2026.</p>"
LONG = "<p>" + "We moved the warehouse to Tver and hired two drivers for the northern route. " * 4 + "</p>"


async def _body(parser: Parser, message: str) -> str:
    parsed = await parser.parse((HEAD + message).encode(), "a.eml")
    return parsed.text.partition("\n\n")[2]


def _alternative(plain: str, html: str) -> str:
    return (
        "Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain; charset=utf-8\n\n"
        f"{plain}\n--b\nContent-Type: text/html; charset=utf-8\n\n{html}\n--b--\n"
    )


@pytest.mark.parametrize(
    ("plain", "html", "expected"),
    [
        ("Your mail program does not show HTML. View this in your browser: https://a.example/v", INVOICE, "1,250 EUR"),
        ("Ihr E-Mail-Programm kann kein HTML anzeigen.", INVOICE, "1,250 EUR"),
        ("https://a.example/v", LONG, "hired two drivers"),
        ("", INVOICE, "1,250 EUR"),
        ("This is a multi-part message in MIME format.", INVOICE, "1,250 EUR"),
        ("Please enable HTML\n--b\nContent-Type: text/calendar\n\nBEGIN:VCALENDAR", INVOICE, "1,250 EUR"),
        ("Invoice 4711: 1,250 EUR are due on 14 March 2026. PLAIN", INVOICE, "PLAIN"),
        ("The plain words.", "<p>Other words.</p>", "The plain words."),
    ],
)  # fmt: skip
async def test_a_plain_part_that_says_nothing_gives_way_to_the_html(
    parser: Parser, plain: str, html: str, expected: str
) -> None:
    assert expected in await _body(parser, _alternative(plain, html))


async def test_a_message_that_came_back_says_why(parser: Parser) -> None:
    message = (
        "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\nIt came back.\n"
        "--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; a.example\n\n"
        "Final-Recipient: rfc822; kim@example.org\nStatus: 5.1.1\n--b--\n"
    )
    assert await _body(parser, message) == (
        "It came back.\n\n- Reporting-MTA: dns; a.example\n- Final-Recipient: rfc822; kim@example.org\n- Status: 5.1.1"
    )


async def test_what_was_forwarded_keeps_its_sender_and_subject(parser: Parser) -> None:
    message = (
        "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nsee below\n"
        "--b\nContent-Type: message/rfc822\n\nFrom: carol@example.org\nSubject: =?utf-8?q?The_k=C3=A9y?=\n"
        "Content-Type: text/plain\n\nThe key is under the mat\n--b--\n"
    )
    assert await _body(parser, message) == (
        "see below\n\n- From: carol@example.org\n- Subject: The kéy\n\nThe key is under the mat"
    )


@pytest.mark.parametrize(
    ("delsp", "text", "expected"),
    [
        ("; delsp=yes", "The warehouse is bro \nken.\n> quo \n> ted\nend", "The warehouse is broken.\n> quoted\nend"),
        ("", "one \ntwo\n> quo \n> ted\n>> deep \n> less\n-- \nAnn", "one two\n> quo ted\n>> deep \n> less\n-- \nAnn"),
        ("", " >no quote", ">no quote"),
    ],
)  # fmt: skip
async def test_text_that_flows_is_whole_again(parser: Parser, delsp: str, text: str, expected: str) -> None:
    head = f"Content-Type: text/plain; charset=utf-8; format=flowed{delsp}\n\n"
    assert await _body(parser, head + text) == expected


async def test_a_page_in_an_email_names_its_own_encoding(parser: Parser) -> None:
    page = "<meta http-equiv='Content-Type' content='text/html; charset=iso-2022-jp'>会議は木曜日です"
    content = f"{HEAD}Content-Type: text/html\n\n".encode() + page.encode("iso2022_jp")
    assert (await parser.parse(content, "a.eml")).text.endswith("会議は木曜日です")


@pytest.mark.parametrize("named", ["other", "", '"b'])
async def test_parts_whose_boundary_is_not_the_one_that_the_head_names_are_read(
    parser: Parser, named: str
) -> None:
    message = _alternative("The invoice 4711 is due.", INVOICE).replace("boundary=b", f"boundary={named}")
    assert await _body(parser, message) == "The invoice 4711 is due."


async def test_an_email_of_several_parts_without_parts_is_its_words(parser: Parser) -> None:
    assert await _body(parser, "Content-Type: multipart/mixed\n\nOnly words.\n") == "Only words."
