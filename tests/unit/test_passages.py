"""A text in passages: nothing is lost, nothing is split that belongs together, and the time is linear."""

from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory import passages as module
from memory.passages import MAX_CHARACTERS, MAX_PASSAGES, MAX_WORDS, WIDE_CHARACTERS, passages

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
"""One emoji of seven characters."""
THUMB = "\U0001f44d\U0001f3fd"
FLAG = "\U0001f1f3\U0001f1f4"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
HEART = "\u2764\ufe0f"
ACCENTED = "e\u0301\u0323"
HINDI = "\u0915\u093f"
DRAWN_AS_ONE = {
    "family": FAMILY,
    "thumb": THUMB,
    "flag": FLAG,
    "scotland": SCOTLAND,
    "heart": HEART,
    "accented": ACCENTED,
    "hindi": HINDI,
}
PARAGRAPH = "The ferry leaves at seven. It stops at the island, then goes on to Bergen; mind the gap!\n"


def visible(text: str) -> str:
    """All but white space."""
    return re.sub(r"\s+", "", text)


def check(text: str) -> list[str]:
    """What holds for the passages of any text of which all is searched."""
    found = passages(text)
    assert found
    assert len(found) < MAX_PASSAGES
    assert visible("".join(found)) == visible(text)
    assert all(p == p.strip() for p in found)
    assert all(found) or not text.strip()
    # A part that is cut may be a little longer than a full passage: by the rest of what belongs together.
    assert all(len(p) <= MAX_CHARACTERS + 64 for p in found)
    assert all(len(p.split()) <= MAX_WORDS + 1 for p in found)
    return found


def cut_at(text: str, found: list[str]) -> list[int]:
    """Where in the text the passages begin, but for the first."""
    places, start = [], 0
    for passage in found:
        start = text.index(passage, start)
        places.append(start)
        start += len(passage)
    return places[1:]


@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "a", "a short text", "  a short text\n", PARAGRAPH])
def test_a_short_text_is_one_passage(text: str) -> None:
    assert passages(text) == [text.strip()]


@settings(max_examples=200)
@given(
    parts=st.lists(
        st.sampled_from(
            [
                *DRAWN_AS_ONE.values(), "word", "word ", "\n", "\n\n", " ", "\u3002", "\u6211\u4eec\u8d70",
                "\u0e2a\u0e27\u0e31",
                "- item\n", "# Title\n", "1. first\n", "```\ncode\n```\n", "x" * 900, "\u732b" * 200, "end. ", "a, b; c: ",
                "\u200b", "\u2028", "\x85", "\x1c", "\ufeff", "\u00a0", "'quoted.' ",
            ]
        ),
        max_size=60,
    )
)  # fmt: skip
@example(parts=["\x1c" * 3000])
@example(parts=["\u200d" * 2500])
def test_no_character_is_lost_in_any_text(parts: list[str]) -> None:
    check("".join(parts))


@settings(max_examples=100)
@given(text=st.text(max_size=300), times=st.integers(1, 30))
def test_no_character_is_lost_in_any_generated_text(text: str, times: int) -> None:
    check(text * times)


@pytest.mark.parametrize("name", DRAWN_AS_ONE)
@pytest.mark.parametrize("before", range(8))
def test_nothing_is_cut_that_is_drawn_as_one(name: str, before: int) -> None:
    """A text of nothing else and without a space: wherever it is cut, a whole sign begins."""
    sign = DRAWN_AS_ONE[name]
    text = "x" * before + sign * (4 * MAX_CHARACTERS // len(sign))
    found = check(text)
    assert len(found) > 2
    assert {(place - before) % len(sign) for place in cut_at(text, found)} == {0}


def test_a_combining_mark_stays_with_its_letter() -> None:
    text = ("o\u0308" * 3000) + " " + ("\u0e01\u0e33\u0e49" * 900)
    for passage in check(text):
        assert unicodedata.combining(passage[0]) == 0
        assert unicodedata.category(passage[0]) not in ("Mn", "Mc", "Me")


def test_words_are_whole() -> None:
    words = [f"word{n}" for n in range(5000)]
    assert " ".join(check(" ".join(words))).split() == words


def test_a_passage_ends_where_a_sentence_or_a_paragraph_ends() -> None:
    found = check((PARAGRAPH * 8 + "\n") * 20)
    assert len(found) >= 10
    assert all(p.startswith("The ferry") and p.endswith("gap!") for p in found)


def test_a_heading_begins_a_passage_and_stays_with_its_text() -> None:
    sections = [f"# Part {n}\n" + "The ferry leaves at seven, as ever. " * 26 for n in range(12)]
    found = check("\n\n".join(sections))
    assert [p.split("\n")[0] for p in found] == [f"# Part {n}" for n in range(12)]


@pytest.mark.parametrize(
    "sentence",
    [
        "\u6211\u4eec\u660e\u5929\u53bb\u6e56\u8fb9\u5403\u996d\u3002",
        "\u660e\u65e5\u306f\u6e56\u3078\u884c\u304d\u307e\u3059\u3002",
    ],
)
def test_scripts_without_spaces_have_passages_of_whole_sentences(sentence: str) -> None:
    found = check(sentence * 300)
    assert all(len(p) % len(sentence) == 0 for p in found)
    assert all(WIDE_CHARACTERS / 2 < len(p) <= WIDE_CHARACTERS + len(sentence) for p in found[:-1])


@pytest.mark.parametrize("character", ["\u732b", "\u0e01", "\uac00", "\U00020000"])
def test_a_text_of_one_script_without_any_mark_is_cut(character: str) -> None:
    found = check(character * 3000)
    assert {len(p) for p in found[:-1]} == {WIDE_CHARACTERS}


def test_mixed_scripts_keep_all() -> None:
    text = (
        "The ferry \u732b\u732b\u732b goes to \u0411\u0435\u0440\u0433\u0435\u043d, \u0646\u0627\u0642\u0629 \U0001f6a2. "
        * 400
    )
    assert len(check(text)) > 10


def test_a_very_long_word_is_cut() -> None:
    text = "x" * 1_000_000
    began = time.process_time()
    found = passages(text)
    assert time.process_time() - began < 2
    assert len(found) == MAX_PASSAGES
    assert {len(p) for p in found} == {MAX_CHARACTERS}
    around = check("before " + "x" * 5000 + " after")
    assert (around[0][:6], around[-1][-5:]) == ("before", "after")


def test_what_follows_the_last_passage_is_left_out_in_order() -> None:
    words = [f"word{n}" for n in range(MAX_WORDS * MAX_PASSAGES * 2)]
    found = passages(" ".join(words))
    assert len(found) == MAX_PASSAGES
    assert " ".join(found).split() == words[: len(" ".join(found).split())]


LONG = {
    "lines": PARAGRAPH,
    "words": "ferry ",
    "one word": "x",
    "one word of a script without spaces": "\u732b",
    "white space": " \n",
    "paragraphs": "a\n\n",
    "marks": "a.b,c;",
    "joined emoji": FAMILY,
    "joiners": "\u200d",
    "accents": "\u0301",
    "items": "- a\n",
    "no end of a quote": ".\"'",
    "blank lines with spaces": "\n ",
}


@pytest.mark.parametrize("name", LONG)
def test_the_time_is_linear(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty times the text takes about twenty times as long, where a square would be four hundred times."""
    monkeypatch.setattr(module, "MAX_PASSAGES", 10**9)
    seconds = []
    for size in (25_000, 500_000):
        text = LONG[name] * (size // len(LONG[name]))
        began = time.process_time()
        module.passages(text)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 100 * max(seconds[0], 0.02), seconds


def test_twenty_megabytes_take_a_few_seconds() -> None:
    text = LONG["one word"] * (20_000_000 // len(LONG["one word"]))
    began = time.process_time()
    passages(text)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(("count", "most"), [(3, 3), (60, 60), (2_500, MAX_PASSAGES)])
def test_a_row_of_a_table_is_a_passage_below_the_names_of_its_columns(count: int, most: int) -> None:
    """Of a very long table some rows are one: all of it is searched."""
    rows = [f"| Quince {n} | in the cellar of the house | {n}.50 |" for n in range(count)]
    found = passages(
        "Stock\n\n| article | place | price |\n|---|---|---|\n" + "\n".join(rows) + "\n\nCounted by Tom."
    )
    *tabled, last = found
    assert last == "Counted by Tom."
    assert all(one.startswith("Stock\n\n| article | place | price |") for one in tabled)
    assert [row for one in tabled for row in one.split("\n")[4:]] == rows
    assert count // 50 < len(tabled) <= most
