"""The chunks of the longest texts that there are."""

from __future__ import annotations

from memory.chunks import chunks

LONGEST = 10_000_000


def test_of_the_longest_text_each_word_is_in_a_chunk() -> None:
    # The more headings and short lines, the more chunks.
    lines = [f"# Heading {number}\n\nShort text {number}.\n" for number in range(LONGEST // 38)]
    text = "\n".join(lines)
    assert LONGEST * 0.9 < len(text) < LONGEST
    found = chunks(text, title="Long")
    assert "".join("".join(one.text for one in found).split()) == "".join(text.split())


def test_of_underscores_only_those_that_mark_words_are_left_out_of_the_context() -> None:
    text = "# _A_ snake_case__ and __two__ a____b _ __x\n\nwater _the_ plants_"
    assert chunks(text, title="t")[0].heading == "t > A snake_case and two a____b x"
    assert chunks(f"# a{'_' * 200_000}b\n\nwater", title="t")


def test_of_links_and_brackets_only_links_lose_their_address() -> None:
    text = "# [a](b) ![c](d) [e] [f]( [[g](h)] " + "[" * 20 + "\n\nwater"
    assert chunks(text, title="t")[0].heading == "t > a c [e] [f]( [g] " + "[" * 20
