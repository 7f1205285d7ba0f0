"""What happened and what is known in one context: near copies once, the best of each kind first, and whose each line is."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from tests.support.access.isolation import index_world
from tests.support.content.context_block import BLOCK, entries
from tests.support.content.knowledge import know
from tests.support.rows import associate, conclude, remember, say

FAILURE = "Task: {} → failed (exit 1)\nerror: registry refused the connection"
NOVEMBER = datetime(2026, 11, 20, 19, 10, tzinfo=UTC)
LOGIN = "The staging registry only answers after: make registry-login"


async def test_near_copies_are_told_once(scratch: asyncpg.Connection) -> None:
    """The newest of them. Another number or another result make it another event, and so do two tasks' own words."""
    again = ("deploy staging", "deploy staging again", "deploy staging a third time")
    for n, task in enumerate(again):
        await remember(scratch, FAILURE.format(task), kind="error", created_at=NOVEMBER.replace(day=20 + n))
    for task in ("deploy staging 2", "deploy staging 3", "stop staging"):
        await remember(scratch, FAILURE.format(task), kind="error", created_at=NOVEMBER)
    await remember(
        scratch,
        "Task: deploy staging → failed (exit 1)\ndisk of the build host is full",
        kind="error",
        created_at=NOVEMBER,
    )
    await index_world(scratch)
    told = entries(await scratch.fetchval(BLOCK, "deploy staging"))
    assert sum("third time" in line for line in told) == 1
    [newest] = [line for line in told if "third time" in line]
    assert (
        "[2026-11-22 19:10 error] (3 times since 20 November) Task: deploy staging a third time → failed"
        in newest
    )
    assert not any("again" in line for line in told)
    for other in ("staging 2", "staging 3", "stop", "disk of"):
        assert sum(other in line for line in told) == 1, (other, told)


async def test_the_best_of_each_kind_has_room_first(scratch: asyncpg.Connection) -> None:
    for city in ("Oslo", "Lima", "Turin", "Quito"):
        await remember(
            scratch, f"Task: deploy the staging server → failed in {city}\n{city} said no", kind="error"
        )
    await remember(scratch, LOGIN, kind="fact", agent_id="_shared")
    await index_world(scratch)
    block = await scratch.fetchval(
        "select build_context('alice', 'deploy the staging server', options => '{\"words\": 100}')"
    )
    assert ["registry-login" in block, "failed in" in block] == [True, True]
    assert len(entries(block)) < 5


async def test_failures_do_not_say_enough(scratch: asyncpg.Connection) -> None:
    """The team is asked, however well the failures fit: they only repeat the task."""
    for city in ("Oslo", "Lima", "Turin"):
        await remember(
            scratch, f"Task: deploy the staging server → failed in {city}\n{city} said no", kind="error"
        )
    await know(scratch, "Staging", LOGIN, created_by="bob")
    await index_world(scratch)
    assert "registry-login" in await scratch.fetchval(BLOCK, "deploy the staging server")


async def test_a_link_brings_what_is_known(scratch: asyncpg.Connection) -> None:
    """Though another line fits the task much better. What happened elsewhere comes by no link."""
    task = "deploy the staging server tonight"
    failure = await remember(scratch, FAILURE.format(task), kind="error")
    await remember(scratch, "We deploy the staging server tonight with deploy.sh", kind="fact")
    linked = await remember(scratch, "At night the registry wants a password: ask Ann for it", kind="fact")
    other = await remember(
        scratch, "Task: water the plants at night → failed (exit 1)\nno water", kind="error"
    )
    await index_world(scratch)
    before = await scratch.fetchval(BLOCK, task)
    assert ["ask Ann" in before, "deploy.sh" in before] == [False, True]
    for memory in (linked, other):
        await associate(scratch, failure, memory, 0.45)
    after = await scratch.fetchval(BLOCK, task)
    assert ["ask Ann" in after, "deploy.sh" in after, "plants" in after] == [True, True, False]


async def test_only_other_agents_lines_are_said_to_be_from_another_agent(scratch: asyncpg.Connection) -> None:
    shared = await remember(scratch, "water the plants with rain", kind="fact", agent_id="_shared")
    own = await remember(scratch, "Task: water the plants → failed (exit 1)\nno water", kind="error")
    await conclude(
        scratch, "2 failures around plants", 0.6, category="correction", source_memories=[own, shared]
    )
    await conclude(
        scratch, "4 memories about plants and water", 0.5, category="summary", source_memories=[own, shared]
    )
    await conclude(
        scratch, "water the plants at noon, said a model", 0.9, source_memories=[own], written_by="a model"
    )
    await know(scratch, "Plants", "Water the plants weekly.", created_by="bob")
    for speaker in ("alice", "bob", None):
        said = f"I water the plants, says {speaker}"
        await say(scratch, UUID(int=9), said, role="assistant", user_id=None, agent_id=speaker)
    await say(scratch, UUID(int=9), "Water the plants, says Tom", user_id=None, agent_id="alice")
    # What says nothing of an agent itself was said by that of its session.
    await scratch.execute(
        "insert into conversation_sessions (id, agent_id) values ($1, 'alice')", UUID(int=8)
    )
    await say(scratch, UUID(int=8), "I water the plants in bed 8", role="assistant", user_id=None)
    await index_world(scratch)
    told = entries(await scratch.fetchval(BLOCK, "water the plants"))
    marks = {}
    for line in told:
        for part in (
            "with rain",
            "2 failures",
            "4 memories",
            "a model",
            "weekly",
            "says alice",
            "says Tom",
            "says None",
            "in bed 8",
        ):
            if part in line:
                found = re.search(r"[])] \(((?:from|said)[^)]*)\)", line)
                marks[part] = found and found[1]
    assert marks == {
        "with rain": "from what all agents share",
        "2 failures": None,
        "4 memories": "from what all agents share",
        "a model": None,
        "weekly": "from another agent",
        "says alice": "said by you",
        "says Tom": "from a person",
        "says None": "from another agent",
        "in bed 8": "said by you",
    }


async def test_what_an_agent_noted_and_concluded_by_hearsay_is_said_by_itself(
    scratch: asyncpg.Connection,
) -> None:
    heard = {
        agent: await remember(
            scratch, f"water the plants, {agent} noted", kind="note", agent_id=agent,
            metadata='{"trust": "agent"}',
        )
        for agent in ("alice", "bob", "_shared")
    }  # fmt: skip
    for said, sources in (
        ("water the plants by hand", ["alice"]),
        ("water the plants by all means", ["alice", "_shared"]),
    ):
        await conclude(scratch, said, 0.9, category="summary", source_memories=[heard[s] for s in sources])
    await index_world(scratch)
    lines = entries(await scratch.fetchval(BLOCK, "water the plants"))
    marks = {line.rpartition(") ")[2]: line.rpartition("(")[2].partition(")")[0] for line in lines}
    assert marks == {
        "water the plants, alice noted": "said by you",
        "water the plants, _shared noted": "from what all agents share",
        "water the plants by hand": "said by you",
        "water the plants by all means": "from what all agents share",
    }
