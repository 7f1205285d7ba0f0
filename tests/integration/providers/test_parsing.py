"""Files become Markdown that keeps their structure, whatever their format."""

from __future__ import annotations

import json

import pytest

from plugins.documents.parsing.parser import ChildParser
from plugins.documents.ports import Parsed, Parser
from plugins.files.local import UnreadableFileError
from plugins.files.process import BOOT, command_of
from tests.support.content.documents import docx, pdf, pptx, xlsx


async def _read(parser: Parser, content: str | bytes, name: str) -> Parsed:
    return await parser.parse(content.encode() if isinstance(content, str) else content, name)


async def test_markdown_stays_as_it_is_and_its_front_matter_becomes_metadata(parser: Parser) -> None:
    body = "Intro.\n\n# The *plan*\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\n# no heading\n```\n"
    parsed = await _read(parser, f"---\ntags: [x, y]\nday: 2026-11-02\n---\n\n{body}", "a_file.md")
    assert parsed == Parsed(
        text=body,
        title="The *plan*",
        document_type="markdown",
        metadata={"tags": ["x", "y"], "day": "2026-11-02"},
    )


async def test_a_title_in_front_matter_comes_before_a_heading(parser: Parser) -> None:
    parsed = await _read(parser, "---\ntitle: From above\n---\n# Below", "a.md")
    assert (parsed.title, parsed.text) == ("From above", "# Below")


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: [broken\n---\nThe text.",
        "---\na: &a [x, x]\nb: [*a, *a]\n---\nThe text.",
        "---\na: " + "[" * 5_000 + "\n---\nThe text.",
    ],
)
async def test_front_matter_that_is_broken_or_a_trap_stays_in_the_text(parser: Parser, text: str) -> None:
    parsed = await _read(parser, text, "a.md")
    assert parsed.text == text
    assert parsed.metadata == {"front_matter": "unreadable"}


async def test_front_matter_is_read_by_yaml_1_2_and_one_bad_value_costs_its_field_alone(
    parser: Parser,
) -> None:
    written = {
        "day: 2026-13-45": "2026-13-45", "when: 2026-11-02 10:00:00": "2026-11-02 10:00:00", "at: 12:30": "12:30",
        "draft: no": "no", "on: off": "off", "code: 0123": "0123", "version: 1.10": "1.10", "count: 7": 7,
        "share: -0.5": -0.5, "big: 1e3": "1e3",
        "good: true": True, "nothing: ~": None, "quoted: '7'": "7", "hex: 0x1F": "0x1F", "tagged: !odd thing": "thing",
        "broken: !!timestamp never": "never", "list: [yes, 1_000, {a: 07:00}]": ["yes", "1_000", {"a": "07:00"}],
        "<<: merged": "merged", "infinite: .inf": ".inf", "title: 2026": 2026,
    }  # fmt: skip
    parsed = await _read(parser, "---\n" + "\n".join(written) + "\n---\nThe text.", "a.md")
    keys = [each.partition(": ")[0] for each in written]
    assert parsed == Parsed(
        text="The text.",
        title="2026",
        document_type="markdown",
        metadata=dict(zip(keys, written.values(), strict=True)),
    )


@pytest.mark.parametrize(
    "text", ["---\nwords between rules\n---\nmore", "---\nno end", "--- a\ntitle: x\n---\n"]
)
async def test_rules_are_no_front_matter(parser: Parser, text: str) -> None:
    parsed = await _read(parser, text, "a.md")
    assert (parsed.text, dict(parsed.metadata)) == (text, {})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Grüße\r\naus\rKöln".encode(), "Grüße\naus\nKöln"),
        ("Grüße".encode("utf-8-sig"), "Grüße"),
        ("Grüße 東京".encode("utf-16"), "Grüße 東京"),
        ("Grüße".encode("utf-32"), "Grüße"),
        ("Grüße für “alle”".encode("cp1252"), "Grüße für “alle”"),
        ("ein Emoji 👍".encode()[:-2], "ein Emoji \ufffd"),
        ("Köln ".encode() + "👍".encode()[:2] + b" und weiter", "Köln \ufffd und weiter"),
        ("lone \ud83d!".encode("utf-8", "surrogatepass"), "lone \ufffd!"),
        ("pair \ud83d\udc4d".encode("utf-8", "surrogatepass"), "pair 👍"),
        (b"with\x00 a NUL " + b"text " * 20, "with a NUL " + "text " * 20),
    ],
)
async def test_text_is_read_in_every_encoding(parser: Parser, content: bytes, text: str) -> None:
    parsed = await parser.parse(content, "my_old-notes.txt")
    assert (parsed.text, parsed.title, parsed.document_type) == (text, "my old notes", "text")


async def test_a_guessed_encoding_is_named(parser: Parser) -> None:
    metadata = (await parser.parse("für".encode("cp1252"), "a.txt")).metadata
    assert metadata == {"encoding": "cp1252", "encoding_confidence": 0.5}


@pytest.mark.parametrize("name", ["README", "a.py", "notes.unknown", ".env", ""])
async def test_text_of_any_name_is_text(parser: Parser, name: str) -> None:
    assert (await _read(parser, "just words", name)).document_type == "text"


async def test_html_keeps_structure_and_loses_what_no_reader_sees(parser: Parser) -> None:
    page = """<!doctype html><html><head><title>The  page</title><style>p {color: red}</style></head><body>
    <!-- a comment --><h1>Head<a href="#head" title="Permalink">¶</a></h1><p>Some <b>bold</b> words and snake_case.</p>
    <p style="color: red; display: none">unseen</p><p hidden>unseen</p><script>unseen()</script>
    <ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul>
    <table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>
    <pre><code class="language-py">def f():\n    return 1</code></pre>
    <p><a href="https://example.org/x">link</a> <a href="javascript:run()">trap</a> <a href="#head">up</a>
    <img src="data:image/png;base64,AAAA" alt="A chart"></p></body></html>"""
    parsed = await _read(parser, page, "a.html")
    assert (parsed.title, parsed.document_type) == ("The page", "html")
    for piece in (
        "# Head\n\nSome **bold** words and snake_case.",
        "- one\n  - inner\n- two",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
        "```py\ndef f():\n    return 1\n```",
        "[link](https://example.org/x) trap up\nA chart",
    ):
        assert piece in parsed.text
    for gone in ("unseen", "comment", "color", "javascript", "base64"):
        assert gone not in parsed.text


@pytest.mark.parametrize(
    "tag",
    ["main", "header", "footer", "aside", "nav", "figure", "figcaption", "details", "summary", "button",
     "address", "fieldset", "legend", "form", "label", "hgroup", "search", "menu", "center", "output", "textarea",
     "x-card", "section", "p", "li", "td"],
)  # fmt: skip
async def test_neighbours_in_html_are_not_one_word(parser: Parser, tag: str) -> None:
    page = f"<body>One<{tag}>Alpha</{tag}><{tag}>Beta</{tag}>Two</body>"
    assert (await _read(parser, page, "a.html")).text.replace("-", " ").split() == [
        "One",
        "Alpha",
        "Beta",
        "Two",
    ]


async def test_html_keeps_powers_readings_and_what_is_set_apart_by_style(parser: Parser) -> None:
    page = (
        "10<sup>6</sup> H<sub>2</sub>O <ruby>漢字<rt>かんじ</rt></ruby> sof&shy;t"
        "<span style='display:block'>A</span><a style='display: flex'>B</a>"
    )
    assert (await _read(parser, page, "a.html")).text == "10^6 H2O 漢字(かんじ) soft\n\nA\n\nB"


async def test_html_keeps_what_forms_lists_and_formulas_show(parser: Parser) -> None:
    page = (
        "<ul><li><input type=checkbox checked> done<li><input type=checkbox>open</ul><p>To <select><option>Rome"
        "<option selected>Oslo</select><p>Area <math><mi>π</mi><msup><mi>r</mi><mn>2</mn></msup></math>"
        "<ol type=a><li>pay<li value=4>leave</ol><ol start=3 type=I><li>third</ol><ol reversed><li>gold<li>silver</ol>"
    )
    assert " ".join((await _read(parser, page, "a.html")).text.split()) == (
        "- [x] done - [ ] open To Oslo Area πr^2 a. pay d. leave III. third 2. gold 1. silver"
    )


async def test_html_is_read_in_the_encoding_that_it_names(parser: Parser) -> None:
    page = '<meta charset="iso-8859-2"><p>žluťoučký kůň</p>'.encode("iso-8859-2")
    assert (await parser.parse(page, "a.htm")).text == "žluťoučký kůň"


async def test_html_without_end_tags_keeps_its_structure(parser: Parser) -> None:
    page = (
        "<html><head><title>T</title><p>one<p hidden>unseen<p>two<ul><li>a<li>b<ul><li>c</ul><li>d</ul>"
        "<table><tr><th>x<th>y<tr><td>1<td>2</table><h2>End"
    )
    parsed = await _read(parser, page, "a.html")
    assert parsed.text == (
        "one\n\ntwo\n\n- a\n- b\n  - c\n- d\n\n| x | y |\n| --- | --- |\n| 1 | 2 |\n\n## End"
    )


@pytest.mark.parametrize(
    ("declared", "content", "text"),
    [("utf-16", "Grüße".encode(), "Grüße"), ("iso-8859-1", "“ja”".encode("cp1252"), "“ja”")],
)
async def test_html_that_names_a_wrong_encoding_is_read(
    parser: Parser, declared: str, content: bytes, text: str
) -> None:
    page = b'<meta charset="' + declared.encode() + b'"><p>' + content + b"</p>"
    assert (await parser.parse(page, "a.html")).text == text


async def test_html_without_a_name_for_it_is_known_by_its_beginning(parser: Parser) -> None:
    assert (await _read(parser, "<!DOCTYPE html><h1>Hello</h1>", "page")).document_type == "html"


TABLES = {
    "spanned.html": (
        ("<table><tr><th>Day<th>Open<th>Note<tr><td>Mon<td rowspan=2>9-17<td>a<tr><td>Tue<td>b|c"
        "<tr><td colspan=3>closed<tr><td>Fri<td rowspan=0>8<td>d<tr><td>Sat<td>e</table>"),
        ("| Day | Open | Note |\n| --- | --- | --- |\n| Mon | 9-17 | a |\n| Tue | 9-17 | b\\|c |\n"
        "| closed | closed | closed |\n| Fri | 8 | d |\n| Sat | 8 | e |"),
    ),
    "two rows of names.html": (
        ("<table><caption>Marks</caption><thead><tr><th rowspan=2>Name<th colspan=2>Score<tr><th>math<th>art"
        "<tbody><tr><td>Ann<td>1<td>2</table>"),
        "Marks\n\n| Name | Score math | Score art |\n| --- | --- | --- |\n| Ann | 1 | 2 |",
    ),
    "unmarked names.html": (
        ("<table><tr><td colspan=3>Preise 2026<tr><td rowspan=2>Artikel<td colspan=2>Preis"
        "<tr><td>Netto<td>Brutto<tr><td>Kabel<td>1,00 €<td>1,19 €</table>"),
        "Preise 2026\n\n| Artikel | Preis Netto | Preis Brutto |\n| --- | --- | --- |\n| Kabel | 1,00 € | 1,19 € |",
    ),
    "names in front.html": (
        "<table><tr><th>Born<td>1815<tr><th>Died<td>1852</table>",
        "|  |  |\n| --- | --- |\n| Born | 1815 |\n| Died | 1852 |",
    ),
    "layout.html": (
        ("<table width=100%><tr><td><img src=x><td>Welcome<tr><td colspan=2><table><tr><td>Item<td>Price"
        "<tr><td>A<td>5</table></table><table role=presentation><tr><th>Hi<td>you<tr><td>and<td>all</table>"),
        "Welcome\n\n| Item | Price |\n| --- | --- |\n| A | 5 |\n\nHi you\n\nand all",
    ),
    "within.html": (
        "<table><tr><th>a<th>b<tr><td>1<td><table><tr><th>x<th>y<tr><td>2<td>3</table></table>",
        "| a | b |\n| --- | --- |\n| 1 | x, y; 2, 3 |",
    ),
    "endless.html": (
        "<table><tr><th colspan=99999 rowspan=99999>a<th>b<tr><td>1<td>2</table>",
        None,
    ),
    "semicolons.csv": (
        '"Name\n(long)";"Price, net"\n"Hub\ntwo";1,5\nKabel;2,75',
        "| Name (long) | Price, net |\n| --- | --- |\n| Hub two | 1,5 |\n| Kabel | 2,75 |",
    ),
    "tabs.csv": ("a\tb\n1,5\t2\n", "| a | b |\n| --- | --- |\n| 1,5 | 2 |"),
    "tabs.tsv": ("a, b; c\td\n1\t2\n", "| a, b; c | d |\n| --- | --- |\n| 1 | 2 |"),
    "told.csv": ("sep=|\na|b\n1|2\n", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
    "titled.csv": (
        "Price list;;\n;;\nArticle;Net;Gross\nCable;1;2\n",
        "Price list\n\n| Article | Net | Gross |\n| --- | --- | --- |\n| Cable | 1 | 2 |",
    ),
    "two rows of names.csv": (
        ",Q1,,Q2,\nRegion,Units,Price,Units,Price\nEU,12,3.5,4,5\n",
        ("| Region | Q1 Units | Q1 Price | Q2 Units | Q2 Price |\n| --- | --- | --- | --- | --- |\n"
        "| EU | 12 | 3.5 | 4 | 5 |"),
    ),
    "words.csv": ("name,town\nAnn,Bonn\nBob,Rome\n", "| name | town |\n| --- | --- |\n| Ann | Bonn |\n| Bob | Rome |"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
async def test_a_table_has_each_value_below_the_name_of_its_column(parser: Parser, name: str) -> None:
    content, text = TABLES[name]
    parsed = await _read(parser, content, name)
    assert text is None or parsed.text == text
    assert len(parsed.text) < 3_000_000


async def test_csv_becomes_one_table(parser: Parser) -> None:
    rows = "".join(f'{n};"a, b | c\nd"\n' for n in range(120))
    parsed = await _read(parser, "id;words\n" + rows, "data.csv")
    assert parsed.metadata == {"rows": 120, "columns": 2}
    assert parsed.text.startswith("| id | words |\n| --- | --- |\n| 0 | a, b \\| c d |\n")
    assert parsed.text.count("\n") == 121


async def test_csv_with_bad_quoting_loses_no_row(parser: Parser) -> None:
    parsed = await _read(parser, 'a,b\n1,"x\n2,3\n4,5,6\n7', "a.csv")
    assert parsed.text.split("\n")[2:] == [
        '| 1 | "x |',
        "| 2 | 3 |",
        "| 4 | 5 | 6 |",
        "| 7 |",
    ]


async def test_json_becomes_paths_and_values(parser: Parser) -> None:
    value = {"title": "Servers", "list": [{"name": "alpha", "up": True}, {"odd key": None}, []]}
    text = json.dumps(value)[:-1] + ', "version": 1.10}'
    parsed = await _read(parser, text, "a.json")
    assert (parsed.title, parsed.document_type) == ("Servers", "json")
    assert parsed.text.split("\n") == [
        "- title: Servers",
        "- list[0].name: alpha",
        "- list[0].up: true",
        '- list[1]["odd key"]: null',
        "- list[2]: []",
        "- version: 1.10",
    ]


async def test_json_lines_are_a_list(parser: Parser) -> None:
    assert (await _read(parser, '{"a": 1}\n\n{"a": 2}\n', "a.jsonl")).text == "- [0].a: 1\n- [1].a: 2"


async def test_broken_json_stays_as_it_is(parser: Parser) -> None:
    parsed = await _read(parser, '{"a": "```"', "a.json")
    assert parsed.text == '````json\n{"a": "```"\n````'
    assert parsed.metadata == {"json": "unreadable"}


async def test_an_email_is_its_headers_its_plain_text_and_the_names_of_its_attachments(
    parser: Parser,
) -> None:
    message = (
        "From: Ada <ada@example.org>\nTo: bob@example.org\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n"
        "Date: Mon, 2 Nov 2026 10:00:00 +0100\nMIME-Version: 1.0\n"
        "Content-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: multipart/alternative; boundary=Y\n\n"
        "--Y\nContent-Type: text/plain; charset=latin-1\nContent-Transfer-Encoding: quoted-printable\n\ncaf=E9 at ten\n"
        "--Y\nContent-Type: text/html\n\n<p>not taken</p>\n--Y--\n"
        '--X\nContent-Type: application/pdf\nContent-Disposition: attachment; filename="report.pdf"\n\nJVBERi0=\n--X--\n'
    )
    parsed = await _read(parser, message, "a.eml")
    assert parsed == Parsed(
        text="- From: Ada <ada@example.org>\n- To: bob@example.org\n- Date: Mon, 02 Nov 2026 10:00:00 +0100\n"
        "- Attachments: report.pdf\n\ncafé at ten",
        title="Grüße",
        document_type="email",
        metadata={
            "from": "Ada <ada@example.org>",
            "to": "bob@example.org",
            "subject": "Grüße",
            "date": "2026-11-02T10:00:00+01:00",
            "attachments": ["report.pdf"],
        },
    )


async def test_an_email_in_html_only_is_converted(parser: Parser) -> None:
    message = (
        "From: a@example.org\nSubject: x\nContent-Type: text/html\n\n<h2>Hello</h2><ul><li>one</li></ul>"
    )
    assert (await _read(parser, message, "a.eml")).text.endswith("\n\n## Hello\n\n- one")


@pytest.mark.parametrize("name", ["a.docx", "a.txt", "a"])
async def test_a_docx_keeps_headings_list_and_table(parser: Parser, name: str) -> None:
    assert await parser.parse(docx(), name) == Parsed(
        text="# Release plan\n\nWe publish on Fridays.\n\n## Steps\n\n- build the wheel\n\n"
        "| Task | Days |\n| --- | --- |\n| Build | 3 |",
        title="The plan",
        document_type="docx",
        metadata={"authors": ["Ada"]},
    )


async def test_a_docx_without_a_title_is_called_after_its_first_heading(parser: Parser) -> None:
    assert (await parser.parse(docx(title=None), "x.docx")).title == "Release plan"


async def test_an_xlsx_is_a_table_a_sheet(parser: Parser) -> None:
    parsed = await parser.parse(xlsx(), "my_costs.xlsx")
    assert parsed.text.startswith(
        "## Costs\n\n| City | Euro |\n| --- | --- |\n| Köln | 12.5 |\n\n## Towns\n\n| Bonn |"
    )
    assert (parsed.title, parsed.document_type) == ("my costs", "xlsx")
    assert parsed.metadata == {"sheets": ["Costs", "Towns"]}


async def test_a_pptx_is_a_section_a_slide(parser: Parser) -> None:
    parsed = await parser.parse(pptx(), "talk.pptx")
    assert parsed.text == "## Why memory\n\nAgents forget.\n\n## How it works\n\nThey ask."
    assert (parsed.title, parsed.document_type) == ("Why memory", "pptx")


async def test_without_the_extra_documents_the_message_names_it() -> None:
    command = command_of("plugins.documents.parsing.reading")
    command[command.index(BOOT)] = f"import sys; sys.modules['pypdfium2'] = None; {BOOT}"
    parser = ChildParser(command=command)
    with pytest.raises(UnreadableFileError, match=r"extra documents of memoryd.* -m pip install 'chardet"):
        await parser.parse(pdf([["words"]]), "a.pdf")
    await parser.close()
