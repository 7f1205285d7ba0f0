"""How well surprise tells what is new from what is known, on 200 pairs of sentences, and what it costs a row.

The pairs are the project's own (surprise_pairs.json): 50 sentences of many fields, each with a paraphrase, a text that has
nothing to do with it, a contradiction, and an elaboration. The numbers and lists of words in functions/knowledge/words.sql were
chosen on the half "tuned"; "held out" is the other half. Each pair is measured alone: its first sentence is all that is known.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from benchmarks.harness import arguments, database

PAIRS = Path(__file__).with_name("surprise_pairs.json")
HALVES = ("tuned", "held out")
LABELS = ("paraphrase", "contradiction", "elaboration", "unrelated")
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


async def surprise(connection: asyncpg.Connection, pair: Pair) -> float:
    """How new what is said is, where the other sentence is all that is known."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.fetchval(KNOW, pair.known)
        row = await connection.fetchrow(MEASURE, pair.said)
        return 1.0 if row is None else 1 - float(row["said"])
    finally:
        await transaction.rollback()


async def cost(connection: asyncpg.Connection, entries: int, runs: int) -> tuple[float, float]:
    """Milliseconds a row takes in a plain insert: more with a score than without one, and one note_knowledge() in all."""
    texts = [f"{p.known[:-1]}, as team {n} of office {n * 7} found." for n in range(9) for p in pairs()][
        :entries
    ]
    await connection.execute(INSERT, texts, 1.0)
    await connection.execute(FILL)
    await connection.execute("delete from memoryd.unindexed")
    await connection.execute("analyze memoryd.entries")
    taken: dict[bool, list[float]] = {True: [], False: []}
    noted = []
    for n in range(runs):
        fresh = [f"{p.said[:-1]}, says customer {n}." for p in pairs()[n % 10 :: 10]]
        for scored in (True, False):
            transaction = connection.transaction()
            await transaction.start()
            began = time.perf_counter()
            await connection.execute(INSERT, fresh, None if scored else 1.0)
            taken[scored].append((time.perf_counter() - began) * 1000 / len(fresh))
            await transaction.rollback()
        transaction = connection.transaction()
        await transaction.start()
        began = time.perf_counter()
        await connection.fetch("select * from note_knowledge($1, 'insight', 'benchmark')", fresh[0])
        noted.append((time.perf_counter() - began) * 1000)
        await transaction.rollback()
    return statistics.median(taken[True]) - statistics.median(taken[False]), statistics.median(noted)


def share(values: Sequence[float], *, below: float = 2.0, above: float = -1.0) -> str:
    """How many of the values lie between, as text."""
    hits = sum(above < v < below for v in values)
    return f"{hits}/{len(values)}"


async def main(url: str, entries: int, runs: int) -> dict[str, object]:
    """Prints the tables; returns their figures."""
    connection = await asyncpg.connect(url)
    measured: dict[tuple[str, str], list[float]] = {(h, each): [] for h in HALVES for each in LABELS}
    for pair in pairs():
        measured[pair.half, pair.label].append(await surprise(connection, pair))
    print("| pairs | half | under .2 | over .7 | median |\n|---|---|---:|---:|---:|")
    for label in LABELS:
        for half in HALVES:
            values = measured[half, label]
            low, high = share(values, below=0.2), share(values, above=0.7)
            print(f"| {label} | {half} | {low} | {high} | {statistics.median(values):.2f} |")
    print("\nSurprise over: of both halves, as many of 50\n")
    print(f"| over | {' | '.join(LABELS)} |\n|---|{'---:|' * len(LABELS)}")
    for step in STEPS[:-1]:
        counts = [sum(v >= step for half in HALVES for v in measured[half, label]) for label in LABELS]
        print(f"| {step:.1f} | {' | '.join(map(str, counts))} |")
    added, note = await cost(connection, entries, runs)
    print(
        f"\nWith {entries:,} entries known, a score adds {added:.1f} ms to a row of an insert; "
        f"note_knowledge() takes {note:.1f} ms."
    )
    await connection.close()
    return {
        "surprise": {f"{label}, {half}": values for (half, label), values in measured.items()},
        "added_ms": added,
        "note_ms": note,
    }


if __name__ == "__main__":
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--entries", type=int, default=1800, help="entries that are known while the cost is measured"
    )
    parser.add_argument("--runs", type=int, default=15, help="inserts of 20 rows")
    options = parser.parse_args()
    with database(options.database_url) as where:
        figures = asyncio.run(main(where, options.entries, options.runs))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))
