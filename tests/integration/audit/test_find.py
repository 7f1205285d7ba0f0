"""Rules and repairs by role: end users find and repair their own rows alone, and a repair does only what still stands."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from plugins.audit import patterns, scan
from plugins.audit.find import OPTIONAL, RULES, chosen, count_memories, find
from plugins.audit.repair import repair
from plugins.audit.rule import Extent
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.rows import column, insert, remember, say
from tests.support.waiting import BLOCKED, until

LONG_AGO = datetime.now(UTC) - timedelta(days=90)
KEY = "AKIAQ1WERT2YUIO3PASD"
EVERYTHING = "select id, content, expires_at from agent_memory where user_id = $1 order by id"
TEXTS = (
    "N/A", "The office has a wombat", "the office has a WOMBAT", "The user lives in Lyon", f"The key is {KEY}",
)  # fmt: skip


async def fill(connection: asyncpg.Connection) -> None:
    """Something for most rules, of two users and of none."""
    for user in (ANN, BOB, None):
        for text in TEXTS:
            await remember(connection, text, user_id=user, kind="fact", created_at=LONG_AGO)


async def test_an_end_user_finds_and_repairs_their_own_alone(connection: asyncpg.Connection) -> None:
    await fill(connection)
    group = await insert(connection, "chat_groups", {"platform": "slack"})
    for user in (ANN, BOB):
        await insert(connection, "chat_group_members", {"chat_id": group, "user_id": user})
    theirs = await say(connection, uuid4(), f"use {KEY}", user_id=BOB, chat_id=group)
    mine = await say(connection, uuid4(), f"use {KEY}", user_id=ANN, chat_id=group)
    before = [
        await connection.fetch(EVERYTHING, BOB),
        await connection.fetch("select * from agent_memory where user_id is null"),
    ]
    rules = (*RULES, *OPTIONAL)
    async with acting_as(connection, ANN):
        assert (
            await count_memories(connection, Extent())
            == await count_memories(connection, Extent(user=ANN))
            == 5
        )
        assert await count_memories(connection, Extent(user=BOB)) == 0
        found = {rule.name: found async for rule, found in find(connection, rules, Extent(), limit=100)}
        assert {name: f.total for name, f in found.items()} == {
            "duplicates": 1, "never-recalled": 0, "empty": 1, "secrets": 2, "personal-data": 0,
        }  # fmt: skip
        assert {f.user_id for one in found.values() for f in one.findings} == {ANN}
        assert {
            i for f in found["secrets"].findings for i in f.ids if f.table == "conversation_messages"
        } == {mine}
        for rule in rules:
            await repair(connection, rule, found[rule.name].findings)
        async for rule, again in find(connection, rules, Extent(), limit=100):
            assert again.total == 0, rule.name
    assert before == [
        await connection.fetch(EVERYTHING, BOB),
        await connection.fetch("select * from agent_memory where user_id is null"),
    ]
    assert KEY in await connection.fetchval("select content from conversation_messages where id = $1", theirs)


async def test_a_finding_of_somebody_else_is_no_way_to_their_rows(connection: asyncpg.Connection) -> None:
    """What the owner found of Bob's, Ann hands in."""
    await fill(connection)
    rules = (*RULES, *OPTIONAL)
    found = {rule.name: found async for rule, found in find(connection, rules, Extent(user=BOB), limit=100)}
    before = await connection.fetch(EVERYTHING, BOB)
    async with acting_as(connection, ANN):
        for rule in rules:
            done = await repair(connection, rule, found[rule.name].findings)
            assert (done.rows, done.gone) == (0, len(found[rule.name].findings))
    assert await connection.fetch(EVERYTHING, BOB) == before


async def test_only_what_still_stands_is_done(connection: asyncpg.Connection) -> None:
    one = await remember(connection, "The office has a wombat", created_at=LONG_AGO)
    two = await remember(connection, "The office has a wombat")
    three = await remember(connection, "The office has a wombat!")
    [rule] = chosen(["duplicates"])
    findings = (await rule.find(connection, Extent(), limit=10)).findings
    assert [(f.ids, f.kept) for f in findings] == [((two, three), one)]
    # The one that was to stay is forgotten, and a copy says something else by now.
    await connection.execute("delete from agent_memory where id = $1", one)
    await connection.execute("update agent_memory set content = 'It is a numbat' where id = $1", three)
    assert (await repair(connection, rule, findings)).gone == 1
    assert len(await column(connection, "select id from agent_memory")) == 2
    # A finding that names rows that the rule would not find does nothing.
    forged = replace(findings[0], ids=(two, three), kept=None)
    assert (await repair(connection, rule, [forged])).rows == 0


async def test_a_change_that_is_under_way_is_waited_for(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection
) -> None:
    memory = await remember(connection, "N/A")
    [rule] = chosen(["empty"])
    findings = (await rule.find(connection, Extent(), limit=10)).findings
    changing = second.transaction()
    await changing.start()
    await second.execute("update agent_memory set content = 'The answer is 42' where id = $1", memory)
    repairing = asyncio.create_task(repair(connection, rule, findings))
    await until(third, BLOCKED)
    await changing.commit()
    done = await repairing
    assert (done.rows, done.gone) == (0, 1)
    assert await column(connection, "select id from agent_memory") == [memory]


async def test_finding_waits_for_nobody(connection: asyncpg.Connection, second: asyncpg.Connection) -> None:
    await fill(connection)
    async with second.transaction():
        await second.execute("lock table agent_memory, memory_queries, memory_anchors in row exclusive mode")
        await second.execute("update agent_memory set source = 'x'")
        await connection.execute("set lock_timeout = 1")
        async for rule, found in find(connection, (*RULES, *OPTIONAL), Extent(), limit=100):
            assert found.total > 0 or rule.name in {"never-recalled", "personal-data"}


async def test_texts_longer_than_what_is_looked_at(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of forms that take an expression long."""
    for module in (patterns, scan):
        monkeypatch.setattr(module, "LONGEST", 100_000)
    length = 102_000
    for text in (
        "a:" * (length // 2),
        "://a:" * (length // 5),
        "+1 " * (length // 3),
        "wombat " * (length // 7),
    ):
        await remember(connection, text)
        await remember(connection, text.upper())
    found = {
        rule.name: found.total
        async for rule, found in find(connection, (*RULES, *OPTIONAL), Extent(), limit=9)
    }
    assert found["duplicates"] == 4
    assert {name: total for name, total in found.items() if name != "duplicates" and total} == {}


async def test_an_anchored_memory_with_a_secret_says_that_the_anchor_keeps_it(
    connection: asyncpg.Connection,
) -> None:
    memory = await remember(connection, f"The key is {KEY}")
    await connection.execute(
        "insert into memory_anchors (memory_id, category) values ($1, 'decision')", memory
    )
    [rule] = chosen(["secrets"])
    [finding] = (await rule.find(connection, Extent(), limit=9)).findings
    assert "forget the memory instead" in finding.reason
    assert KEY not in repr(finding)


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, rule in (("detect_secrets.plugins.jwt", "secrets"), ("stdnum", "personal-data")):
        monkeypatch.setitem(__import__("sys").modules, package, None)
        patterns.secrets_in.cache_clear()
        patterns.personal_data_in.cache_clear()
        with pytest.raises(
            patterns.MissingExtraError, match=r"extra audit of memoryd.* -m pip install 'detect-secrets"
        ):
            chosen([rule])
    with pytest.raises(ValueError, match="There is no rule 'x'"):
        chosen(["x"])
    assert chosen([]) == RULES
