"""How documents are cut: memoryd's chunks beside fixed windows and whole texts, by what recall() then finds.

    python -m benchmarks.files.documents --data FILE...

Of each FILE (benchmarks.search.bodies) the long messages are taken, each as a document. Every set is written three times, for
users of their own: with its content, which the daemon cuts (chunks); with windows of 200 words that the writer brings; with the
whole text as one chunk. The two latter have the document's title as context. A question is asked in SQL with its text alone.

@5 is the part of the evidence among the first five results. Whole texts contain everything, so `words` says how many words the
five results have together (mean), and `in 1,000 words` is the part of the evidence in the first results that have 1,000 words
at most: what an agent with so much room gets.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import asyncpg

from benchmarks.harness import (
    Figures,
    Times,
    arguments,
    daemon,
    database,
    percentiles,
    print_table,
    report,
    until_idle,
)
from benchmarks.search.bodies import Body, make_body, read

SHOWN = 5
ASKED = 30
"""Results asked for: enough for ROOM words."""
ROOM = 1_000
WINDOW_WORDS = 200
MIN_WORDS = 100
"""A message is taken for a document from this length on."""

WITH_CONTENT = """
insert into documents (id, user_id, title, source, content)
select id, $1, title, 'benchmark', content from unnest($2::uuid[], $3::text[], $4::text[]) as d(id, title, content)
"""
WITHOUT_CONTENT = """
insert into documents (id, user_id, title, source)
select id, $1, title, 'benchmark' from unnest($2::uuid[], $3::text[]) as d(id, title)
"""
CHUNKS = """
insert into memory_chunks (document_id, chunk_index, chunk_text, context)
select * from unnest($1::uuid[], $2::integer[], $3::text[], $4::text[])
"""
COUNT = """
select count(*), avg(array_length(regexp_split_to_array(chunk_text, '\\s+'), 1))
from memory_chunks where user_id = any($1)
"""
RECALL = """
select content, (metadata->>'document_id')::uuid as document from recall($1, user_id => $2, match_count => $3)
"""

Cut = Callable[[str], list[str]]


def windows(text: str) -> list[str]:
    """The text in windows of WINDOW_WORDS words, which end wherever they are full."""
    starts = [m.start() for m in re.finditer(r"\S+", text)][::WINDOW_WORDS]
    return [text[a:b].strip() for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


WAYS: Mapping[str, Cut | None] = {"chunks": None, "windows": windows, "whole": lambda text: [text]}
"""None: the daemon cuts."""


@dataclass(frozen=True, slots=True)
class Result:
    """One way on one collection of sets."""

    chunks: int
    words: float
    """The mean words of a chunk."""
    figures: dict[str, float]
    times: list[float]


def long_messages(body: dict[str, Any]) -> dict[str, Any]:
    """A body of a file with its long messages alone."""
    return body | {"turns": [turn for turn in body["turns"] if len(turn["text"].split()) >= MIN_WORDS]}


async def write(connection: asyncpg.Connection, found: dict[str, Any], cut: Cut | None) -> Body:
    """Writes the documents for a new user."""
    body, _ = make_body(found)
    titles = [f"Session {turn['session']}, {(turn['time'] or '')[:10]}" for turn in found["turns"]]
    ids, texts = list(body.texts), list(body.texts.values())
    if cut is None:
        await connection.execute(WITH_CONTENT, body.user, ids, titles, texts)
        return body
    rows = zip(ids, texts, titles, strict=True)
    parts = [(i, n, part, title) for i, text, title in rows for n, part in enumerate(cut(text))]
    async with connection.transaction():
        await connection.execute(WITHOUT_CONTENT, body.user, ids, titles)
        await connection.execute(CHUNKS, *map(list, zip(*parts, strict=True)))
    return body


def share(evidence: frozenset[uuid.UUID], results: Iterable[asyncpg.Record]) -> float:
    """The part of the evidence that these results have."""
    return len(evidence & {r["document"] for r in results}) / len(evidence)


def fitting(results: Sequence[asyncpg.Record]) -> Sequence[asyncpg.Record]:
    """The first results, as many as have ROOM words together."""
    left = ROOM
    for n, result in enumerate(results):
        left -= len(result["content"].split())
        if left < 0:
            return results[:n]
    return results


async def ask(connection: asyncpg.Connection, bodies: Sequence[Body]) -> Result:
    """Asks the questions of all bodies."""
    figures: dict[str, list[float]] = defaultdict(list)
    times = Times()
    statement = await connection.prepare(RECALL)
    for body in bodies:
        for question in body.questions:
            with times.of("recall"):
                results = await statement.fetch(question.text, body.user, ASKED)
            first = results[:SHOWN]
            figures[f"@{SHOWN}"].append(share(question.evidence, first))
            figures[f"in {ROOM:,} words"].append(share(question.evidence, fitting(results)))
            figures["words"].append(sum(len(r["content"].split()) for r in first))
    count, words = await connection.fetchrow(COUNT, [body.user for body in bodies]) or (0, 0.0)
    means = {name: round(fmean(values), 4) for name, values in figures.items()}
    return Result(count, float(words), means, times["recall"])


async def measure(url: str, found: Sequence[dict[str, Any]]) -> dict[str, Result]:
    """Writes the bodies in each way, and asks."""
    connection = await asyncpg.connect(url)
    async with daemon(url):
        written = {way: [await write(connection, one, cut) for one in found] for way, cut in WAYS.items()}
        await until_idle(connection)
    await connection.execute("vacuum analyze")
    results = {way: await ask(connection, bodies) for way, bodies in written.items()}
    await connection.close()
    return results


def print_result(results: Mapping[str, Result]) -> None:
    """The figures of one collection."""
    columns = sorted(results["chunks"].figures, key=lambda c: not c.startswith("@"))
    rows = []
    for way, result in results.items():
        values = [
            f"{result.figures[c]:,.0f}" if c == "words" else f"{result.figures[c]:.3f}" for c in columns
        ]
        p50 = percentiles(result.times)["p50_ms"]
        rows.append((way, [f"{result.chunks:,}", f"{result.words:,.0f}", *values, f"{p50} ms"]))
    print_table(["", "chunks", "words of a chunk", *columns, "p50"], rows)


def main() -> None:
    """Each file in a database of its own, since the lexicon is one for all users and knows the words of all."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="bodies of text with questions")
    options = parser.parse_args()
    lines: list[Figures] = []
    for name, bodies in read(options.data).items():
        found = [long_messages(body) for body in bodies]
        with database(options.database_url) as url:
            results = asyncio.run(measure(url, found))
        print(f"\n{name}: {sum(len(one['turns']) for one in found)} documents")
        print_result(results)
        figures = {
            way: {"chunks": r.chunks, "words_of_a_chunk": round(r.words), **r.figures, **percentiles(r.times)}
            for way, r in results.items()
        }
        lines.append({"benchmark": f"documents: {name}", **figures})
    report("documents", lines, options.json)


if __name__ == "__main__":
    main()
