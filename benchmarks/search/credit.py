"""Credit: whether what stood in the contexts of tasks that succeeded should be preferred in later contexts.

    python -m benchmarks.search.credit --commands FILE

The prior that is tried, for a memory that stood in the contexts of n ended tasks, s of which succeeded:

    weight x (1 + bound x credit),  credit = 2 (s - expected) / (n + 10), from -1 to 1

expected: the sum, over these tasks, of the share of all ended tasks of the same agent and user that succeeded. So what stands
in every context gains nothing, a fleet that fails pushes nothing down, and few tasks say little. A user's tasks count for that
user's memories alone. It is written as weights of entries after each day, as a dream does, on top of what use counts.

1. Fleets, made up: topics with eight memories that fit a task of the topic almost equally well, and room for half of them.
   One of the eight helps, one misleads, and topics are of different difficulty. With and without the prior the same tasks are
   asked; the outcome of each is drawn by which of the two its context shows. Also where the topic decides more than they do,
   where no memory matters, and where all fails. exact@1: questions with words of one memory alone find it first, at the end.
2. FILE, finished tasks of real agents, one JSON object a line: agent_id, message, output, created_at. Its first third is
   remembered, the contexts of the second and their outcomes give credit, and the outcomes of the last are predicted by it: the
   area under the curve, .5 where it says nothing, beside the same with the outcomes of each agent shuffled many times. Few
   tasks are recorded as failed, so one also counts as failed if one of the next ten of its agent begins with Fix, Revert,
   Correct, Restore, Repair or Undo, and has one of its files.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg

from benchmarks.corpus import Corpus
from benchmarks.harness import arguments, daemon, database, report, wait_for

TOPICS, MEMBERS = 24, 8
DAYS, A_DAY = 20, 24
LAST = 6
"""Days at the end that are measured."""
EFFECT = 0.35
"""How much the chance of a success changes by the memory that helps, and by the one that misleads."""
BOUNDS = (0.0, 0.05, 0.15, 0.3)
REPAIRS = re.compile(r"(fix|revert|correct|restore|repair|undo)", re.IGNORECASE)
NEXT = 10
SHUFFLES = 40

INSERT = """
insert into agent_memory (id, agent_id, kind, content, created_at, ttl_hours)
select id, agent, kind, content, at, null
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[]) as t(id, agent, kind, content, at)
"""
COMMAND = """
insert into agent_commands (id, agent_id, message, status, exit_code, finished_at) values ($1, $2, $3, 'running', null, null)
"""
CONTEXT = """
with made as materialized (
    select memoryd.compose($2, $3, null, false, memoryd.vector_of_question($3), $1, memoryd.conditions_of($4)) as m
), kept as (
    insert into memoryd.quotes (command_id, row_ids, hashes)
    select $1, (m).row_ids, (m).hashes from made where (m).row_ids <> '{}'
)
select (m).row_ids from made
"""
RECALL = "select id from recall($1, 'alice', sources => '{memory}', match_count => 1)"
END = """
update agent_commands c set status = case when n.good then 'completed' else 'failed' end
from unnest($1::uuid[], $2::boolean[]) as n(id, good) where c.id = n.id
"""
CREDITS = """
with ended as materialized (
    select c.id, c.agent_id, c.user_id, (c.status = 'completed')::integer as ok
    from agent_commands c where c.status in ('completed', 'failed')
), base as materialized (
    select e.agent_id, e.user_id, avg(e.ok)::float8 as rate from ended e group by e.agent_id, e.user_id
)
select m.id, count(*) as tasks, sum(e.ok) as succeeded,
       greatest(-1, least(1, 2 * (sum(e.ok) - sum(b.rate)) / (count(*) + 10)))::float8 as credit
from ended e
join base b on b.agent_id = e.agent_id and b.user_id is not distinct from e.user_id
join memoryd.quotes q on q.command_id = e.id
cross join lateral (select distinct u.id from unnest(q.row_ids) as u(id)) r
join agent_memory m on m.id = r.id and m.user_id is not distinct from e.user_id
group by m.id
"""
# As memoryd.weigh_memories() with the prior.
WEIGH = f"""
with credits as materialized ({CREDITS})
update memoryd.entries e
set weight = s.weight * (1 + 0.05 * coalesce(u.uses / (u.uses + 10), 0)) * (1 + $1::float8 * c.credit)
from credits c
join memoryd.source_memory s on s.id = c.id
left join memoryd.memory_uses u on u.memory_id = c.id
where e.scope = s.scope and e.id = s.id and e.source = 'memory'
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """Memories that fit its tasks almost equally well. The first helps, the second misleads."""

    ids: list[UUID]
    common: list[str]
    own: list[list[str]]
    luck: float


@dataclass(frozen=True, slots=True)
class Fleet:
    """What becomes of its tasks."""

    name: str
    effect: float = EFFECT
    chance: tuple[float, float] = (0.3, 0.7)


FLEETS = (
    Fleet("some memories matter"),
    Fleet("they matter little beside the topic", effect=0.15, chance=(0.15, 0.85)),
    Fleet("none matters", effect=0.0),
    Fleet("all tasks fail", effect=0.0, chance=(0.0, 0.02)),
)


async def live(
    connection: asyncpg.Connection, topics: Sequence[Topic], fleet: Fleet, bound: float, seed: int
) -> dict[str, float]:
    """Lives the days from the beginning, and says what the last ones were like."""
    await connection.execute(
        "truncate agent_commands, memory_queries, memoryd.memory_uses, memoryd.quotes cascade"
    )
    await connection.execute(
        "update memoryd.entries e set weight = s.weight from memoryd.source_memory s where s.id = e.id and e.source = 'memory'"
    )
    draw = random.Random(seed)
    seen: list[tuple[bool, bool, float]] = []
    for day in range(DAYS):
        began = await connection.fetchval("select clock_timestamp()")
        for _ in range(A_DAY):
            topic = topics[draw.randrange(len(topics))]
            message, luck, command = " ".join(draw.sample(topic.common, 4)), draw.random(), uuid4()
            await connection.execute(COMMAND, command, "alice", message)
            shown = set(await connection.fetchval(CONTEXT, command, "alice", message, '{"words": 170}') or ())
            helps, misleads = topic.ids[0] in shown, topic.ids[1] in shown
            low, high = fleet.chance
            chance = min(1.0, max(0.0, low + (high - low) * topic.luck + fleet.effect * (helps - misleads)))
            await connection.execute(END, [command], [luck < chance])
            if day >= DAYS - LAST:
                seen.append((helps, misleads, chance))
        await connection.execute("select memoryd.count_uses($1, clock_timestamp())", began)
        await connection.execute("select memoryd.weigh_memories(now())")
        await connection.execute(WEIGH, bound)
    return {
        "helps": sum(h for h, _, _ in seen) / len(seen),
        "misleads": sum(m for _, m, _ in seen) / len(seen),
        "success": sum(c for _, _, c in seen) / len(seen),
        "exact@1": await exact(connection, topics),
    }


async def exact(connection: asyncpg.Connection, topics: Sequence[Topic]) -> float:
    """Of questions with words that only one memory has: the share whose memory is the first."""
    firsts = [
        await connection.fetchval(RECALL, " ".join(topic.common[:4] + own[:2])) == wanted
        for topic in topics
        for wanted, own in zip(topic.ids, topic.own, strict=True)
    ]
    return firsts.count(True) / len(firsts)


async def fleets(url: str, seeds: Sequence[int]) -> dict[str, object]:
    """The three fleets, with each bound; means over the seeds."""
    connection = await asyncpg.connect(url)
    made: dict[int, list[Topic]] = {}
    figures: dict[str, object] = {}
    sums: dict[tuple[str, float], list[dict[str, float]]] = {}
    for seed in seeds:
        await connection.execute("truncate agent_memory cascade")
        made[seed] = await _topics(connection, url, seed)
        for fleet in FLEETS:
            for bound in BOUNDS:
                lived = await live(connection, made[seed], fleet, bound, seed)
                sums.setdefault((fleet.name, bound), []).append(lived)
    for (name, bound), lives in sums.items():
        means = {key: round(sum(one[key] for one in lives) / len(lives), 3) for key in lives[0]}
        figures[f"{name}, bound {bound}"] = means | {
            "each success": [round(one["success"], 3) for one in lives]
        }
    await connection.close()
    return figures


async def _topics(connection: asyncpg.Connection, url: str, seed: int) -> list[Topic]:
    draw = random.Random(seed)
    words = Corpus(seed).words[300:]
    draw.shuffle(words)
    left = iter(words)
    topics: list[Topic] = []
    rows: list[tuple[UUID, str, str, str, datetime]] = []
    shared: list[str] = []
    luck = 0.0
    for nth in range(TOPICS):
        # Two topics share half of their words; where one is hard, the other is easy.
        if nth % 2 == 0:
            shared, luck = [next(left) for _ in range(3)], draw.random()
        common, ids, own = shared + [next(left) for _ in range(3)], [], []
        for _ in range(MEMBERS):
            own.append([next(left) for _ in range(6)])
            text = common + own[-1]
            draw.shuffle(text)
            ids.append(uuid4())
            rows.append(
                (
                    ids[-1],
                    "alice",
                    "fact",
                    " ".join(text),
                    datetime.now(UTC) - timedelta(days=draw.randrange(30, 60)),
                )
            )
        topics.append(Topic(ids, common, own, luck if nth % 2 == 0 else 1 - luck))
    await _remember(connection, url, rows)
    return topics


async def _remember(
    connection: asyncpg.Connection, url: str, rows: Sequence[tuple[UUID, str, str, str, datetime]]
) -> None:
    async with daemon(url, dream_idle_hours=100):
        await connection.execute(INSERT, *map(list, zip(*rows, strict=True)))
        await wait_for(connection, "select not exists (select from memoryd.jobs)", pause=0.05)
    await connection.execute("analyze")


@dataclass(frozen=True, slots=True)
class Task:
    """A finished task, and whether it had to be repaired soon."""

    agent: str
    message: str
    output: str
    at: datetime
    repaired: bool


def tasks_of(file: Path) -> dict[str, list[Task]]:
    """The tasks of each agent, in their order."""
    rows = sorted(
        (json.loads(line) for line in file.read_text().splitlines()),
        key=lambda r: (r["agent_id"], r["created_at"]),
    )
    tasks: dict[str, list[Task]] = {}
    for agent, own in groupby(rows, key=lambda r: str(r["agent_id"])):
        listed = list(own)
        files = [set(re.findall(r"^\s*(\S+)\s+\|", row["output"], re.MULTILINE)) for row in listed]
        tasks[agent] = [
            Task(
                agent,
                row["message"],
                row["output"],
                datetime.fromisoformat(row["created_at"]),
                row["exit_code"] != 0
                or any(
                    REPAIRS.match(listed[later]["message"]) and files[later] & (files[nth] - {"CHANGELOG.md"})
                    for later in range(nth + 1, min(nth + 1 + NEXT, len(listed)))
                ),
            )
            for nth, row in enumerate(listed)
        ]
    return tasks


async def real(url: str, file: Path, seed: int) -> dict[str, object]:
    """What credit says of the outcomes of real tasks."""
    tasks = tasks_of(file)
    connection = await asyncpg.connect(url)
    await connection.execute("truncate agent_memory, agent_commands, memory_queries, memoryd.quotes cascade")
    now = datetime.now(UTC)
    rows = [
        (uuid4(), agent, "outcome", f"Task: {t.message}\n{t.output}"[:2000], now - timedelta(days=30))
        for agent, own in tasks.items()
        for t in own[: len(own) // 3]
    ]
    await _remember(connection, url, rows)
    learned, asked = [], []
    for own in tasks.values():
        for nth, task in enumerate(own[len(own) // 3 :]):
            command, learns = uuid4(), nth < len(own) // 3
            await connection.execute(COMMAND, command, task.agent, task.message)
            shown = list(await connection.fetchval(CONTEXT, command, task.agent, task.message, "{}") or ())
            if learns:
                learned.append((command, task))
            else:
                await connection.execute("delete from agent_commands where id = $1", command)
                asked.append((task, shown))
    every = [t for own in tasks.values() for t in own]
    figures: dict[str, object] = {
        "tasks": len(every),
        "repaired soon": round(sum(t.repaired for t in every) / len(every), 3),
        "as recorded": (await _predicted(connection, tasks, learned, asked, [True] * len(learned)))[0],
    }
    good = [not task.repaired for _, task in learned]
    figures["repaired soon is failed"], areas = await _predicted(connection, tasks, learned, asked, good)
    draw, by_chance = random.Random(seed), []
    for _ in range(SHUFFLES):
        left = {agent: [not t.repaired for _, t in learned if t.agent == agent] for agent in tasks}
        for outcomes in left.values():
            draw.shuffle(outcomes)
        shuffled = [left[task.agent].pop() for _, task in learned]
        by_chance.append((await _predicted(connection, tasks, learned, asked, shuffled))[1])
    means = sorted(sum(one) / len(one) for one in by_chance)
    figures["mean area"] = round(sum(areas) / len(areas), 3)
    figures["mean area, outcomes shuffled"] = (
        f"{means[0]:.3f} to {means[-1]:.3f}, middle {means[len(means) // 2]:.3f}"
    )
    await connection.close()
    return figures


async def _predicted(
    connection: asyncpg.Connection,
    tasks: dict[str, list[Task]],
    learned: Sequence[tuple[UUID, Task]],
    asked: Sequence[tuple[Task, list[UUID]]],
    good: Sequence[bool],
) -> tuple[dict[str, object], list[float]]:
    """What credit learns from these outcomes, and the area for each agent."""
    await connection.execute(END, [command for command, _ in learned], list(good))
    learnt = {r["id"]: r["credit"] for r in await connection.fetch(CREDITS)}
    areas = []
    for agent in tasks:
        scored = [
            (sum(learnt.get(i, 0.0) for i in shown) / len(shown), not task.repaired)
            for task, shown in asked
            if task.agent == agent and shown
        ]
        areas.append(area([s for s, fine in scored if fine], [s for s, fine in scored if not fine]))
    of = {
        "memories": len(learnt),
        "with credit": sum(abs(c) > 0.001 for c in learnt.values()),
        "largest": round(max(map(abs, learnt.values()), default=0.0), 3),
        "area of each agent": areas,
    }
    return of, areas


def area(high: Sequence[float], low: Sequence[float]) -> float:
    """How often one of the first is above one of the second; .5 by chance."""
    if not high or not low:
        return 0.5
    return round(sum((h > one) + 0.5 * (h == one) for h in high for one in low) / len(high) / len(low), 3)


def main() -> None:
    """Command line."""
    parser = arguments((__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first fleet")
    parser.add_argument("--fleets", type=int, default=3, help="how many are made up")
    parser.add_argument("--commands", type=Path, help="finished tasks of real agents, one JSON object a line")
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures: dict[str, object] = {}
        if options.fleets:
            figures |= asyncio.run(fleets(url, range(options.seed, options.seed + options.fleets)))
        if options.commands is not None:
            figures |= asyncio.run(real(url, options.commands, options.seed))
    report("credit", figures, options.json)


if __name__ == "__main__":
    main()
