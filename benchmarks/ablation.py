"""What each part of recall is worth: evidence recall on LoCoMo conversations with one part taken away at a time.

The parts that recall adds up (explain_recall) are taken away from the results, and the rest is ranked anew; messages beside,
words near in meaning and the reading of the question are taken away in the database. FILE is as for benchmarks.locomo.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import asyncpg

from benchmarks.harness import daemon, database, wait_for
from benchmarks.locomo import CUTS, IDLE, WRITE, read_conversations, rows_of
from daemon.db.pool import Database
from daemon.logs import get_logger
from handlers.shared.embedding import Embedding
from handlers.shared.question import Question, Questions, search
from providers.local_embedder import LocalEmbedder

DEPTH = 100
PARTS = ("lexical", "dense", "prior", "named", "timed", "session")
NO_NEIGHBOURS = "delete from memoryd.lexeme_neighbours"
NOTHING_BESIDE = "update memoryd.entries set position = position * 10"
"""So far apart that no message is beside another."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a conversation, and where its answer lies."""

    text: str
    user: uuid.UUID
    evidence: frozenset[uuid.UUID]


Ranking = Sequence[Mapping[str, Any]]


def recalls(asked: Sequence[Asked], rankings: Sequence[Ranking], without: str | None = None) -> list[float]:
    """Mean evidence recall at each cut; `without` a part, what is left decides."""
    found: dict[int, list[float]] = {k: [] for k in CUTS}
    for question, ranking in zip(asked, rankings, strict=True):
        left = [p for p in PARTS if p != without]
        rows = (
            ranking if without is None else sorted(ranking, key=lambda row: -sum(row[part] for part in left))
        )
        for k in CUTS:
            ids = {row["id"] for row in rows[:k]}
            found[k].append(len(question.evidence & ids) / len(question.evidence))
    return [fmean(v) for v in found.values()]


async def write(url: str, data: Sequence[Mapping[str, Any]]) -> list[Asked]:
    """Writes the conversations, waits until they are indexed, and returns the questions."""
    connection = await asyncpg.connect(url)
    asked = []
    async with daemon(url):
        for conversation in data:
            columns, ids = rows_of(dict(conversation))
            await connection.execute(WRITE, *columns)
            user = columns[2][0]
            assert isinstance(user, uuid.UUID)
            for question in conversation["questions"]:
                evidence = frozenset(ids[e] for e in question["evidence"] if e in ids)
                if evidence:
                    asked.append(Asked(question["question"], user, evidence))
        await wait_for(connection, IDLE, pause=0.02)
    await connection.close()
    return asked


async def ask(
    database: Database,
    asked: Sequence[Asked],
    *,
    names: bool = False,
    near: bool = True,
    by_meaning: bool = True,
) -> list[Ranking]:
    """The first results of each question; with names left in its embedding, without near words, or only by words."""
    embedder = LocalEmbedder()
    embedding = Embedding(embedder, database)
    questions = Questions(reader=database, embedding=embedding, words=embedder)
    rankings: list[Ranking] = []
    for one in asked:
        question = await questions.read(one.text, user=one.user)
        vector = question.embedding
        if names:
            vector = (await embedding.by_key({0: one.text}))[0]
        question = Question(one.text, vector if by_meaning else None, question.near if near else None)
        rankings.append(await search(database, question, user=one.user, count=DEPTH))
    await embedder.close()
    return rankings


async def run(url: str, data: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Evidence recall at the cuts, by what was taken away."""
    asked = await write(url, data)
    database = await Database.open(url, size=3, pooled=False, logger=get_logger())
    whole = await ask(database, asked)
    table = {"nothing": recalls(asked, whole)}
    for part in PARTS:
        table[part] = recalls(asked, whole, part)
    table["embeddings, from the candidates too"] = recalls(
        asked, await ask(database, asked, by_meaning=False)
    )
    table["names out of the embedded question"] = recalls(asked, await ask(database, asked, names=True))
    await database.execute(NO_NEIGHBOURS)
    table["words near in meaning"] = recalls(asked, await ask(database, asked, near=False))
    await database.execute(NOTHING_BESIDE)
    table["words near in meaning, and messages beside"] = recalls(
        asked, await ask(database, asked, near=False)
    )
    await database.close()
    return table


def main() -> None:
    """Runs the benchmark."""
    options, data = read_conversations(__doc__ or "")
    with database(options.database_url) as url:
        table = asyncio.run(run(url, data))
    print("| taken away | " + " | ".join(f"recall@{k}" for k in CUTS) + " |")
    print("|---|" + "---|" * len(CUTS))
    for name, values in table.items():
        print(f"| {name} | " + " | ".join(f"{100 * v:.1f}" for v in values) + " |")
    line = json.dumps({"benchmark": "ablation", **table})
    print(line)
    if options.json is not None:
        options.json.write_text(line + "\n")


if __name__ == "__main__":
    main()
