"""What `memoryd audit` finds in texts that were not written for it, to be read by a person: which of its findings are right?

    python -m benchmarks.talk.audit --data ../shared/data/recall/*.json --read 30

A file has conversations, as `[{id, turns: [{speaker, time, text}]}]` or `[{user, sessions: [[[speaker, text]]]}]`, or memories,
as `[{content, created_at}]`. Each turn becomes a memory, as a simple system of memory would keep it. Each conversation is a
user's.
Printed are the counts, and of each rule some findings with their texts.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import asyncpg

from benchmarks.harness import Figures, command
from plugins.audit.find import chosen, find
from plugins.audit.rule import Extent, Finding

LONGEST = 20_000
INSERT = """
insert into agent_memory (agent_id, user_id, kind, content, metadata, created_at, ttl_hours)
select 'app', user_id, 'fact', content, jsonb_build_object('imported_from', $2::text), created_at, null
from jsonb_to_recordset($1) as r(user_id uuid, content text, created_at timestamptz)
"""
TEXTS = "select id, left(content, 240) as content, created_at::date::text as day from agent_memory where id = any($1)"


def memories(file: Path) -> Iterator[dict[str, Any]]:
    """What a file becomes."""
    for nth, record in enumerate(json.loads(file.read_text("utf-8"))):
        if "sessions" in record:
            record["turns"] = [
                {"speaker": speaker, "time": f"2025-{month:02}-01T10:{minute:02}:00Z", "text": text}
                for month, session in enumerate(record["sessions"], 1)
                for minute, (speaker, text) in enumerate(session)
            ]
        if "turns" not in record:
            yield {
                "user_id": uuid.UUID(int=1),
                "content": record["content"],
                "created_at": record["created_at"],
            }
            continue
        user = uuid.uuid5(uuid.NAMESPACE_URL, f"{file.name} {record.get('id', nth)}")
        for turn in record["turns"]:
            text = turn["text"][:LONGEST]
            at = datetime.fromisoformat(turn["time"] or "2024-01-01T00:00:00Z")
            at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
            if not text.strip():
                continue
            yield {"user_id": user, "content": text, "created_at": at.isoformat()}


async def measure(
    _url: str,
    connection: asyncpg.Connection,
    *,
    data: Annotated[list[Path], "conversations or memories"],
    rule: Annotated[list[str], "these alone"] = [],  # noqa: B006
    read: Annotated[int, "how many findings of each rule to show"] = 30,
    seed: int = 1,
) -> Figures:
    """Loads, audits, prints."""
    loaded = 0
    for file in data:
        rows = list(memories(file))
        await connection.execute(INSERT, json.dumps(rows, default=str), file.stem)
        loaded += len(rows)
    figures: Figures = {"memories": loaded}
    async for one, found in find(connection, chosen(rule), Extent(), limit=100_000):
        figures[one.name] = found.total
        figures[f"{one.name}_rows"] = found.rows
        sample = random.Random(seed).sample(list(found.findings), min(read, len(found.findings)))
        print(f"\n== {one.name}: {found.total}")
        for nth, finding in enumerate(sample, 1):
            await _show(connection, nth, finding)
    return figures


async def _show(connection: asyncpg.Connection, nth: int, finding: Finding) -> None:
    ids = [i for i in (*finding.ids[:3], finding.kept) if i is not None]
    texts = {r["id"]: r for r in await connection.fetch(TEXTS, ids)}
    print(f"{nth}. {finding.reason}")
    for i in ids:
        if i in texts:
            print(f"     {texts[i]['day']} {'kept ' if i == finding.kept else ''}{texts[i]['content']!r}")


if __name__ == "__main__":
    command(__doc__, measure)
