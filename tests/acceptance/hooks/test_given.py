"""What a prompt is given: nothing twice, nothing that its own session did, and in a shared database its project's only."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.support.processes.coding_agent import CONCLUDED, CodingAgent
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 15.0
"""Hooks are not cut off on a busy machine."""

INDEXED = "select not exists (select from memoryd.jobs)"
REPAIR = "Exit code 1\nE   ModuleNotFoundError: No module named 'tenacity'"


async def begin(claude: CodingAgent, session: str, source: str = "startup") -> str:
    """What the agent is told at the beginning of a session."""
    answer: Any = await claude.tell("SessionStart", session_id=session, source=source)
    return "" if answer is None else str(answer["hookSpecificOutput"]["additionalContext"])


async def work(claude: CodingAgent, prompt: str, concluded: str, session: str) -> str:
    """A whole turn; returns what it was told."""
    told = await claude.say(prompt, session)
    edited = {"file_path": str(claude.project / "src/webhooks.py")}
    await claude.tell("PostToolUse", session_id=session, tool_name="Edit", tool_input=edited)
    await claude.tell("Stop", session_id=session, last_assistant_message=concluded)
    return told


async def test_a_session_is_not_told_what_it_did_or_was_told(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    long = CONCLUDED + " The webhook sender keeps its tries in the table deliveries." * 20
    await work(claude, "Let the webhook sender wait longer between tries", long, "s1")
    await until(db, INDEXED)
    # Its own turn is not given back to it, whatever its words; the next session is told it once.
    assert "webhook sender" not in await claude.say("why does the webhook sender wait 300 seconds?", "s1")
    first = await claude.say("how long does the webhook sender wait between tries?", "s2")
    assert "300 seconds" in first
    assert len(first.split()) <= 150
    again = await claude.say("where does the webhook sender keep its tries?", "s2")
    assert "webhook sender" not in again
    # What was told is gone when the host empties the conversation.
    assert "webhook sender" in await begin(claude, "s3")
    assert "webhook sender" in await begin(claude, "s3", "clear")
    await begin(claude, "s2", "resume")
    assert "webhook sender" not in await claude.say("how long does the webhook sender wait?", "s2")


async def test_what_was_cut_when_a_session_began_is_told_whole_once_it_fits(
    claude: CodingAgent, db: asyncpg.Connection
) -> None:
    cut = f"{CONCLUDED} Deliveries that fail for a day are moved to the table undelivered, and an alert goes to the team."
    await work(claude, "Let the webhook sender wait longer between tries", cut, "s1")
    await work(claude, "name the queue of the importer", "The queue is called importer_jobs.", "s1")
    await until(db, INDEXED)
    begun = await begin(claude, "s2")
    assert "The queue is called importer_jobs." in begun
    assert "…" in begun
    assert "an alert goes" not in begun
    assert "an alert goes" in await claude.say(
        "where do deliveries of the webhook sender go that fail?", "s2"
    )
    assert "an alert goes" not in await claude.say("and how long does the webhook sender wait?", "s2")
    # What was told whole is not told again.
    assert "importer_jobs" not in await claude.say("what is the queue of the importer called?", "s2")


async def test_what_is_new_takes_the_place_of_what_was_told(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    for n in range(12):
        text = f"Fact {n} of the webhook sender: its queue number {n} is drained by worker {n * 7} alone, never by another one"
        await db.execute(
            "insert into agent_memory (agent_id, kind, content, metadata) values ($1, 'fact', $2, $3)",
            agent, text, json.dumps({"project": str(claude.project)}),
        )  # fmt: skip
    await until(db, INDEXED)
    told: list[str] = []
    for n in range(3):
        block = await claude.say(f"which worker drains the queue of the webhook sender? ({n})", "s1")
        lines = [line.split("Fact ")[1].split()[0] for line in block.splitlines() if "Fact " in line]
        assert lines
        assert len(block.split()) <= 150
        assert not set(lines) & set(told)
        told += lines


async def test_a_rule_comes_with_a_prompt_once_and_not_to_who_stated_it(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.say("always run tests with uv run pytest, never bare pytest", "s1")
    await until(db, INDEXED)
    assert "uv run pytest" not in await claude.say("please run the tests of the parser", "s1")
    assert "uv run pytest" in await begin(claude, "s2")
    assert "uv run pytest" in await claude.say("please run the tests of the parser", "s2")
    assert "uv run pytest" not in await claude.say("and the tests of the lexer, too", "s2")


async def test_a_failure_is_closed_by_another_command_that_does_the_same(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.say("make it green", "s1")
    for failed, passed in (
        ("pytest tests/test_a.py", "uv run pytest tests/test_a.py -q"),
        ("npm test", "CI=1 npm test"),
        ("make deploy", "sudo make deploy"),
        ("ruff check src", "python -m ruff check src"),
    ):
        given = {"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": failed}}
        await claude.tell("PostToolUseFailure", **given, error=REPAIR)
        given["tool_input"] = {"command": passed}
        await claude.tell("PostToolUse", **given, tool_response={"stdout": "3 passed"})
    for failed, other in (
        ("pytest tests/test_b.py", "uv run pytest tests/test_c.py"),
        ("make deploy ENV=a", "make deploy ENV=b"),
        ("npm run build", "npm run lint"),
        ("cargo test", "echo cargo test"),
    ):
        given = {"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": failed}}
        await claude.tell("PostToolUseFailure", **given, error="error: 1")
        given["tool_input"] = {"command": other}
        await claude.tell("PostToolUse", **given, tool_response={"stdout": "fine"})
    await claude.tell("SessionEnd", session_id="s1", reason="other")
    rows = await db.fetch(
        "select kind, content from agent_memory where agent_id = $1 and kind <> 'outcome' order by kind, content",
        agent,
    )
    assert [row["content"].split(" failed")[0].strip("`") for row in rows if row["kind"] == "error"] == [
        "cargo test", "make deploy ENV=a", "npm run build", "pytest tests/test_b.py",
    ]  # fmt: skip
    repaired = [row["content"] for row in rows if row["kind"] == "fact"]
    assert len(repaired) == 4
    assert "It went through after running uv run pytest tests/test_a.py -q." in "\n".join(repaired)


async def test_a_failure_of_an_earlier_session_is_closed_by_a_later_one(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.say("run the tests", "s1")
    given = {"tool_name": "Bash", "tool_input": {"command": "pytest tests/test_webhooks.py"}}
    await claude.tell("PostToolUseFailure", session_id="s1", **given, error=REPAIR)
    await claude.tell("SessionEnd", session_id="s1", reason="other")
    assert "No module named" in await begin(claude, "s2")
    await claude.say("run the tests again", "s2")
    edited = {"file_path": str(claude.project / "uv.lock")}
    await claude.tell("PostToolUse", session_id="s2", tool_name="Edit", tool_input=edited)
    given = {"tool_name": "Bash", "tool_input": {"command": "uv run pytest tests/test_webhooks.py"}}
    await claude.tell("PostToolUse", session_id="s2", **given, tool_response={"stdout": "3 passed"})
    await claude.tell("SessionEnd", session_id="s2", reason="other")
    begun = await begin(claude, "s3")
    assert "run the tests again" in begun
    assert "`pytest tests/test_webhooks.py` failed" not in begun
    held = await db.fetch(
        "select kind, content from agent_memory where agent_id = $1 and superseded_by is null and kind <> 'outcome'",
        agent,
    )
    means = "It went through after changing uv.lock; running uv run pytest tests/test_webhooks.py."
    assert [(row["kind"], means in row["content"]) for row in held] == [("fact", True)]


async def test_in_a_database_of_a_fleet_a_prompt_gets_what_is_of_its_project(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    here, there = json.dumps({"project": str(claude.project)}), json.dumps({"project": "elsewhere"})
    memory = """insert into agent_memory (agent_id, kind, content, metadata) values ($1, $2, $3, $4)
                returning id"""
    ids = {}
    for whose, kind, text, mark in (
        (agent, "fact", "The staging registry of here answers on port 5001", here),
        (agent, "fact", "The staging registry of me wants a login by a token", "{}"),
        (agent, "error", "The staging registry of there refuses pushes", there),
        (agent, "error", "The staging registry of nowhere refuses pushes at noon", "{}"),
        ("_shared", "fact", "The staging registry of all is mirrored at night", "{}"),
        (f"{agent}-other", "fact", "The staging registry of another agent is full", "{}"),
        (agent, "error", "The staging registry of here was down on Monday", here),
    ):
        ids[text] = await db.fetchval(memory, whose, kind, text, mark)
    insight = """insert into dream_insights (agent_id, category, insight, confidence, source_memories)
                 values ($1, 'pattern', $2, 0.9, $3)"""
    await db.execute(
        insight, agent, "The staging registry insight of nowhere: it refuses pushes",
        [ids["The staging registry of nowhere refuses pushes at noon"]],
    )  # fmt: skip
    await db.execute(
        insight, agent, "The staging registry insight of here: it was down",
        [ids["The staging registry of here was down on Monday"]],
    )  # fmt: skip
    await db.execute(
        """insert into shared_knowledge (tier, category, title, content, created_by)
           values ('learning', 'correction', 'Staging registry', 'The staging registry of the team moved', 'fleet')"""
    )
    for mark, text in ((here, "of this project"), ("{}", "of the fleet"), (there, "of there")):
        document = await db.fetchval(
            "insert into documents (title, content, metadata) values ('staging', $1, $2) returning id",
            f"The staging registry document {text} says how images are pushed.", mark,
        )  # fmt: skip
        assert document
    await until(db, INDEXED)
    told = ""
    for n in range(4):
        told += await claude.say(f"why does the push to the staging registry fail? ({n})", "s1")
    for mine in (
        "of here answers",
        "of me wants",
        "of all is mirrored",
        "insight of here",
        "of this project",
    ):
        assert mine in told, (mine, told)
    for others in ("of there", "of another agent", "insight of nowhere", "of the team", "of the fleet"):
        assert others not in told, (others, told)


async def test_two_prompts_at_once_are_each_answered(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await work(claude, "Let the webhook sender wait longer between tries", CONCLUDED, "s1")
    await until(db, INDEXED)
    told = await asyncio.gather(
        *(claude.say("how long does the webhook sender wait?", f"s{n}") for n in range(2, 6))
    )
    assert all("300 seconds" in each for each in told)
