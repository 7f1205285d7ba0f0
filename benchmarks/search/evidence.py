"""Evidence recall on every kind of text: does recall() bring what answers a question?

    python -m benchmarks.search.evidence --data FILE...

Each FILE is a set of bodies of text (benchmarks.search.bodies). When the daemon has indexed a set, each question goes through
recall() with its text alone, as any client asks it; the database embeds it. A question's recall@k is the part of its evidence
among the first k results; any@10 whether there is some among the first ten; session@10 the part of the evidence's sessions
that the first ten results are of; share@10 the part of the first ten results, or of as many as there is evidence, that is
evidence; nDCG@10 counts a result by its place. Where a question says which sessions answer it, sessions@10 is the part of them
among the first ten that sixty results name. Figures are means over questions. BM25, the similarity of embeddings and their sum
(benchmarks.search.naive) are measured beside it on the same rows, and the last table compares all over all sets.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Annotated, Any

import asyncpg

from benchmarks.harness import Figures, command, percentiles, print_table, shown
from benchmarks.search.bodies import Asked, Body, Files, read, write
from benchmarks.search.naive import RANKINGS, rank_all
from daemon.db.pool import Database
from daemon.logs import get_logger
from handlers.shared.embedding import Embedding, Questions, search
from providers.local_embedder import LocalEmbedder
from providers.ports import Embedder

CUTS = (5, 10, 20)
FIRST, RESULTS_FOR_SESSIONS = 10, 60
COMPARED = ("@10", "share@10", "nDCG@10", "sessions@10")
SAY = "insert into conversation_messages (session_id, user_id, role, content) values ($1, $2, 'user', $3)"
CONTEXT = "select unnest((memoryd.compose('reader', $1, $2, true, memoryd.embed($1), null)).row_ids) as id"
RECALL_WITH_OPTIONS = "select id from recall($1, user_id => $2, match_count => $3, options => $4::jsonb)"

Ask = Callable[[Asked, uuid.UUID], Awaitable[Sequence[Any]]]
Means = dict[str, float]
Way = Callable[[str, Sequence[Body]], Awaitable[tuple[list[float], "Tally"]]]


@dataclass(slots=True)
class Tally:
    """What one way to search has found, question by question."""

    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, found: Sequence[uuid.UUID], question: Asked, body: Body) -> None:
        """Counts one question."""
        evidence = question.evidence
        if evidence:
            self._add_rows(found, evidence, question.kind)
            wanted = {body.sessions[e] for e in evidence}
            if None not in wanted:
                got = {body.sessions.get(i) for i in found[:FIRST]}
                self.figures["session@10"].append(len(wanted & got) / len(wanted))
        if question.sessions:
            named = list(dict.fromkeys(body.sessions.get(i) for i in found))[:FIRST]
            self.figures["sessions@10"].append(len(question.sessions & set(named)) / len(question.sessions))

    def _add_rows(self, found: Sequence[uuid.UUID], evidence: frozenset[uuid.UUID], kind: str) -> None:
        for k in CUTS:
            self.figures[f"@{k}"].append(len(evidence.intersection(found[:k])) / len(evidence))
        at = [place for place, i in enumerate(found[:FIRST]) if i in evidence]
        best = min(FIRST, len(evidence))
        self.figures["any@10"].append(float(bool(at)))
        self.figures["share@10"].append(len(at) / best)
        self.figures["nDCG@10"].append(_gain(at) / _gain(range(best)))
        self.figures[f"@10, {kind}"].append(self.figures["@10"][-1])

    def means(self) -> Means:
        """The means."""
        return {name: round(fmean(values), 4) for name, values in self.figures.items()}


def _gain(places: Iterable[int]) -> float:
    return sum(1 / math.log2(place + 2) for place in places)


def count_of(question: Asked) -> int:
    """How many results its figures ask for."""
    return RESULTS_FOR_SESSIONS if question.sessions else max(CUTS)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured on one set."""

    rows: int
    questions: int
    seconds: float
    """Until all was indexed."""
    times: dict[str, float]
    by_ranking: dict[str, Means]


async def measure_set(url: str, texts: Sequence[dict[str, Any]], *, way: Way) -> Result:
    """Writes a set and asks its questions."""
    bodies, seconds = await write(url, texts)
    times, recall = await way(url, bodies)
    connection = await asyncpg.connect(url)
    tallies = {name: Tally() for name in RANKINGS}
    for body in bodies:
        rankings = await rank_all(connection, body, count=RESULTS_FOR_SESSIONS)
        for question, by_ranking in zip(body.questions, rankings, strict=True):
            for name, found in zip(RANKINGS, by_ranking, strict=True):
                tallies[name].add(found, question, body)
    await connection.close()
    return Result(
        sum(len(b.texts) for b in bodies),
        sum(len(b.questions) for b in bodies),
        round(seconds, 1),
        percentiles(times),
        {"recall()": recall.means(), **{name: tally.means() for name, tally in tallies.items()}},
    )


async def ask_in_sql(url: str, bodies: Sequence[Body], *, chat: bool = False) -> tuple[list[float], Tally]:
    """Asks every question as any client does: with its text alone.

    `chat`: as a chatbot does, in a new conversation of its user, where it is a message before it is asked.
    """
    connection = await asyncpg.connect(url)
    statement = await connection.prepare(RECALL_WITH_OPTIONS)
    sessions = {body.user: uuid.uuid4() for body in bodies}

    async def one(question: Asked, user: uuid.UUID) -> Sequence[Any]:
        options = question.options
        if chat:
            await connection.execute(SAY, sessions[user], user, question.text)
            options = options | {"exclude_session": str(sessions[user])}
        return list(await statement.fetch(question.text, user, count_of(question), json.dumps(options)))

    asked = await ask(bodies, one)
    await connection.close()
    return asked


async def ask_for_contexts(url: str, bodies: Sequence[Body]) -> tuple[list[float], Tally]:
    """Gives every question as a task: what the lines of its context hold."""
    connection = await asyncpg.connect(url)
    statement = await connection.prepare(CONTEXT)
    asked = await ask(bodies, lambda question, user: statement.fetch(question.text, user))
    await connection.close()
    return asked


async def ask_through_daemon(
    url: str, bodies: Sequence[Body], embedder: Embedder | None = None
) -> tuple[list[float], Tally]:
    """Asks every question as a daemon does: it embeds the question, and finds words near to those new to the lexicon.

    `embedder` is the one of the questions, None for the local one.
    """
    database = await Database.open(url, size=3, pooled=False, logger=get_logger())
    words = LocalEmbedder()
    questions = Questions(reader=database, embedding=Embedding(embedder or words, database), words=words)

    async def one(asked: Asked, user: uuid.UUID) -> Sequence[Any]:
        question = await questions.read(asked.text, user=user)
        return await search(database, question, user=user, count=count_of(asked), options=asked.options)

    asked = await ask(bodies, one)
    await words.close()
    await database.close()
    return asked


async def ask(bodies: Sequence[Body], one: Ask) -> tuple[list[float], Tally]:
    """Asks every question: the seconds of each, and what was found."""
    tally = Tally()
    seconds = []
    for body in bodies:
        for question in body.questions:
            began = time.perf_counter()
            rows = await one(question, body.user)
            seconds.append(time.perf_counter() - began)
            tally.add([r["id"] for r in rows], question, body)
    return seconds, tally


def print_result(name: str, result: Result) -> None:
    """The figures of one set."""
    times = ", ".join(f"{k.removesuffix('_ms')} {v} ms" for k, v in result.times.items())
    print(
        f"\n{name}: {result.rows} rows, {result.questions} questions, indexed in {result.seconds} s; {times}"
    )
    columns = list(result.by_ranking)
    lines = [
        (line, [shown(result.by_ranking[c].get(line)) for c in columns])
        for line in _in_order(result.by_ranking["recall()"])
    ]
    print_table(["", *columns], lines)


def _in_order(figures: Means) -> list[str]:
    kinds = sorted(f for f in figures if ", " in f)
    return [f for f in figures if f not in kinds] + kinds


def print_all(results: Mapping[str, Result]) -> None:
    """Each figure of each way to search on each set that has it, and the mean over these sets."""
    for figure in COMPARED:
        sets = {name: r.by_ranking for name, r in results.items() if figure in r.by_ranking["recall()"]}
        if not sets:
            continue
        print(f"\nall sets, {figure}")
        rows = []
        for ranking in ("recall()", *RANKINGS):
            values = [by_ranking[ranking][figure] for by_ranking in sets.values()]
            rows.append((ranking, [shown(v) for v in (*values, fmean(values))]))
        print_table(["", *sets, "mean"], rows)


async def measure(
    url: str,
    _connection: asyncpg.Connection,
    *,
    data: Files,
    through_daemon: Annotated[
        bool, "ask as the daemon asks for `memoryd recall` and memory_requests"
    ] = False,
    chat: Annotated[
        bool, "ask as a chatbot: the question is a message of a new conversation, left out"
    ] = False,
    contexts: Annotated[bool, "give the questions as tasks, and look at the lines of their contexts"] = False,
) -> list[Figures]:
    """All sets."""
    way: Way = partial(ask_in_sql, chat=chat)
    if through_daemon or contexts:
        way = ask_through_daemon if through_daemon else ask_for_contexts
    results = {}
    for name, texts in read(data).items():
        results[name] = await measure_set(url, texts, way=way)
        print_result(name, results[name])
    print_all(results)
    return [
        {
            "benchmark": f"evidence recall: {name}",
            "rows": r.rows,
            "indexed_s": r.seconds,
            **r.times,
            **r.by_ranking,
        }
        for name, r in results.items()
    ]


if __name__ == "__main__":
    command(__doc__, measure)
