"""How well `classify_message()` tells when a message needs memory: precision and recall of each pattern, and its time.

    python -m benchmarks.talk.patterns
    python -m benchmarks.talk.patterns --wrong

The labelled messages and the names that they name are in benchmarks/talk/patterns.json. The rules were tuned on `tuned_on`;
`held_out` was written before them. `--wrong` shows the messages of `tuned_on` that are classified otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import asyncpg

from benchmarks.harness import Figures, Times, command

MESSAGES = Path(__file__).with_name("patterns.json")
PATTERNS = ("decision", "names", "past", "planning", "correction", "how-to")
ROUNDS = 5
"""How often each message is timed, after a round that warms the connection."""

CLASSIFY = "select coalesce(array_agg(distinct pattern), '{}') from classify_message($1)"

AGENTS = "insert into agents (agent_id) select unnest($1::text[])"
TURNS = """
insert into conversation_messages (session_id, message_index, role, speaker, content, agent_id)
select gen_random_uuid(), n, 'user', s, 'Good morning.', '_shared' from unnest($1::text[]) with ordinality as t(s, n)
"""
KNOWLEDGE = """
insert into shared_knowledge (tier, category, title, tags, content, created_by)
select k.tier, k.category, k.title, k.tags, k.content, 'sybil'
from jsonb_to_recordset($1::jsonb) as k(tier text, category text, title text, tags text[], content text)
"""
MEMORIES = "insert into agent_memory (agent_id, kind, content) select '_shared', 'fact', unnest($1::text[])"
# As a daemon indexes them, without embeddings: names are looked up by words.
INDEX = """
select memoryd.write_entries(r.source, r.ids, r.hashes, r.ids, r.texts, array_fill(null::vector, array[cardinality(r.ids)]))
from (select s.source, array_agg(s.id order by s.id) as ids, array_agg(s.text_hash order by s.id) as hashes,
             array_agg(s.searched_text order by s.id) as texts
      from memoryd.searchable s group by s.source) r
"""


async def make_world(connection: asyncpg.Connection, world: Mapping[str, Any]) -> None:
    """Writes what the messages name: agents, speakers, knowledge and memories."""
    await connection.execute(AGENTS, world["agents"])
    await connection.execute(TURNS, world["speakers"])
    await connection.execute(KNOWLEDGE, json.dumps(world["knowledge"]))
    await connection.execute(MEMORIES, world["memories"])
    await connection.execute(INDEX)
    await connection.execute("select memoryd.fold_lexeme_changes()")
    await connection.execute("analyze")


def figures(
    wanted: Sequence[set[str]], found: Sequence[set[str]], patterns: Sequence[str]
) -> tuple[float, float]:
    """Precision and recall of these patterns together, over all messages."""
    right = sum(len(w & f & set(patterns)) for w, f in zip(wanted, found, strict=True))
    said = sum(len(f & set(patterns)) for f in found)
    there = sum(len(w & set(patterns)) for w in wanted)
    return right / max(1, said), right / max(1, there)


async def measure(
    _url: str,
    connection: asyncpg.Connection,
    *,
    wrong: Annotated[bool, "show the messages of tuned_on that are classified otherwise"] = False,
) -> Figures:
    """Precision and recall by half and pattern, and milliseconds a message."""
    given = json.loads(MESSAGES.read_text(encoding="utf-8"))
    await make_world(connection, given["world"])
    result: Figures = {}
    for half in ("tuned_on", "held_out"):
        messages = given[half]
        wanted = [set(m["patterns"]) for m in messages]
        found = [set(await connection.fetchval(CLASSIFY, m["message"])) for m in messages]
        result[f"{half}_messages"] = len(messages)
        for pattern in PATTERNS:
            precision, recall = figures(wanted, found, [pattern])
            result[f"{half}_{pattern}"] = f"{precision:.3f} / {recall:.3f}"
        precision, recall = figures(wanted, found, PATTERNS)
        result[f"{half}_all_six"] = f"{precision:.3f} / {recall:.3f}"
        searched = [{"memory"} if f else set() for f in found]
        precision, recall = figures([{"memory"} if w else set() for w in wanted], searched, ["memory"])
        result[f"{half}_needs_memory"] = f"{precision:.3f} / {recall:.3f}"
        if wrong and half == "tuned_on":
            for message, w, f in zip(messages, wanted, found, strict=True):
                if w != f:
                    print(f"wanted {sorted(w)}, found {sorted(f)}: {message['message']}")
    times = Times()
    for message in [*given["tuned_on"], *given["held_out"]] * ROUNDS:
        with times.of("classify"):
            await connection.fetch("select * from classify_message($1)", message["message"])
    return result | times.figures()


if __name__ == "__main__":
    command(__doc__, measure)
