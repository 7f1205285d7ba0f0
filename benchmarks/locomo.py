"""Evidence recall on long conversations (LoCoMo): does recall bring the turns that answer a question?

FILE is a list of conversations: {"conversation", "turns": [{"session", "session_time", "id", "speaker", "text"}],
"questions": [{"question", "evidence": [turn ids], "category"}]}. Each conversation is written through SQL as
conversation_messages of one user; when the daemon has indexed all, each question goes through recall with the local
embedder. A question's recall@k is the part of its evidence among the first k results; figures are means over questions.
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

WRITE = """
insert into conversation_messages (id, session_id, user_id, message_index, role, speaker, content, created_at)
select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
"""


@dataclass
class Tally:
    """What was found, question by question."""

    recall: dict[int, list[float]] = field(default_factory=lambda: {k: [] for k in CUTS})
    by_category: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    by_conversation: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seconds: list[float] = field(default_factory=list)


def rows_of(conversation: dict[str, Any]) -> tuple[list[list[object]], dict[str, uuid.UUID]]:
    """The conversation as columns of conversation_messages of one new user, and the ids of its turns."""
    user = uuid.uuid4()
    ids = {turn["id"]: uuid.uuid4() for turn in conversation["turns"]}
    sessions: dict[int, uuid.UUID] = defaultdict(uuid.uuid4)
    places: dict[int, int] = defaultdict(int)
    roles: dict[str, str] = {}
    rows = []
    for turn in conversation["turns"]:
        place = places[turn["session"]]
        places[turn["session"]] += 1
        began = datetime.strptime(turn["session_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        role = roles.setdefault(turn["speaker"], "assistant" if roles else "user")
        rows.append(
            (
                *(ids[turn["id"]], sessions[turn["session"]], user, place, role, turn["speaker"]),
                *(turn["text"], began + timedelta(seconds=30 * place)),
            )
        )
    return [list(column) for column in zip(*rows, strict=True)], ids


async def ask(
    database: Database, conversation: dict[str, Any], user: uuid.UUID, ids: dict[str, uuid.UUID], tally: Tally
) -> None:
    """Asks every question of one conversation."""
    embedder = LocalEmbedder()
    questions = Questions(reader=database, embedding=Embedding(embedder, database), words=embedder)
    for asked in conversation["questions"]:
        evidence = {ids[e] for e in asked["evidence"] if e in ids}
        if not evidence:
            continue
        began = time.perf_counter()
        question = await questions.read(asked["question"], user=user)
        found = await search(database, question, user=user, count=max(CUTS))
        tally.seconds.append(time.perf_counter() - began)
        for k in CUTS:
            tally.recall[k].append(len(evidence & {r["id"] for r in found[:k]}) / len(evidence))
        tally.by_category[asked["category"]].append(tally.recall[10][-1])
        tally.by_conversation[conversation["conversation"]].append(tally.recall[10][-1])
    await embedder.close()


async def run(url: str, data: list[dict[str, Any]]) -> dict[str, object]:
    """Writes, waits, asks."""
    tally = Tally()
    connection = await asyncpg.connect(url)
    written = []
    async with daemon(url):
        began = time.perf_counter()
        for conversation in data:
            columns, ids = rows_of(conversation)
            await connection.execute(WRITE, *columns)
            written.append((conversation, columns[2][0], ids))
        await wait_for(connection, IDLE, pause=0.02)
        indexed = time.perf_counter() - began
    await connection.close()
    database = await Database.open(url, size=3, pooled=False, logger=get_logger())
    for conversation, user, ids in written:
        await ask(database, conversation, user, ids, tally)  # type: ignore[arg-type]
    await database.close()
    return {
        "conversations": len(data),
        "turns": sum(len(c["turns"]) for c in data),
        "questions": len(tally.seconds),
        **{f"recall@{k}": round(fmean(v), 4) for k, v in tally.recall.items()},
        **{f"recall@10, category {k}": round(fmean(v), 3) for k, v in sorted(tally.by_category.items())},
        **{f"recall@10, {k}": round(fmean(v), 3) for k, v in sorted(tally.by_conversation.items())},
        "indexed_s": round(indexed, 1),
        **percentiles(tally.seconds),
    }


def read_conversations(description: str) -> tuple[argparse.Namespace, list[dict[str, Any]]]:
    """The command line, and the conversations of its FILE."""
    parser = arguments(description)
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FILE", help="conversations with questions"
    )
    options = parser.parse_args()
    return options, json.loads(options.data.read_text(encoding="utf-8"))


def main() -> None:
    """Runs the benchmark."""
    options, data = read_conversations(__doc__ or "")
    with database(options.database_url) as url:
        figures = asyncio.run(run(url, data))
    report("LoCoMo evidence recall", figures, options.json)


if __name__ == "__main__":
    main()
