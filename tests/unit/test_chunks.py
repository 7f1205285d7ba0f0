"""The chunks of the longest texts that there are."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from plugins.documents.chunks import MAX_CHARACTERS, chunks

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


Cells = Callable[[int], list[str]]
SHAPES: dict[str, tuple[list[str], Cells, int]] = {
    "price list": (
        ["Article", "In stock", "Purchase price"],
        lambda r: [f"Quince {r}", f"{r * 7}", f"{r}.50"],
        1_000,
    ),
    "60 columns": (
        [f"measure {n} of the year" for n in range(60)],
        lambda r: [f"Town{r}", *(f"{r}x{n}" for n in range(1, 60))],
        200,
    ),
    "long cells": (
        ["Part", "Story", "Price"],
        lambda r: [f"Part{r}", f"said{r} of it " * (300 if r % 3 else 2), f"{r}.99"],
        20,
    ),
    "one row": (["a", "b"], lambda r: [f"x{r}", "y"], 1),
}


@pytest.mark.parametrize("style", ["| {} |", "{}", "  |  {}   |"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_in_each_chunk_of_a_table_values_stand_below_the_names_of_their_columns(
    shape: tuple[list[str], Cells, int], style: str
) -> None:
    names, cells, count = shape
    lines = [
        style.format(" | ".join(row)) for row in [names, ["---"] * len(names), *map(cells, range(count))]
    ]
    text = "# Stock\n\nAs counted by Tom:\n\n" + "\n".join(lines) + "\n\nAll that is.\n\n| no table |"
    found = chunks(text, title="Stock")
    assert max(len(one.text) for one in found) <= MAX_CHARACTERS
    seen: dict[tuple[int, str], str] = {}
    for one in found:
        assert one.headings == ("Stock",)
        head: list[str] = []
        for line, below in zip(one.text.split("\n"), [*one.text.split("\n")[1:], ""], strict=True):
            row = [cell.strip() for cell in line.strip("| ").split(" | ")]
            if re.fullmatch(r"[|\s-]+", below) and "|" in below:
                head = row
            elif head and " | " in line and "---" not in line:
                key = next(r for r in range(count) if row[0] == cells(r)[0])
                for name, cell in zip(head, row, strict=True):
                    seen[key, name] = f"{seen.get((key, name), '')} {cell}".strip()
    for r in range(count):
        for name, cell in zip(names, cells(r), strict=True):
            assert cell.strip() in seen[r, name]
    rows = [one for one in found if "---" in one.text]
    # A part with few columns would be found before the others, whichever column is asked for.
    heads = {one.text.split("\n|---")[0].split("\n")[-1] for one in rows}
    assert len(heads) > 9 or 2 * min(map(len, heads)) >= max(map(len, heads))
    assert all(
        "As counted by Tom" in one.text or one.heading == "Stock\n... As counted by Tom:" for one in rows
    )
    assert "".join(found[-1].text.split()).endswith("Allthatis.|notable|")


@pytest.mark.parametrize(
    "text",
    [
        "```\n| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 300 + "```",
        f"| a | {'word ' * 200}|\n|---|---|\n" + "| 1 | 2 |\n" * 300,
        "a line\n---\nanother | line\n" + "| 1 | 2 |\n" * 300,
    ],
    ids=["code", "text beside text", "heading"],
)
def test_what_is_no_table_has_no_header(text: str) -> None:
    """Code, columns of text, and a heading that is underlined."""
    cut = "".join(one.text for one in chunks(text, title="t"))
    assert "".join(cut.split()) == "".join(text.split())
