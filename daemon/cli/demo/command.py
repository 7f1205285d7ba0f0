"""memoryd demo: two days of three agents' work in under a minute, from the first task to the last one's context.

Promise: nothing is staged. The daemon runs, remembers, links and dreams about real commands, and the demo ends with
exit code 0 only if all of it happened. It leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from daemon.cli.failure import Failure, sentences

if TYPE_CHECKING:
    import asyncpg

    from daemon.cli.demo.script import Step
    from daemon.cli.demo.show import Show
    from daemon.cli.demo.world import World

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.02

INTRODUCE = "insert into agents (agent_id, identity) select * from unnest($1::text[], $2::text[])"
GIVE = "insert into agent_commands (agent_id, message) values ($1, $2) returning id"
ENDED = "select exit_code, output from agent_commands where id = $1 and status in ('completed', 'failed')"
READY = "select context from agent_commands where id = $1 and status not in ('pending', 'cancelled')"
IDLE = "select true where not exists (select from memoryd.jobs)"

# The same outcomes, at the times that they are played at: everything is captured, embedded and linked again.
READ_HISTORY = """
select c.agent_id, c.message, c.output, c.exit_code, c.status
from unnest($1::uuid[]) with ordinality as h(id, nth)
join agent_commands c using (id)
order by h.nth
"""
FORGET = """
-- Whoever gives positions to leaves locks this row first, too.
update memoryd.trail set size = 0;
truncate agent_commands, agent_memory, memory_associations, memory_anchors, memory_queries, memoryd.facts,
    memoryd.fact_sources, memoryd.memory_uses, memoryd.trail_leaves, memoryd.trail_tiles, memoryd.trail_agents,
    memoryd.trail_checkpoints, memoryd.quotes
"""
PLAY = """
insert into agent_commands (agent_id, message, output, exit_code, status, created_at, started_at, finished_at)
select n.agent_id, n.message, n.output, n.exit_code, n.status, t.at, t.at, t.at
from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::float8[])
     as n(agent_id, message, output, exit_code, status, hours_ago)
cross join lateral (select now() - make_interval(secs => 3600 * n.hours_ago) as at) t
"""

MEMORIES = """
select agent_id, kind, content, created_at from agent_memory where source is distinct from 'anchor' order by created_at, id
"""
LINKS = """
select a.association_type, a.strength, m.agent_id, m.content as memory, e.content as earlier,
       extract(epoch from m.created_at - e.created_at)::float8 as seconds
from memory_associations a
join agent_memory m on m.id = a.memory_id
join agent_memory e on e.id = a.related_memory_id
order by a.strength desc, a.id
"""
DREAM = "insert into memory_requests (kind) values ('dream') returning id"
ANSWER = "select status, error from memory_requests where id = $1 and status <> 'pending'"
SESSION = "select * from dream_sessions order by started_at desc limit 1"
INSIGHTS = """
select category, confidence, coalesce(agent_id, 'several agents') as agent_id, insight,
       cardinality(source_memories) as memories
from dream_insights
order by confidence desc, category, insight
"""


def demo() -> None:
    """See it at work: real commands in a temporary folder, a past of two days, a dream. Takes a few seconds."""
    from daemon.cli.demo.show import Show
    from daemon.cli.demo.world import demo_world, run_interruptibly, tail

    show = Show()
    with sentences():
        show.step("Starting a Postgres and a daemon in a temporary folder, only for this demo")
        with demo_world() as world:
            show.started(world)
            try:
                run_interruptibly(_play(world, show))
            except TimeoutError:
                raise Failure(
                    f"The daemon did not get it done. Its log ends: {tail(world.daemon_log)}"
                ) from None
            show.step("Stopping both and removing the folder")
        if world.folder.exists():
            raise Failure(f"{world.folder} could not be removed: remove it.")
    show.ended()


async def _play(world: World, show: Show) -> None:
    import asyncpg

    connection = await asyncpg.connect(world.url)
    try:
        history = await _work(world, show)
        await _as_a_past(connection, show, history)
        await _dream(connection, show)
        await _next_task(connection, show)
    finally:
        await connection.close()


async def _work(world: World, show: Show) -> list[tuple[Step, UUID]]:
    """Each agent does its tasks, one after the other; the agents work at the same time."""
    from daemon.cli.demo.script import AGENTS, STEPS

    show.step(f"{len(AGENTS)} agents do {len(STEPS)} tasks: real shell commands, some of which fail")
    by_agent = [[step for step in STEPS if step.agent == agent] for agent in AGENTS]
    done = await asyncio.gather(*(_work_of_one(world, show, steps) for steps in by_agent))
    return [one for agents in done for one in agents]


async def _work_of_one(world: World, show: Show, steps: Sequence[Step]) -> list[tuple[Step, UUID]]:
    import asyncpg

    from daemon.cli.demo.script import AGENTS

    connection = await asyncpg.connect(world.url)
    try:
        agent = steps[0].agent
        await connection.execute(INTRODUCE, [agent], [AGENTS[agent]])
        done = []
        for step in steps:
            command: UUID = await connection.fetchval(GIVE, step.agent, step.message)
            row = await _until(connection, ENDED, command)
            if (row["exit_code"] == 0) != step.succeeds:
                raise Failure(f"`{step.command}` ended with exit code {row['exit_code']}: {row['output']}")
            show.command(step, exit_code=row["exit_code"], output=row["output"] or "")
            done.append((step, command))
        return done
    finally:
        await connection.close()


async def _as_a_past(connection: asyncpg.Connection, show: Show, history: list[tuple[Step, UUID]]) -> None:
    """Plays the outcomes as if they had come over the last two days; shows what is remembered and linked."""
    show.step("The same work, played as the last two days")
    await _until(connection, IDLE)
    rows = await connection.fetch(READ_HISTORY, [command for _, command in history])
    async with connection.transaction():
        await connection.execute(FORGET)
        await connection.execute(
            PLAY,
            [row["agent_id"] for row in rows],
            [row["message"] for row in rows],
            [row["output"] for row in rows],
            [row["exit_code"] for row in rows],
            [row["status"] for row in rows],
            [step.hours_ago for step, _ in history],
        )
    await _until(connection, IDLE)
    memories = await connection.fetch(MEMORIES)
    links = await connection.fetch(LINKS)
    _require(len(memories) == len(history), f"{len(history)} tasks left {len(memories)} memories.")
    _require(
        any(link["association_type"] == "causal" for link in links), "No success was linked to its failure."
    )
    show.memories(memories)
    show.step("Each memory is linked to what came before it")
    show.links(links)


async def _dream(connection: asyncpg.Connection, show: Show) -> None:
    show.step("A dream: what do the memories say together?")
    request = await connection.fetchval(DREAM)
    answer = await _until(connection, ANSWER, request)
    _require(answer["status"] == "done", f"The dream failed: {answer['error']}")
    insights = await connection.fetch(INSIGHTS)
    _require(bool(insights), "The dream wrote no insight.")
    (session,) = await connection.fetch(SESSION)
    show.dream(session, insights)


async def _next_task(connection: asyncpg.Connection, show: Show) -> None:
    from daemon.cli.demo.script import NEXT

    show.step(f"The next task for {NEXT.agent}, and what it is told before it starts")
    command = await connection.fetchval(GIVE, NEXT.agent, NEXT.message)
    context = (await _until(connection, READY, command))["context"]
    _require("Insights:" in context and "★" in context, "The context has neither insight nor memory.")
    show.context(NEXT, context)
    row = await _until(connection, ENDED, command)
    show.command(NEXT, exit_code=row["exit_code"], output=row["output"] or "")
    _require(row["exit_code"] == 0, "The last task failed.")


async def _until(connection: asyncpg.Connection, sql: str, *args: object) -> Any:
    """The first row, as soon as there is one. Raises TimeoutError."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (row := await connection.fetchrow(sql, *args)) is None:
            await asyncio.sleep(POLL_SECONDS)
        return row


def _require(true: bool, otherwise: str) -> None:
    if not true:
        raise Failure(otherwise)
