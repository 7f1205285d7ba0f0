"""What words of other languages find: for each language twenty rows and ten questions, ranked by BM25 over lexemes alone.

    python -m benchmarks.search.languages

Prints two tables. The first: of how many questions the row that answers them comes first, and comes among the first three.
`before` are the lexemes of memoryd.lexemes_of, English stems; `after` those of memoryd.lexemes_in, in the languages that are
recognised. The rows and questions are in tests/data/languages.json. They were written for this project, and the questions
say the words of their row in other forms (another number, tense or case, without accents, in full width). The second table:
microseconds for a row of 40 words (of 80 characters, where words have no spaces).

A third one, of tests/data/unrelated.json: what `relevant_only` brings of ten rows in 38 languages for questions that share only
function words with them, and how often it leaves out the row that answers a question. Three writers who had seen no code wrote
it. The words of words.txt were completed after those of the first, and some after those of the second; nothing after the third.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.harness import Figures, command, daemon, print_figures, until_idle

DATA = Path(__file__).parents[2] / "tests" / "data" / "languages.json"
UNRELATED = DATA.with_name("unrelated.json")

BELONGS = "select content from recall($1, $2, match_count => 10, options => '{\"relevant_only\": true}')"

ROWS_OF = """
select tsvector_to_array(v.lexemes) as lexemes, array(select cardinality(positions) from unnest(v.lexemes)) as counts
from unnest($1::text[]) with ordinality as t(text, n)
cross join lateral (select {call} as lexemes) v
order by t.n
"""
BEFORE_ROWS = ROWS_OF.format(call="memoryd.lexemes_of(t.text)")
AFTER_ROWS = ROWS_OF.format(call="memoryd.lexemes_in(t.text, memoryd.language_of(t.text))")
BEFORE_QUESTIONS = """
select tsvector_to_array(memoryd.lexemes_of(t.text)) from unnest($1::text[]) with ordinality as t(text, n) order by t.n
"""
# As recall does it: the question's own language, and those of most rows.
AFTER_QUESTIONS = """
with spoken as (
    select array(select memoryd.language_of(r) from unnest($2::text[]) r
                 group by 1 order by count(*) desc, 1 limit 4) as languages
)
select memoryd.words_in(t.text, s.languages || memoryd.language_of(t.text))
from unnest($1::text[]) with ordinality as t(text, n) cross join spoken s
order by t.n
"""


@dataclass(frozen=True, slots=True)
class Found:
    """Of ten questions: for how many the right row comes first, and among the first three."""

    first: int
    third: int


def load() -> Mapping[str, Any]:
    """By language: {"rows": [text], "questions": [{"question", "row"}]}."""
    return json.loads(DATA.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


async def before(connection: asyncpg.Connection, sample: Mapping[str, Any]) -> Found:
    """With English stems for every language."""
    rows = await connection.fetch(BEFORE_ROWS, sample["rows"])
    questions = await connection.fetch(BEFORE_QUESTIONS, [q["question"] for q in sample["questions"]])
    return _judge(sample, rows, [q[0] for q in questions])


async def after(connection: asyncpg.Connection, sample: Mapping[str, Any]) -> Found:
    """With the languages that are recognised."""
    rows = await connection.fetch(AFTER_ROWS, sample["rows"])
    asked = [q["question"] for q in sample["questions"]]
    questions = await connection.fetch(AFTER_QUESTIONS, asked, sample["rows"])
    return _judge(sample, rows, [q[0] for q in questions])


def _judge(sample: Mapping[str, Any], rows: Sequence[Any], questions: Sequence[Sequence[str]]) -> Found:
    texts = [dict(zip(r["lexemes"], r["counts"], strict=True)) for r in rows]
    ranked = [_rank(texts, question) for question in questions]
    right = [q["row"] for q in sample["questions"]]
    first, third = (sum(n in r[:k] for n, r in zip(right, ranked, strict=True)) for k in (1, 3))
    return Found(first, third)


def _rank(
    rows: Sequence[Mapping[str, int]], question: Sequence[str], *, k1: float = 1.2, b: float = 0.75
) -> list[int]:
    """The rows that have one of the words, by BM25 (Robertson and Zaragoza 2009)."""
    average = sum(sum(row.values()) for row in rows) / len(rows)
    held = Counter(word for row in rows for word in row)
    scores = {
        n: sum(
            math.log(1 + (len(rows) - held[word] + 0.5) / (held[word] + 0.5))
            * row[word] * (k1 + 1) / (row[word] + k1 * (1 - b + b * sum(row.values()) / average))
            for word in question
            if word in row
        )
        for n, row in enumerate(rows)
    }  # fmt: skip
    return sorted((n for n, score in scores.items() if score > 0), key=lambda n: (-scores[n], n))


ENGLISH = Path(__file__).parents[2] / "docs" / "architecture.md"
SECONDS = "select count({call}) from unnest($1::text[], $2::text[]) as r(text, language)"
CALLS = {
    "language_of": "memoryd.language_of(r.text)",
    "before": "memoryd.lexemes_of(r.text)",
    "after": "memoryd.lexemes_in(r.text, r.language)",
}
ROUNDS, ROWS = 7, 500


async def times(connection: asyncpg.Connection) -> Figures:
    """A line for each language, the quickest of some rounds."""
    samples = {"english": _english()} | {language: " ".join(s["rows"]) for language, s in load().items()}
    figures: Figures = {}
    for language, text in samples.items():
        rows = list(_forty_words(text))
        languages = [
            r[0]
            for r in await connection.fetch("select memoryd.language_of(t) from unnest($1::text[]) t", rows)
        ]
        quickest = {name: await _quickest(connection, call, rows, languages) for name, call in CALLS.items()}
        figures[language] = ", ".join(f"{name} {seconds * 1e6:.0f}" for name, seconds in quickest.items())
    return figures


def _english() -> str:
    return ENGLISH.read_text("utf-8").encode("ascii", "ignore").decode()


def _forty_words(text: str) -> Iterator[str]:
    words = text.split()
    if len(words) < 40 or len(text) / len(words) > 12:
        joined = "".join(words) * 2
        yield from (joined[n % 300 : n % 300 + 80] for n in range(ROWS))
    else:
        yield from (" ".join((words * 2)[n % len(words) :][:40]) for n in range(ROWS))


async def _quickest(
    connection: asyncpg.Connection, call: str, rows: list[str], languages: list[str]
) -> float:
    taken = list[float]()
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await connection.fetchval(SECONDS.format(call=call), rows, languages)
        taken.append(time.perf_counter() - began)
    return min(taken) / len(rows)


async def belonging(url: str, connection: asyncpg.Connection) -> Figures:
    """A line for each writer."""
    written = json.loads(UNRELATED.read_text(encoding="utf-8"))
    for n, sample in enumerate(written):
        rows = [(f"a{n}", row) for row in sample["rows"]]
        await connection.executemany("select remember($2, agent_id => $1)", rows)
    async with daemon(url):
        await until_idle(connection)
    counts: dict[int, Counter[str]] = {}
    for n, sample in enumerate(written):
        count = counts.setdefault(sample["writer"], Counter())
        for question in sample["unrelated"]:
            count["unrelated"] += 1
            count["brought"] += bool(await connection.fetch(BELONGS, question, f"a{n}"))
        for question, row in sample["answered"]:
            found = [content for (content,) in await connection.fetch(BELONGS, question, f"a{n}")]
            count["answered"] += 1
            count["missed"] += sample["rows"][row] not in found
    return {
        f"writer {writer}": f"{c['brought']} of {c['unrelated']} unrelated questions bring a row; "
        f"the answer to {c['missed']} of {c['answered']} is left out"
        for writer, c in counts.items()
    }


async def measure(url: str, connection: asyncpg.Connection) -> list[Figures]:
    """All three."""
    words: Figures = {}
    for language, sample in load().items():
        old, new = await before(connection, sample), await after(connection, sample)
        words[language] = (
            f"first: {old.first} before, {new.first} after; first three: {old.third} before, {new.third} after"
        )
    tables = {
        "words of other languages, of ten questions each": words,
        "microseconds for a row of forty words": await times(connection),
        "what belongs, in many languages": await belonging(url, connection),
    }
    for title, figures in tables.items():
        print_figures(title, figures)
    return [{"benchmark": title, **figures} for title, figures in tables.items()]


if __name__ == "__main__":
    command(__doc__, measure)
