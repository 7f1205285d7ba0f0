"""Forgetting: 90 days of made-up use, and what is found afterwards, with what dreams do about use and without it.

    python -m benchmarks.search.forgetting

Families of six memories that say almost the same, each with two words of its own; and memories that stand alone. Of two
thirds of the families one member is what is asked for: half of the questions use its own words, the others only the family's.
A part of these families is asked about in the first 30 days alone. The members of the other families, and the memories that
stand alone, are never asked about. Each question is a real recall; what it brings is logged as a retrieval, and after each day
use is counted, links fade and memories are weighed, as a dream does. Before and after, the same questions are asked.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from benchmarks.corpus import Corpus
from benchmarks.harness import Figures, command, daemon, until_idle

DAYS = 90
FAMILIES, MEMBERS, LONE = 150, 6, 200
USED, DROPPED = 100, 30
"""Families that are asked about; of these, the last ones only in the first 30 days."""
A_DAY = 12
"""Questions."""

INSERT = """
insert into agent_memory (id, agent_id, kind, content, created_at, ttl_hours)
select id, 'alice', 'fact', content, at, null from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as t(id, content, at)
"""
LOG = """
insert into memory_queries (agent_id, retrieved_memory_ids, query_time) values ('alice', $1, $2)
"""
RECALL = "select id from recall($1, 'alice', sources => '{memory}', match_count => $2)"
PRUNE = "delete from memory_associations where strength < 0.15"
LINKS = """
select count(*) as links, count(*) filter (where strength >= 0.3) as followed,
       count(*) filter (where memory_id = any($1) and related_memory_id = any($1)) as used
from memory_associations
"""


@dataclass(frozen=True, slots=True)
class Family:
    """Memories that say almost the same. The first is what is asked for."""

    ids: list[UUID]
    common: list[str]
    own: list[str]


class World:
    """What is remembered, and what is asked."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        words = Corpus(seed).words[300:]
        self.random.shuffle(words)
        self._words = iter(words)
        self.rows: list[tuple[UUID, str, int]] = []
        self.families = [self._family() for _ in range(FAMILIES)]
        self.lone = [self._lone() for _ in range(LONE)]

    def _take(self, count: int) -> list[str]:
        return [next(self._words) for _ in range(count)]

    def _family(self) -> Family:
        common, ids, owns = self._take(6), [], []
        for _ in range(MEMBERS):
            ids.append(uuid4())
            owns.append(self._take(2))
            words = common + owns[-1]
            self.random.shuffle(words)
            self.rows.append((ids[-1], " ".join(words), self.random.randrange(DAYS, DAYS + 30)))
        place = self.random.randrange(MEMBERS)
        ids[0], ids[place] = ids[place], ids[0]
        return Family(ids, common, owns[place])

    def _lone(self) -> tuple[UUID, str]:
        one, words = uuid4(), self._take(8)
        self.rows.append((one, " ".join(words), self.random.randrange(DAYS, DAYS + 30)))
        return one, " ".join(words[:4])

    def question(self, day: int) -> str:
        """A question about one of the families that are asked about on this day."""
        family = self.families[self.random.randrange(USED if day < 30 else USED - DROPPED)]
        words = self.random.sample(family.common, 4)
        if self.random.random() < 0.5:
            words += family.own
        return " ".join(words)


async def found(connection: asyncpg.Connection, world: World) -> dict[str, object]:
    """What is found: shares of the questions whose memory is the first, and among the first three."""
    used = [(f.ids[0], " ".join(f.common[:4])) for f in world.families[: USED - DROPPED]]
    dropped = [(f.ids[0], " ".join(f.common[:4])) for f in world.families[USED - DROPPED : USED]]
    unused = [(f.ids[0], " ".join(f.common[:4] + f.own)) for f in world.families[USED:]]
    return {
        **await _shares(connection, "used", used),
        **await _shares(connection, "used_in_the_first_month", dropped),
        **await _shares(connection, "never_used_exact", unused),
        **await _shares(connection, "never_used_alone", world.lone),
    }


async def _shares(
    connection: asyncpg.Connection, name: str, asked: Sequence[tuple[UUID, str]]
) -> dict[str, object]:
    places = []
    for wanted, question in asked:
        ids = [row["id"] for row in await connection.fetch(RECALL, question, 10)]
        places.append(ids.index(wanted) if wanted in ids else 10)
    return {
        f"{name}@1": round(sum(place < 1 for place in places) / len(places), 3),
        f"{name}@3": round(sum(place < 3 for place in places) / len(places), 3),
    }


async def measure(url: str, connection: asyncpg.Connection, *, seed: int = 1) -> Figures:
    """Fills the table, measures, lives 90 days, and measures again."""
    world = World(seed)
    now = datetime.now(UTC)
    async with daemon(url, dream_idle_hours=100):
        rows = world.rows
        await connection.execute(
            INSERT,
            [one for one, _, _ in rows],
            [text for _, text, _ in rows],
            [now - timedelta(days=age) for _, _, age in rows],
        )
        await until_idle(connection)
    await connection.execute("update memory_associations set rested_at = $1", now - timedelta(days=DAYS))
    await connection.execute("analyze")
    before = await found(connection, world)
    together: set[UUID] = set()
    links_before = None
    for day in range(DAYS):
        today = now - timedelta(days=DAYS - day)
        brought: list[list[UUID]] = []
        for _ in range(A_DAY):
            brought.append([r["id"] for r in await connection.fetch(RECALL, world.question(day), 5)])
            await connection.execute(LOG, brought[-1], today + timedelta(hours=12))
        if day >= DAYS - 30:
            together.update(one for ids in brought for one in ids)
        if links_before is None:
            links_before = dict(await connection.fetchrow(LINKS, []) or {})
        evening = today + timedelta(days=1)
        await connection.execute("select memoryd.count_uses($1, $2)", today, evening)
        while await connection.fetchval("select memoryd.fade_links($1, 100000)", evening):
            pass
        await connection.execute("select memoryd.weigh_memories($1)", evening)
        await connection.execute(PRUNE)
    after = await found(connection, world)
    links: Any = await connection.fetchrow(LINKS, list(together))
    assert links_before is not None
    return {
        "memories": len(world.rows),
        "questions": DAYS * A_DAY,
        **{key: f"{before[key]} -> {after[key]}" for key in before},
        "links": f"{links_before['links']} -> {links['links']}",
        "links_that_recall_follows": f"{links_before['followed']} -> {links['followed']}",
        "links_left_among_the_used": links["used"],
    }


if __name__ == "__main__":
    command(__doc__, measure)
