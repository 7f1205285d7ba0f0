"""Whether an obvious chatbot remembers: a fact said, changed later, and asked for a week later in a new session.

    python -m benchmarks.talk.chats

Inserts the ten chats of chats.json, each for a user of its own, a statement a turn with the turn's own time; a daemon reads
them. Then asks recall(question, user_id => ...) in SQL, as a chatbot does before it answers.

`first three`: a result with all words of `right` is among the first three, a memory or the message that says it. `not
below`: no result with the words of `outdated`, and without those of `right`, is above it. `memory alone`: the same two where
only memories are searched.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.harness import arguments, daemon, database, report, wait_for
from benchmarks.search.bodies import IDLE

SHOWN = 10
INSERT = """
insert into conversation_messages (session_id, user_id, agent_id, role, content, created_at)
values ($1, $2, 'chatbot', $3, $4, now() - make_interval(days => $5, mins => $6))
"""
RECALL = """
select source, content, created_at from recall($1, user_id => $2, match_count => $3, sources => $4::text[])
"""


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--verbose", action="store_true", help="print the first results of each question")
    options = parser.parse_args()
    chats = json.loads(Path(__file__).with_name("chats.json").read_text(encoding="utf-8"))
    with database(options.database_url) as url:
        figures = asyncio.run(_measure(url, chats, verbose=options.verbose))
    report("ten chats", figures, options.json)


async def _measure(url: str, chats: Sequence[dict[str, Any]], *, verbose: bool) -> dict[str, object]:
    connection = await asyncpg.connect(url)
    users = [uuid.uuid4() for _ in chats]
    async with daemon(url):
        for user, chat in zip(users, chats, strict=True):
            sessions: dict[int, uuid.UUID] = {}
            for number, turn in enumerate(chat["turns"]):
                session = sessions.setdefault(turn["session"], uuid.uuid4())
                await connection.execute(
                    INSERT, session, user, turn["role"], turn["text"], turn["days_ago"], -number
                )
        await wait_for(connection, IDLE)
        facts = await connection.fetchval("select count(*) from agent_memory")
        found: dict[str, list[tuple[bool, bool]]] = {"all": [], "memory": []}
        for user, chat in zip(users, chats, strict=True):
            for name, sources in (("all", None), ("memory", ["memory"])):
                rows = await connection.fetch(RECALL, chat["question"], user, SHOWN, sources)
                found[name].append(_judged(rows, chat))
                if verbose:
                    print(name, chat["question"], found[name][-1])
                    for row in rows[:5]:
                        print("   ", row["source"], row["created_at"].date(), row["content"])
    await connection.close()
    return {
        "chats": len(chats),
        "memories": facts,
        "first three": sum(first for first, _ in found["all"]),
        "not below": sum(above for _, above in found["all"]),
        "first three, memory alone": sum(first for first, _ in found["memory"]),
        "not below, memory alone": sum(above for _, above in found["memory"]),
    }


def _judged(rows: Sequence[Any], chat: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the right fact is among the first three, and whether nothing outdated is above it."""

    def says(row: Any, words: Sequence[str] | None) -> bool:
        return bool(words) and all(word in row["content"].lower() for word in words or ())

    right = next((i for i, r in enumerate(rows) if says(r, chat["right"])), len(rows))
    outdated = next(
        (i for i, r in enumerate(rows) if says(r, chat["outdated"]) and not says(r, chat["right"])), len(rows)
    )
    return right < min(3, len(rows)), right < len(rows) and right <= outdated


if __name__ == "__main__":
    main()
