"""How well surprise tells what is new from what is known, on 200 pairs of sentences, and what it costs a row.

The pairs are the project's own (surprise_pairs.json): 50 sentences of many fields, each with a paraphrase, a text that has
nothing to do with it, a contradiction, and an elaboration. The numbers and lists of words in functions/knowledge/words.sql were
chosen on the half "tuned"; "held out" is the other half. Each pair is measured alone: its first sentence is all that is known.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import asyncpg

from benchmarks.harness import Figures, Times, command, print_table

PAIRS = Path(__file__).with_name("surprise_pairs.json")
HALVES = ("tuned", "held out")
LABELS = ("paraphrase", "contradiction", "elaboration", "unrelated")
ROWS = 20
"""Of an insert."""
STEPS = tuple(n / 10 for n in range(11))

MEASURE = """
select n.said from memoryd.nearest_knowledge($1, null, memoryd.embed($1)) n limit 1
"""
KNOW = """
insert into shared_knowledge (tier, category, title, content, created_by, surprise_score, embedding)
values ('learning', 'insight', $1, $1, 'benchmark', 1, memoryd.embed($1)) returning id
"""
INSERT = """
insert into shared_knowledge (tier, category, title, content, created_by, surprise_score)
select 'learning', 'insight', t, t, 'benchmark', $2::double precision from unnest($1::text[]) t
"""
FILL = """
insert into memoryd.entries (scope, source, id, passage, embedding, language, lexemes, weights, length, row_length, asks,
                             grants_metadata, is_current, created_at, weight, text_hash, group_scope)
select k.scope, 'knowledge', k.id, 0, memoryd.embed(k.content)::halfvec, 'english', to_tsvector('english', k.content),
       '{}/1000000000', 10, 10, false, '{}', true, now(), 1, 0, k.scope
from shared_knowledge k
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence that is known, and one that is said."""

    label: str
    half: str
    known: str
    said: str


def pairs() -> list[Pair]:
    """All of them."""
    return [Pair(*each) for each in json.loads(PAIRS.read_text())]


@asynccontextmanager
async def undone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """What is done in the block is rolled back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


async def surprise(connection: asyncpg.Connection, pair: Pair) -> float:
    """How new what is said is, where the other sentence is all that is known."""
    async with undone(connection):
        await connection.fetchval(KNOW, pair.known)
        row = await connection.fetchrow(MEASURE, pair.said)
        return 1.0 if row is None else 1 - float(row["said"])


async def cost(connection: asyncpg.Connection, entries: int, runs: int) -> tuple[float, float]:
    """Milliseconds a row takes in a plain insert: more with a score than without one, and one note_knowledge() in all."""
    texts = [f"{p.known[:-1]}, as team {n} of office {n * 7} found." for n in range(9) for p in pairs()]
    await connection.execute(INSERT, texts[:entries], 1.0)
    await connection.execute(FILL)
    await connection.execute("delete from memoryd.unindexed")
    await connection.execute("analyze memoryd.entries")
    times = Times()
    for n in range(runs):
        fresh = [f"{p.said[:-1]}, says customer {n}." for p in pairs()[n % 10 :: 10]]
        for name, score in (("scored", None), ("plain", 1.0)):
            async with undone(connection):
                with times.of(name):
                    await connection.execute(INSERT, fresh, score)
        async with undone(connection):
            with times.of("noted"):
                await connection.fetch("select * from note_knowledge($1, 'insight', 'benchmark')", fresh[0])
    scored, plain, noted = (statistics.median(times[name]) * 1000 for name in ("scored", "plain", "noted"))
    return (scored - plain) / ROWS, noted


def share(values: Sequence[float], *, below: float = 2.0, above: float = -1.0) -> str:
    """How many of the values lie between, as text."""
    hits = sum(above < v < below for v in values)
    return f"{hits}/{len(values)}"


async def measure(
    _url: str,
    connection: asyncpg.Connection,
    *,
    entries: Annotated[int, "entries that are known while the cost is measured"] = 1800,
    runs: Annotated[int, "inserts of 20 rows"] = 15,
) -> list[Figures]:
    """Prints the tables."""
    measured: dict[tuple[str, str], list[float]] = {(each, h): [] for each in LABELS for h in HALVES}
    for pair in pairs():
        measured[pair.label, pair.half].append(await surprise(connection, pair))
    print_table(
        ["pairs", "under .2", "over .7", "median"],
        [
            (", ".join(of), [share(v, below=0.2), share(v, above=0.7), f"{statistics.median(v):.2f}"])
            for of, v in measured.items()
        ],
    )
    print("\nSurprise over: of both halves, as many of 50")
    counts = {
        step: [sum(v >= step for half in HALVES for v in measured[label, half]) for label in LABELS]
        for step in STEPS[:-1]
    }
    print_table(["over", *LABELS], [(f"{step:.1f}", list(map(str, count))) for step, count in counts.items()])
    added, note = await cost(connection, entries, runs)
    print(
        f"\nWith {entries:,} entries known, a score adds {added:.1f} ms to a row of an insert; "
        f"note_knowledge() takes {note:.1f} ms."
    )
    surprises = {", ".join(of): values for of, values in measured.items()}
    return [{"surprise": surprises, "added_ms": added, "note_ms": note}]


if __name__ == "__main__":
    command(__doc__, measure)
