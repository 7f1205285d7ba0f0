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
import json
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import asyncpg

from benchmarks.files.document_sets import DocumentSet, Question, long_messages
from benchmarks.harness import arguments, daemon, database, percentiles, wait_for
from benchmarks.search.bodies import IDLE
from benchmarks.search.evidence import print_table

SHOWN = 5
ASKED = 30
"""Results asked for: enough for ROOM words."""
ROOM = 1_000
WINDOW_WORDS = 200

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
Figures = dict[str, float]


def windows(text: str) -> list[str]:
    """The text in windows of WINDOW_WORDS words, which end wherever they are full."""
    starts = [m.start() for m in re.finditer(r"\S+", text)][::WINDOW_WORDS]
    return [text[a:b].strip() for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


WAYS: Mapping[str, Cut | None] = {"chunks": None, "windows": windows, "whole": lambda text: [text]}
"""None: the daemon cuts."""


@dataclass(frozen=True, slots=True)
class Written:
    """A set as it was written in one way. `ids`: its documents there, by those of the set."""

    user: uuid.UUID
    ids: dict[uuid.UUID, uuid.UUID]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Result:
    """One way on one collection of sets."""

    chunks: int
    words: float
    """The mean words of a chunk."""
    figures: Figures
    times: list[float]


async def write(connection: asyncpg.Connection, documents: DocumentSet, cut: Cut | None) -> Written:
    """Writes the documents for a new user."""
    user = uuid.uuid4()
    ids = {d.id: uuid.uuid4() for d in documents.documents}
    rows = [(ids[d.id], d.title, d.text) for d in documents.documents]
    if cut is None:
        await connection.execute(WITH_CONTENT, user, *map(list, zip(*rows, strict=True)))
    else:
        async with connection.transaction():
            await connection.execute(WITHOUT_CONTENT, user, [r[0] for r in rows], [r[1] for r in rows])
            parts = [(i, n, part, title) for i, title, text in rows for n, part in enumerate(cut(text))]
            await connection.execute(CHUNKS, *map(list, zip(*parts, strict=True)))
    return Written(user, ids, documents.questions)


def found(question: Question, written: Written, results: Iterable[asyncpg.Record]) -> float:
    """The part of the evidence that these results have."""
    evidence = {written.ids[e] for e in question.evidence}
    return len(evidence & {r["document"] for r in results}) / len(evidence)


def fitting(results: Sequence[asyncpg.Record]) -> Sequence[asyncpg.Record]:
    """The first results, as many as have ROOM words together."""
    left = ROOM
    for n, result in enumerate(results):
        left -= len(result["content"].split())
        if left < 0:
            return results[:n]
    return results


async def ask(connection: asyncpg.Connection, sets: Sequence[Written]) -> Result:
    """Asks the questions of all sets."""
    figures: dict[str, list[float]] = defaultdict(list)
    times = []
    statement = await connection.prepare(RECALL)
    for written in sets:
        for question in written.questions:
            began = time.perf_counter()
            results = await statement.fetch(question.text, written.user, ASKED)
            times.append(time.perf_counter() - began)
            shown = results[:SHOWN]
            figures[f"@{SHOWN}"].append(found(question, written, shown))
            figures[f"in {ROOM:,} words"].append(found(question, written, fitting(results)))
            figures["words"].append(sum(len(r["content"].split()) for r in shown))
    count, words = await connection.fetchrow(COUNT, [s.user for s in sets]) or (0, 0.0)
    return Result(
        count, float(words), {name: round(fmean(values), 4) for name, values in figures.items()}, times
    )


async def measure(url: str, sets: Sequence[DocumentSet]) -> dict[str, Result]:
    """Writes the sets in each way, and asks."""
    connection = await asyncpg.connect(url)
    async with daemon(url):
        written = {way: [await write(connection, s, cut) for s in sets] for way, cut in WAYS.items()}
        await wait_for(connection, IDLE, pause=0.05)
    await connection.execute("vacuum analyze")
    results = {way: await ask(connection, sets) for way, sets in written.items()}
    await connection.close()
    return results


def print_result(name: str, sets: Sequence[DocumentSet], results: Mapping[str, Result]) -> None:
    """The figures of one collection."""
    documents = sum(len(s.documents) for s in sets)
    print(f"\n{name}: {documents} documents, {sum(len(s.questions) for s in sets)} questions\n")
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
    """Runs the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, metavar="FILE", help="bodies of text with questions"
    )
    options = parser.parse_args()
    collections = {f.stem: long_messages(f) for f in options.data}
    lines = []
    for name, sets in collections.items():
        # Each in a database of its own, since the lexicon is one for all users and knows the words of all.
        with database(options.database_url) as url:
            results = asyncio.run(measure(url, sets))
        print_result(name, sets, results)
        figures = {
            way: {"chunks": r.chunks, "words_of_a_chunk": round(r.words), **r.figures, **percentiles(r.times)}
            for way, r in results.items()
        }
        lines.append(json.dumps({"benchmark": f"documents: {name}", **figures}))
    print("\n" + "\n".join(lines))
    if options.json is not None:
        options.json.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
