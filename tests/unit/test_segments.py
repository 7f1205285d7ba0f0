"""Long texts are cut into segments, of which each is short enough to be cut into chunks at once."""

from __future__ import annotations

import pytest

from plugins.documents.chunks import chunks
from plugins.documents.pieces import LONGEST, segments

FAMILY = "👩‍👩‍👧‍👦"
TEXTS = {
    "one word": "x" * 250_000,
    "chinese": "中文" * 60_000,
    "emoji": FAMILY * 12_000,
    "marks": "a" + "\u0301" * 50_000,
    "table": "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 12_000,
    "list": "- a thing to do\n" * 9_000,
    "open code": "```\n" + "code that never ends\n" * 6_000,
    "headings": "".join(f"{'#' * (n % 3 + 1)} Heading {n}\n\n{'Some words. ' * 40}\n\n" for n in range(250)),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_segments_are_bounded_and_together_the_text(text: str) -> None:
    found = list(segments(text, headings=[], code=[]))
    assert "".join(piece for _, piece in found) == text
    assert [start for start, _ in found] == [sum(len(p) for _, p in found[:n]) for n in range(len(found))]
    assert all(0 < len(piece) <= LONGEST for _, piece in found)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_word_of_a_long_text_is_in_a_chunk(text: str) -> None:
    """And nothing twice, but for the header of a table."""
    header = "| a | b |\n|---|---|\n"
    first, *others = [chunk.text.removeprefix(header) for chunk in chunks(text, title="Long")]
    cut = (header if text.startswith(header) else "") + "".join([first, *others])
    assert "".join(cut.split()) == "".join(text.split())


def test_a_heading_with_much_space_in_it_takes_no_time() -> None:
    """A pattern that tries each way to cut it would take hours."""
    text = "# a" + " " * 30_000 + "b ##  \n\nOwls."
    assert {chunk.headings for chunk in chunks(text, title="Owls")} <= {(), ("a b",), ("a",)}


def test_no_emoji_is_cut_in_two() -> None:
    found = [piece for _, piece in segments(TEXTS["emoji"], headings=[], code=[])]
    assert {piece.replace(FAMILY, "") for piece in found} == {""}


def test_a_long_text_is_cut_at_its_highest_heading_in_reach() -> None:
    said = "Owls fly at night. " * 30 + "\n\n"
    text = "".join(f"{'#' if n % 18 == 0 else '##'} Part {n}\n\n{said}" for n in range(60))
    found = chunks(text, title="Owls")
    assert all(chunk.headings for chunk in found)
    starts = [at for at in range(len(text)) if text.startswith("# Part", at) and text[at - 1] != "#"]
    cut = segments(text, headings=[(at, 1) for at in starts], code=[])
    assert {start for start, _ in cut} <= {0, *starts}


def test_a_long_text_is_not_cut_in_a_block_of_code_if_it_can_be_elsewhere() -> None:
    code = "```\n" + "print(1)\n\n" * 300 + "```\n\n"
    text = "".join(f"Before {n}.\n\n{code}" for n in range(20))
    spans = [(at, at + len(code)) for at in range(len(text)) if text.startswith("```\np", at)]
    inside = [
        start
        for start, _ in segments(text, headings=[], code=spans)
        if any(first < start < last for first, last in spans)
    ]
    assert inside == []
