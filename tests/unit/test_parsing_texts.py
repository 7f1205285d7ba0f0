"""What the readers of all formats share: no text gets through that a database refuses, whatever the bytes are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.documents.parsing.headings import best_title
from plugins.documents.parsing.reading import read_file
from plugins.documents.parsing.texts import Output, json_value, one_line, size, title_of
from plugins.files.child import GarbageError, head_of, lengths
from plugins.files.decoding import clean, decode
from plugins.files.local import UnreadableFileError


def _holds(text: str) -> None:
    text.encode()
    assert "\x00" not in text
    assert "\r" not in text


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_a_clean_text_can_be_stored(text: str) -> None:
    _holds(clean(text))
    _holds(one_line(text))


@given(st.binary(max_size=200))
def test_bytes_are_text_or_not(content: bytes) -> None:
    try:
        text, _ = decode(content)
    except UnreadableFileError:
        return
    _holds(text)


@given(st.text())
def test_utf8_is_read_as_it_is(text: str) -> None:
    printed = "".join(each for each in text if each.isprintable())
    assert decode(printed.removeprefix("\ufeff").encode())[0] == printed.removeprefix("\ufeff")


@given(
    st.text(alphabet="ab é漢👍", min_size=1).map(lambda text: text.encode() + "👍".encode()),
    st.integers(1, 3),
)
def test_a_character_cut_at_the_end_spoils_no_other(content: bytes, cut: int) -> None:
    if cut == 3 and content[:-4].isascii():
        return  # a single byte at the end of ASCII may be a letter of Windows-1252
    assert decode(content[:-cut])[0].startswith(content[:-4].decode())


@given(st.binary(max_size=300) | st.text(alphabet='-=#`~:[]{}"\\,;|\n a1').map(str.encode))
def test_plain_formats_are_read_or_refused(content: bytes) -> None:
    for name in ("a.md", "a.txt", "a.csv", "a.tsv", "a.json", "a.jsonl"):
        for lead in (b"", b"---\n"):
            try:
                parsed = read_file(lead + content, name, room=1_000)
            except UnreadableFileError:
                continue
            _holds(parsed.text)
            assert 0 < len(parsed.text.encode()) <= 1_000
            json.dumps(dict(parsed.metadata), allow_nan=False).encode()


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("my_first-note.md", "my first note"),
        ("/home/ada/A  b.tar.gz", "A b.tar"),
        ("C:\\docs\\plan.docx", "plan"),
        ("___.md", None),
        ("", None),
        ("x" * 500 + ".md", "x" * 200),
    ],
)
def test_a_name_is_a_title(name: str, title: str | None) -> None:
    assert title_of(name) == title


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("## Two ##\n# One", "Two"),
        ("Above\n=====\n", "Above"),
        ("```\n# code\n```\n# After", "After"),
        ("~~~~\n~~~\n# code\n~~~~\n# After", "After"),
        ("# **Bold** `code` [link](x.md)", "Bold code link"),
        ("#hashtag\n\nwords\n-----", None),
        ("", None),
    ],
)
def test_the_first_heading_is_found(text: str, heading: str | None) -> None:
    assert best_title(None, text) == heading


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (2**70, hex(2**70)),
        (float("nan"), "nan"),
        ({1: {"x"}}, {"1": ["x"]}),
        ("a\x00\ud800", "a\ufffd"),
        (object(), None),
    ],
)
def test_values_are_made_json(value: Any, stored: Any) -> None:
    assert json_value(value) == stored


def test_output_has_an_end() -> None:
    output = Output(10)
    output.add("12345")
    output.add("7890")
    assert output.text() == "12345\n7890"
    with pytest.raises(UnreadableFileError, match="longer than 10 bytes"):
        output.add("")


def test_sizes_are_for_people() -> None:
    assert [size(each) for each in (10, 1_500, 10_000_000, 2**30)] == [
        "10 bytes",
        "1.5 kB",
        "10 MB",
        "1.07 GB",
    ]


@given(st.binary(max_size=40))
def test_garbage_is_no_frame(content: bytes) -> None:
    if not content.startswith(b"mdp1"):
        with pytest.raises(GarbageError):
            lengths(content[:16], most=100)
    try:
        assert isinstance(head_of(content), dict)
    except GarbageError:
        return
