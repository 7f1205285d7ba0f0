"""What one user's words cost all: random words are not compared with others', and a row teaches a bounded number of words."""

from __future__ import annotations

import random

import asyncpg
import pytest

from memory.vectors import has_meaning
from providers.local_embedder import LocalEmbedder
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.content.index import index_rows
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, remember
from tests.support.waiting import IDLE, until

LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
TAUGHT = 500
WORDS = "select count(*) from memoryd.lexicon"


def random_words(count: int, seed: int) -> list[str]:
    """Letters as often as in English, in no order."""
    dice = random.Random(seed)
    return ["".join(dice.choices(LETTERS, k=dice.randint(4, 9))) for _ in range(count)]


async def test_random_words_get_no_neighbours_and_are_found_as_they_are_written(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    words = random_words(4_000, 1)
    await remember(connection, "the car engine is in for repair", user_id=BOB)
    for start in range(0, len(words), 1_000):
        await remember(connection, " ".join(words[start : start + 1_000]), user_id=ANN)
    await until(connection, IDLE)
    # Of four rows 500 words each may be learnt; of these most say nothing to the model.
    assert await connection.fetchval(WORDS) < 4 * TAUGHT / 2
    assert await connection.fetchval("select count(*) from memoryd.lexicon where embedding is null") == 0
    lone = (
        "select w from unnest($1::text[]) w where not exists (select from memoryd.lexicon l where l.word = w)"
    )
    left_out = await column(connection, lone, words)
    assert len(left_out) > 3_000
    async with acting_as(connection, ANN):
        for word in left_out[::500]:
            assert await connection.fetch("select id from recall($1)", word), word
    async with acting_as(connection, BOB):
        assert len(await connection.fetch("select id from recall('engine')")) == 1
    # Real words have theirs.
    near = "select count(*) from memoryd.lexeme_neighbours where lexeme = 'car' and neighbour = 'engin'"
    assert await connection.fetchval(near) == 1


async def test_a_row_teaches_so_many_words_and_no_more(connection: asyncpg.Connection) -> None:
    text = " ".join(f"{a}{b}" for a in ("red", "blue", "gold", "grey") for b in random_words(400, 2))
    row = await remember(connection, text, user_id=ANN)
    await index_rows(connection, "memory")
    learn = "select memoryd.learn_words($1, $2, array[memoryd.scope_of($3, null)])"
    words = sorted(set(text.split()))
    assert await connection.fetchval(learn, words, [row], ANN) == TAUGHT
    # What the row has taught before does not count: with the next row that has them the others are learnt.
    again = await remember(connection, text + " more", user_id=ANN)
    await index_rows(connection, "memory")
    assert await connection.fetchval(learn, words, [again], ANN) == TAUGHT
    assert await connection.fetchval(WORDS) == 2 * TAUGHT


@pytest.mark.parametrize(
    "word",
    [
        "database",
        "kubernetes",
        "ontology",
        "electroencephalography",
        "pig",
        "wow",
        "postgres",
        "reykjavik",
        "lantern",
    ],
)
def test_a_word_of_a_language_has_meaning(word: str) -> None:
    assert has_meaning(word, LocalEmbedder().pieces([word])[0])


def test_most_random_words_have_none() -> None:
    words = random_words(5_000, 3)
    pieces = LocalEmbedder().pieces(words)
    assert sum(has_meaning(w, n) for w, n in zip(words, pieces, strict=True)) < 0.2 * len(words)
