"""Evidence recall on every kind of text: does recall bring what answers a question?

Each FILE is a list of bodies of text: {"id", "turns": [{"id", "session", "speaker", "time", "text"}], "questions":
[{"question", "evidence": [turn ids], "category"}]}. The turns of one are written through SQL as conversation_messages of one
user, or, where they have no session, as memories. When the daemon has indexed all, each question goes through recall() with
its text alone, as any client asks it. A question's recall@k is the part of its evidence among the first k results; any@10
whether there is some among the first ten; session@10 whether a message of the right session is; figures are means over
questions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import asyncpg

from benchmarks.harness import arguments, daemon, database, percentiles, report, wait_for
from daemon.db.pool import Database
from daemon.logs import get_logger
from handlers.shared.embedding import Embedding
from handlers.shared.question import Questions, search
from providers.local_embedder import LocalEmbedder

CUTS = (5, 10, 20)
IDLE = "select not exists (select from memoryd.jobs)"
ROLES = ("user", "assistant", "system")

WRITE_MESSAGES = """
insert into conversation_messages (id, session_id, user_id, message_index, role, speaker, content, created_at)
select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
"""
WRITE_MEMORIES = """
insert into agent_memory (id, agent_id, user_id, content, kind, ttl_hours)
select m.id, 'reader', m.user_id, m.content, 'fact', null
from unnest($1::uuid[], $2::uuid[], $3::text[]) as m(id, user_id, content)
"""


@dataclass(slots=True)
class Body:
    """A body of text that was written: its user, and the rows of its turns."""

    user: uuid.UUID
    rows: dict[Any, uuid.UUID]
    sessions: dict[uuid.UUID, Any]
    questions: list[dict[str, Any]]


@dataclass(slots=True)
class Tally:
    """What was found, question by question."""

    recall: dict[int, list[float]] = field(default_factory=lambda: {k: [] for k in CUTS})
    any_of_it: list[float] = field(default_factory=list)
    session: list[float] = field(default_factory=list)
    by_category: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seconds: list[float] = field(default_factory=list)

    def add(self, found: list[uuid.UUID], evidence: set[uuid.UUID], body: Body, category: object) -> None:
        """Counts one question."""
        for k in CUTS:
            self.recall[k].append(len(evidence & set(found[:k])) / len(evidence))
        self.any_of_it.append(float(not evidence.isdisjoint(found[:10])))
        wanted = {body.sessions[e] for e in evidence}
        self.session.append(len(wanted & {body.sessions.get(i) for i in found[:10]}) / len(wanted))
        self.by_category[str(category)].append(self.recall[10][-1])

    def figures(self) -> dict[str, object]:
        """The means."""
        return {
            "questions": len(self.any_of_it),
            **{f"recall@{k}": round(fmean(v), 4) for k, v in self.recall.items()},
            "any@10": round(fmean(self.any_of_it), 4),
            "session@10": round(fmean(self.session), 4),
            **{f"recall@10, {k}": round(fmean(v), 3) for k, v in sorted(self.by_category.items())},
            **percentiles(self.seconds),
        }


def body_of(text: dict[str, Any]) -> tuple[Body, list[list[object]], bool]:
    """A body of text as columns of rows of one new user; and whether they are messages."""
    user = uuid.uuid4()
    ids = {turn["id"]: uuid.uuid4() for turn in text["turns"]}
    session_of: dict[uuid.UUID, Any] = {ids[turn["id"]]: turn["session"] for turn in text["turns"]}
    body = Body(user, ids, session_of, text["questions"])
    if text["turns"][0]["session"] is None:
        return (
            body,
            [[*c] for c in zip(*((ids[t["id"]], user, t["text"]) for t in text["turns"]), strict=True)],
            False,
        )
    sessions: dict[Any, uuid.UUID] = defaultdict(uuid.uuid4)
    places: dict[Any, int] = defaultdict(int)
    roles: dict[str, str] = {}
    rows = []
    for turn in text["turns"]:
        place = places[turn["session"]]
        places[turn["session"]] += 1
        speaker = turn["speaker"]
        role = speaker if speaker in ROLES else roles.setdefault(speaker, "assistant" if roles else "user")
        said = datetime.fromisoformat(turn["time"]) if turn["time"] else datetime.now(UTC)
        rows.append(
            (
                *(ids[turn["id"]], sessions[turn["session"]], user, place, role),
                *(None if speaker in ROLES else speaker, turn["text"], said + timedelta(milliseconds=place)),
            )
        )
    return body, [list(column) for column in zip(*rows, strict=True)], True


async def write(url: str, texts: list[dict[str, Any]]) -> tuple[list[Body], float]:
    """Writes all, and waits until a daemon has indexed them: the bodies, and the seconds that it took."""
    connection = await asyncpg.connect(url)
    written = []
    async with daemon(url):
        began = time.perf_counter()
        for text in texts:
            body, columns, messages = body_of(text)
            await connection.execute(WRITE_MESSAGES if messages else WRITE_MEMORIES, *columns)
            written.append(body)
        await wait_for(connection, IDLE, pause=0.02)
        seconds = time.perf_counter() - began
    await connection.execute("analyze")
    await connection.close()
    return written, seconds


async def ask(database: Database, bodies: list[Body]) -> Tally:
    """Asks every question."""
    tally = Tally()
    embedder = LocalEmbedder()
    questions = Questions(reader=database, embedding=Embedding(embedder, database), words=embedder)
    for body in bodies:
        for asked in body.questions:
            evidence = {body.rows[e] for e in asked["evidence"] if e in body.rows}
            if not evidence:
                continue
            began = time.perf_counter()
            question = await questions.read(asked["question"], user=body.user)
            rows = await search(database, question, user=body.user, count=max(CUTS))
            tally.seconds.append(time.perf_counter() - began)
            tally.add([r["id"] for r in rows], evidence, body, asked["category"])
    await embedder.close()
    return tally


async def run(url: str, texts: list[dict[str, Any]]) -> dict[str, object]:
    """The figures of one set."""
    bodies, seconds = await write(url, texts)
    database = await Database.open(url, size=3, pooled=False, logger=get_logger())
    tally = await ask(database, bodies)
    await database.close()
    rows = sum(len(b.rows) for b in bodies)
    return {"rows": rows, **tally.figures(), "indexed_s": round(seconds, 1)}


def read_texts(description: str) -> tuple[argparse.Namespace, dict[str, list[dict[str, Any]]]]:
    """The command line, and what is in its FILEs, by name."""
    parser = arguments(description)
    parser.add_argument(
        "--data", type=Path, required=True, nargs="+", metavar="FILE", help="bodies of text with questions"
    )
    options = parser.parse_args()
    return options, {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in options.data}


def main() -> None:
    """Runs the benchmark."""
    options, sets = read_texts(__doc__ or "")
    with database(options.database_url) as url:
        for name, texts in sets.items():
            report(f"evidence recall: {name}", asyncio.run(run(url, texts)), options.json)


if __name__ == "__main__":
    main()
