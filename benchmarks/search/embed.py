"""How well memoryd.embed() agrees with the daemons' local embedder, and how long it takes.

    python -m benchmarks.search.embed                    made-up texts
    python -m benchmarks.search.embed --data FILE...     texts and questions of files as benchmarks.search.evidence reads

Times are taken within the server, one call for each question, in one session. Loading and disk: the tokens in a new database.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncpg
import numpy as np

from benchmarks.corpus import Corpus
from benchmarks.harness import arguments, database, percentiles, report
from daemon.db.tokens import KEY, load_tokens
from providers.local_embedder import LocalEmbedder

TEXTS, QUESTIONS = 500, 400
"""How many of each file are embedded."""

TIMED = """
create function pg_temp.timed(questions text[]) returns double precision[] language plpgsql as $$
declare
    question text;
    began timestamptz;
    took double precision[] := '{}';
begin
    foreach question in array questions loop
        began := clock_timestamp();
        perform memoryd.embed(question);
        took := took || extract(epoch from clock_timestamp() - began)::double precision;
    end loop;
    return took;
end
$$
"""


def sentences(found: object) -> Iterator[str]:
    """Every text with a space or 20 characters in a JSON value."""
    if isinstance(found, str):
        if len(found) > 20 or " " in found:
            yield found
    elif isinstance(found, dict | list):
        for one in found.values() if isinstance(found, dict) else found:
            yield from sentences(one)


def questions_in(found: object) -> Iterator[str]:
    """Every `question` in a JSON value."""
    if isinstance(found, dict):
        if isinstance(found.get("question"), str):
            yield found["question"]
        found = list(found.values())
    if isinstance(found, list):
        for one in found:
            yield from questions_in(one)


def read(files: Sequence[Path], chance: random.Random) -> tuple[list[str], list[str]]:
    """Texts and questions."""
    texts: list[str] = []
    questions: list[str] = []
    for file in files:
        parsed = json.loads(file.read_text("utf-8"))
        texts += _some(sentences(parsed), TEXTS, chance)
        questions += _some(questions_in(parsed), QUESTIONS, chance)
    return texts, questions


def _some(found: Iterator[str], most: int, chance: random.Random) -> list[str]:
    unique = sorted(set(found))
    return chance.sample(unique, min(most, len(unique)))


async def measure(url: str, texts: list[str], questions: list[str]) -> dict[str, object]:
    """All figures."""
    connection = await asyncpg.connect(url)
    await connection.execute("delete from memoryd.settings where key = $1", KEY)
    await connection.execute("truncate memoryd.tokens")
    began = time.perf_counter()
    await load_tokens(connection)
    loading = time.perf_counter() - began
    disk = await connection.fetchval("select pg_total_relation_size('memoryd.tokens')")
    embedder = LocalEmbedder()
    expected = await embedder.embed(texts)
    await embedder.close()
    found = [json.loads(await connection.fetchval("select memoryd.embed($1)::text", t)) for t in texts]
    cosines = np.einsum("ij,ij->i", np.array(found), expected)
    await connection.close()
    fresh = await asyncpg.connect(url)
    await fresh.execute(TIMED)
    took = [await fresh.fetchval("select pg_temp.timed($1)", questions) for _ in range(2)]
    await fresh.close()
    return {
        "texts": len(texts),
        "least cosine": round(float(cosines.min()), 7),
        "questions": len(questions),
        "first in a session, ms": round(took[0][0] * 1000, 2),
        **percentiles(took[1]),
        "loading, s": round(loading, 2),
        "disk, MB": round(disk / 1e6, 1),
    }


def main() -> None:
    """Measures."""
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--data", type=Path, nargs="*", default=[], help="JSON files with texts and questions"
    )
    options = parser.parse_args()
    chance = random.Random(1)
    texts, questions = read(options.data, chance)
    if not options.data:
        corpus = Corpus(1)
        texts = [corpus.text() for _ in range(TEXTS)]
        questions = [corpus.question().text for _ in range(QUESTIONS)]
    with database(options.database_url) as url:
        report("embed", asyncio.run(measure(url, texts, questions)), options.json)


if __name__ == "__main__":
    main()
