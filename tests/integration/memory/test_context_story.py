"""A story goes on: after failures the one line that helps is in every later context, and what happened is told once."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from tests.support.content.context_block import BLOCK, entries
from tests.support.content.dreams import dream
from tests.support.content.knowledge import know
from tests.support.content.stories import REGISTRY, STORIES, Story
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import ask, column, insert, remember, say
from tests.support.waiting import READY, until

AT_REST = "select not exists (select from memoryd.jobs) and not exists (select from memoryd.unindexed)"
LEFT_OUT = """
select detail from explain_context('alice', $1) where step = 'found' and not shown and detail like '%' || $2 || '%'
"""


@pytest.fixture
async def fleet(connection: asyncpg.Connection, daemon: DaemonProcess) -> asyncpg.Connection:
    """A connection to an empty database with a daemon, where a command was written a moment ago: only tests begin dreams."""
    assert daemon.process.returncode is None
    await ask(connection, "stay awake", status="cancelled")
    return connection


async def attempt(connection: asyncpg.Connection, task: str, output: str) -> str:
    """A task of alice's that fails: the context that it had."""
    command = await ask(connection, task)
    await until(connection, READY, command)
    context: str = await connection.fetchval("select context from agent_commands where id = $1", command)
    await connection.execute("select id from claim_command('alice')")
    await connection.execute("select complete_command($1, $2, 1)", command, output)
    await until(connection, AT_REST)
    return context


async def begin(connection: asyncpg.Connection, story: Story) -> None:
    """What is known, two failures, and a dream."""
    for agent, kind, text in story.known:
        await remember(connection, text, agent_id=agent, kind=kind)
    await until(connection, AT_REST)
    for task, output in story.tasks:
        await attempt(connection, task, output)
    await dream(connection)
    await until(connection, AT_REST)


@pytest.mark.parametrize("name", STORIES)
async def test_the_line_that_helps_is_in_every_later_context(fleet: asyncpg.Connection, name: str) -> None:
    """However the task is worded, and after each further failure; as `build_context` gives it, and as the daemon does."""
    story = STORIES[name]
    await begin(fleet, story)
    for task in story.later:
        for context in (await fleet.fetchval(BLOCK, task), await attempt(fleet, task, story.tasks[-1][1])):
            assert [part for part in story.helps if part not in context] == [], (task, context)
            assert [part for part in story.of_no_use if part in context] == [], (task, context)


async def test_the_third_context_tells_what_failed_once_and_whose_each_line_is(
    fleet: asyncpg.Connection,
) -> None:
    await begin(fleet, REGISTRY)
    task = REGISTRY.later[0]
    [newest] = await column(fleet, LEFT_OUT, task, "2 times since")
    assert str(newest).startswith("left out, an insight says it: ")
    [earlier] = await column(fleet, LEFT_OUT, task, "pushing image")
    assert str(earlier).startswith("left out, it has happened again since: ")
    insight, fact = entries(await attempt(fleet, task, "error: registry refused the connection"))
    assert insight.startswith("- (correction, 0.60) 2 failures around ")
    assert re.fullmatch(
        r"[★-] \[.* fact\] \(from what all agents share\) The staging registry only answers after: make registry-login",
        fact,
    )


async def test_a_later_failure_is_told_with_those_before_it(fleet: asyncpg.Connection) -> None:
    """It is newer than what the rule concluded of the others, and says all that this says."""
    await begin(fleet, REGISTRY)
    await attempt(fleet, "deploy the staging server", "error: registry refused the connection")
    fact, failure = entries(await fleet.fetchval(BLOCK, "deploy the staging server"))
    assert "registry-login" in fact
    day = datetime.now(UTC)
    assert f"error] (3 times since {day.day} {day:%B}) Task: deploy the staging server → failed" in failure
    await fleet.execute(
        "update dream_insights set written_by = 'a model', insight = 'Log in to the registry of staging first.'"
    )
    await until(fleet, AT_REST)
    told = entries(await fleet.fetchval(BLOCK, "deploy the staging server"))
    assert [("Log in" in line, "3 times" in line) for line in told if "fact]" not in line] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize("source", ["knowledge", "document", "turn", "goal", "observation"])
async def test_it_is_found_wherever_it_is_written(fleet: asyncpg.Connection, source: str) -> None:
    [(_, _, text)] = REGISTRY.known
    if source == "knowledge":
        await know(fleet, "Registry", text, created_by="bob")
    elif source == "document":
        await insert(
            fleet, "documents", {"title": "Manual", "content": f"{text}.\n\nThe canteen opens at noon."}
        )
    elif source == "turn":
        await say(fleet, UUID(int=7), text, agent_id="alice", user_id=None)
    else:
        await remember(fleet, text, agent_id="_shared", kind=source)
    await begin(fleet, Story((), REGISTRY.tasks, (), ()))
    for task in REGISTRY.later:
        assert "registry-login" in await fleet.fetchval(BLOCK, task), task


@pytest.mark.parametrize(
    "outcome", ["failed (exit 1)\nerror: registry refused", "completed\nserver {} is up on staging"]
)
async def test_hundreds_of_outcomes_do_not_crowd_it_out(fleet: asyncpg.Connection, outcome: str) -> None:
    """Written long before them, and linked to none."""
    await remember(
        fleet,
        REGISTRY.known[0][2],
        agent_id="_shared",
        kind="fact",
        created_at=datetime(2025, 1, 1, tzinfo=UTC),
    )
    tasks = ("deploy the staging server", "roll out to staging", "update the staging server")
    texts = [f"Task: {task} {n} → {outcome.format(n)}" for n in range(70) for task in tasks]
    await fleet.execute(
        "insert into agent_memory (agent_id, kind, content) select 'alice', $2, t from unnest($1::text[]) t",
        texts,
        "error" if "failed" in outcome else "outcome",
    )
    await until(fleet, AT_REST)
    for task in REGISTRY.later[:5]:
        assert "registry-login" in await attempt(fleet, task, "error: registry refused"), task
