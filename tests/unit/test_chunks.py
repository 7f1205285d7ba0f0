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
