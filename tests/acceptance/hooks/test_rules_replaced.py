"""A later rule takes the place of an earlier one on the same thing, whoever says them and when; what is still true stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.processes.coding_agent import CodingAgent
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 15.0
"""Hooks are not cut off on a busy machine."""

PAIRS = json.loads(Path(__file__).with_name("rule_pairs.json").read_text(encoding="utf-8"))
"""Pairs of rules: of those that replace each other, and of those that both hold, an earlier and a later one."""
HOLD = "select content from agent_memory where agent_id = $1 and superseded_by is null order by content"
TOLD = "Remembered as a rule of this project: "


def said(pair: tuple[str, str], folder: str) -> Iterator[str]:
    """The lines of a past session in a project of its own."""
    for minute, rule in enumerate(pair):
        yield json.dumps(
            {
                "sessionId": folder,
                "cwd": f"/gone/{folder}",
                "timestamp": f"2026-03-01T00:{minute:02}:00Z",
                "type": "user",
                "message": {"role": "user", "content": f"remember: {rule}"},
            }
        )


async def test_opposites_replace_each_other_and_what_is_still_true_stays(
    claude: CodingAgent, db: asyncpg.Connection, agent: str, url: str
) -> None:
    pairs = [(tuple(pair), end) for end in ("replaced", "both") for pair in PAIRS[end]]
    for nth, (pair, _) in enumerate(pairs):
        (claude.home / f"{nth}.jsonl").write_text("\n".join(said(pair, str(nth))), encoding="utf-8")
    process = await claude.command("import", str(claude.home), "--from", "claude-code", DATABASE_URL=url)
    await process.communicate()
    assert process.returncode == 0
    rows = await db.fetch(
        "select metadata ->> 'project' as project, count(*), count(superseded_by) as ended"
        " from agent_memory where agent_id = $1 group by 1",
        agent,
    )
    stored = {int(row["project"].rpartition("/")[2]): (row["count"], row["ended"]) for row in rows}
    wrong = [
        (end, *pair, stored.get(nth))
        for nth, (pair, end) in enumerate(pairs)
        if stored.get(nth) != (2, int(end == "replaced"))
    ]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("always squash", "never squash"),
        ("we use jest here", "we don't use jest any more, it's vitest"),
        ("immer npm nutzen", "ab jetzt pnpm nutzen, nicht npm"),
        ("以后都用中文回答", "以后都用英文回答"),
    ],
)
async def test_who_states_a_rule_is_told_which_one_it_replaces(
    earlier: str, later: str, claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    before = (await claude.say(earlier)).removeprefix(TOLD)
    told = await claude.say(later, "s2")
    assert f"It replaces the earlier rule: {before}" in told
    assert before not in await holding(db, agent)
    assert len(await holding(db, agent)) == 1


async def holding(db: asyncpg.Connection, agent: str) -> list[str]:
    """The rules that hold."""
    return [row["content"] for row in await db.fetch(HOLD, agent)]


@pytest.mark.parametrize("homes", [1, 2])
async def test_of_opposites_said_at_once_one_holds_and_each_session_is_told_which(
    homes: int, claude: CodingAgent, db: asyncpg.Connection, agent: str, url: str, tmp_path: Path
) -> None:
    """In two sessions of one person, or of two at two machines: these share no spool."""
    other = claude
    if homes == 2:
        other = CodingAgent(tmp_path / "other", claude.project, limit=LIMIT)
        other.configure(url, agent)
    for nth in range(6):
        rules = [f"never squash branch{nth}", f"always squash branch{nth}"]
        told = await asyncio.gather(claude.say(rules[0], f"a{nth}"), other.say(rules[1], f"b{nth}"))
        rows = await db.fetch(
            "select content, superseded_by from agent_memory where content = any($1) and agent_id = $2"
            " order by created_at, id",
            rules,
            agent,
        )
        assert [row["superseded_by"] is None for row in rows] == [False, True]
        lost, won = (row["content"] for row in rows)
        by_rule = dict(zip(rules, told, strict=True))
        assert f"{TOLD}{won}" in by_rule[won]
        # The one that lost was told so, unless it had its answer before the other one was said.
        assert "replaces" not in by_rule[lost]
        ended = f"Not a rule of this project: {lost}. Another session has since said: {won}"
        assert by_rule[lost].split("\n")[0] in (ended, f"{TOLD}{lost}")
        assert ended in by_rule[lost] or f"It replaces the earlier rule: {lost}" in by_rule[won]


async def test_hooks_that_share_a_spool_do_not_wait_for_each_other(
    claude: CodingAgent, db: asyncpg.Connection, agent: str, url: str
) -> None:
    """One ends an older rule for a newer one while the other stores both, of which it has found the newer one first."""
    claude.configure("postgresql://nobody@/none?host=/nowhere/at/all", agent)
    for rule in ("always squash", "never squash"):
        await claude.say(rule)
    older, newer = (path.read_text() for path in claude.spooled)
    claude.configure(url, agent)
    (claude.state / "away").unlink()
    await claude.say("list the branches")
    assert await holding(db, agent) == ["never squash"]
    for nth, text in enumerate((newer, older)):
        (claude.state / f"spool/{nth:020d}-{json.loads(text)['id']}.json").write_text(text)
    lock = "select id from agent_memory where agent_id = $1 and content = $2 for no key update nowait"
    async with db.transaction():
        await db.execute(lock, agent, "always squash")
        waiting = asyncio.create_task(claude.say("list the tags"))
        await until(
            db,
            "select exists (select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid)))",
        )
        await db.execute(lock, agent, "never squash")
    await waiting
    assert claude.spooled == []
    assert await holding(db, agent) == ["never squash"]


async def test_a_rule_that_waited_does_not_end_a_later_one(
    claude: CodingAgent, db: asyncpg.Connection, agent: str, url: str, tmp_path: Path
) -> None:
    claude.configure("postgresql://nobody@/none?host=/nowhere/at/all", agent)
    await claude.say("always squash")
    claude.configure(url, agent)
    (claude.state / "away").unlink()
    other = CodingAgent(tmp_path / "other", claude.project, limit=LIMIT)
    other.configure(url, agent)
    assert await other.say("never squash") == f"{TOLD}never squash"
    told = await claude.say("always sign commits", "s2")
    assert f"{TOLD}always sign commits" in told
    assert "squash" not in told.replace("- never squash", "")
    assert await holding(db, agent) == ["always sign commits", "never squash"]


async def test_of_two_opposite_rules_in_a_prompt_the_last_one_counts(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    told = await claude.say("Always use npm. Wait, no. Always use pnpm.")
    assert told == f"{TOLD}Always use pnpm"
    assert await holding(db, agent) == ["Always use pnpm"]
