"""memoryd context, recall and dream: what is remembered, asked from the command line."""

from __future__ import annotations

import uuid
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, remember, say
from tests.support.waiting import IDLE, until

REMEMBER = """
insert into agent_memory (agent_id, kind, content, created_at)
select 'alice', kind, content, now() - n * interval '1 hour'
from (values (5, 'error', 'Task: deploy the staging server → failed (exit 1)
disk full on staging'),
             (4, 'error', 'Task: deploy the staging server → failed (exit 1)
disk full on staging again'),
             (3, 'error', 'Task: deploy the staging server → failed (exit 1)
disk is still full on staging'),
             (2, 'outcome', 'Task: clean the disk of the staging server → completed'),
             (1, 'fact', 'the espresso machine is called Bertha')) as m(n, kind, content)
"""
# Of a fleet that just had a task no daemon thinks that it is idle, and dreams of its own accord.
BUSY = "insert into agent_commands (agent_id, message, status) values ('alice', 'wait', 'cancelled')"
MESSAGE = "deploy the staging server once more"
SHARED = pytest.mark.asyncio(loop_scope="module")


async def remember_five(connection: asyncpg.Connection, daemons: Daemons) -> None:
    """Five memories of alice, embedded and linked; no daemon runs any more."""
    await connection.execute(BUSY)
    daemon = await daemons.start()
    await connection.execute(REMEMBER)
    await until(connection, IDLE)
    await daemon.stop()


@pytest.fixture
async def remembered(connection: asyncpg.Connection, daemons: Daemons) -> None:
    """A database with them."""
    await remember_five(connection, daemons)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(url: str, db: asyncpg.Connection, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """Commands on one with them that all tests that only read share."""
    folder = tmp_path_factory.mktemp("reader")
    await remember_five(db, Daemons(url, folder))
    return Commands(url, folder)


@pytest.mark.usefixtures("remembered")
async def test_context_prints_what_the_task_would_get(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    shown = await memoryd("context", "alice", MESSAGE)
    assert shown.code == 0
    assert shown.err == ""
    assert shown.out.startswith("--- CONTEXT")
    assert "You are alice." in shown.out
    assert "disk is still full" in shown.out
    assert "★" in shown.out
    assert "Bertha" not in shown.out
    # The message was embedded: by its words alone the memories have other scores.
    embedded = await scores_shown(connection)
    await connection.execute("delete from memory_queries")
    await connection.execute("select build_context('alice', $1)", MESSAGE)
    by_words = await scores_shown(connection)
    assert shown.out.count("(3 times since ") == 1
    assert len(embedded) == len(by_words) == 2
    assert set(embedded).isdisjoint(by_words)


async def scores_shown(connection: asyncpg.Connection) -> list[float]:
    """The scores of the memories in the only context that was composed."""
    (scores,) = await column(connection, "select relevance_scores from memory_queries")
    assert isinstance(scores, list)
    assert scores
    return scores


async def test_a_context_takes_the_options_of_build_context(
    memoryd: Commands, connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    now, earlier = uuid.UUID(int=7), uuid.UUID(int=8)
    await say(connection, now, "The staging server restarts by systemctl", agent_id="alice")
    await say(connection, earlier, "The staging server needs a ticket", agent_id="alice")
    await remember(connection, "The staging server is at home", metadata='{"project": "family"}')
    await until(connection, IDLE)
    for option in ((), ("--explain",)):
        asked = ("context", "alice", "How do we restart the staging server?", *option)
        whole = await memoryd(*asked)
        assert all(each in whole.out for each in ("systemctl", "ticket", "at home"))
        less = await memoryd(
            *asked, "--exclude-session", str(now), "--exclude-last", "1", "--project", "office"
        )
        assert [each in less.out for each in ("systemctl", "ticket", "at home")] == [False, True, False]
    for wrong, says in (
        (("--exclude-last", "1"), "needs --exclude-session"),
        (("--project", " "), "--project is blank"),
    ):
        assert says in (await memoryd("context", "alice", "x", *wrong)).err


@SHARED
async def test_an_empty_context_is_reported_on_stderr(reader: Commands) -> None:
    shown = await reader("context", "alice", "zzz qqq")
    assert (shown.code, shown.out) == (0, "")
    assert "Nothing that alice remembers" in shown.err
    thanks = await reader("context", "alice", "Thanks!")
    assert (thanks.out, "This is small talk" in thanks.err, "Nothing that" in thanks.err) == ("", True, False)


async def test_an_unknown_agent_is_refused_with_the_known_agents(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    unknown = await memoryd("context", "mallory", MESSAGE)
    assert unknown.code == 1
    assert "no agent had a command or a memory yet" in unknown.err
    await connection.execute("insert into agents (agent_id) values ('alice'), ('bob')")
    ended = await memoryd("context", "mallory", MESSAGE)
    assert ended.code == 1
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert "no agent mallory" in ended.err
    assert "alice" in ended.err
    assert "bob" in ended.err


@SHARED
async def test_recall_finds_by_words_and_by_meaning(reader: Commands) -> None:
    by_words = (await reader("recall", "Bertha", "--json")).json
    assert by_words[0]["content"] == "the espresso machine is called Bertha"
    assert by_words[0]["metadata"]["kind"] == "fact"
    assert by_words[0]["score"] > 0.5
    # No word of this question is in any memory.
    by_meaning = (await reader("recall", "coffee devices", "--json")).json
    assert by_meaning[0]["content"] == "the espresso machine is called Bertha"
    assert by_meaning[0]["similarity"] > 0.35

    shown = (await reader("recall", "Bertha")).out.splitlines()
    assert len(shown) == 2
    assert shown[0].split() == ["score", "similarity", "kind", "age", "content"]
    assert "memory/fact" in shown[1]
    assert "60 min" in shown[1]
    assert shown[1].endswith("called Bertha")


async def test_an_explanation_names_the_best_of_what_was_left_out(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into agent_memory (agent_id, content)"
        " select 'alice', format('deploy %s of the staging server ended with %s', n, repeat(md5(n::text), 3))"
        " from generate_series(1, 200) n"
    )
    await connection.execute(
        "insert into dream_insights (agent_id, insight, source_memories, category, confidence)"
        " select 'alice', 'deploy of the staging server, lesson ' || md5(n::text), '{}', 'pattern', 0.8"
        " from generate_series(1, 20) n"
    )
    all_of_it = (await memoryd("context", "alice", "deploy the staging server", "--explain", "--json")).json
    left_out = sum(not one["shown"] for one in all_of_it)
    assert left_out > 10
    shown = (await memoryd("context", "alice", "deploy the staging server", "--explain")).out.splitlines()
    assert len(shown) == 1 + len(all_of_it) - left_out + 10 + 1
    assert shown[-1] == f"... and {left_out - 10:,} more that were left out (--json names all)."


@SHARED
async def test_recall_explains_what_each_part_contributed(reader: Commands) -> None:
    (best, *_) = (await reader("recall", "Bertha the espresso machine", "--explain", "--json")).json
    assert best["content"] == "the espresso machine is called Bertha"
    assert best["lexical"] == 1
    assert 0 < best["dense"] <= 0.5
    assert best["named"] == best["timed"] == best["session"] == 0
    whole = best["relevance"] * best["weight"] + best["recency"] + best["association"]
    assert best["score"] == pytest.approx(min(1, whole))

    shown = (await reader("recall", "Bertha", "--explain", "-n", "1")).out.splitlines()
    assert shown[0].split() == [
        *("score", "relevance", "weight", "recency", "association"),
        *("lexical", "dense", "prior", "named", "timed", "session", "reason", "kind", "content"),
    ]
    assert "memory/fact" in shown[1]


@SHARED
async def test_recall_leaves_out_what_does_not_belong(reader: Commands) -> None:
    asked = ("recall", "What is the espresso machine called?", "--relevant-only", "--json")
    found = (await reader(*asked)).json
    assert found[0]["content"] == "the espresso machine is called Bertha"
    explained = (await reader(*asked, "--explain")).json
    assert [row["id"] for row in explained if row["left_out"] is None] == [row["id"] for row in found]
    assert (
        await reader("recall", "Gluons of quantum chromodynamics", "--relevant-only", "--json")
    ).json == []


@SHARED
async def test_recall_is_narrowed_by_its_options(reader: Commands, db: asyncpg.Connection) -> None:
    user = uuid.uuid4()
    await db.execute(
        "insert into agent_memory (agent_id, user_id, content) values ('bob', $1, 'Bertha needs descaling')",
        user,
    )

    async def contents(*arguments: str) -> list[Any]:
        return [row["content"] for row in (await reader("recall", "Bertha", "--json", *arguments)).json]

    both = await contents()
    assert sorted(both) == ["Bertha needs descaling", "the espresso machine is called Bertha"]
    assert await contents("-n", "1") == both[:1]
    assert await contents("--agent", "bob", "--user", str(user)) == ["Bertha needs descaling"]
    assert await contents("--agent", "alice", "--user", str(user)) == []
    assert await contents("--source", "memory") == both
    assert (
        await reader("recall", "Bertha", "--source", "insight")
    ).out == "Nothing is remembered about this.\n"
    unknown = await reader("recall", "Bertha", "--source", "gossip")
    assert unknown.code == 1
    assert unknown.err.count("\n") == 1
    assert "Sources: memory, conversation, document, knowledge, insight" in unknown.err
    assert (await reader("recall", "Bertha", "--user", str(user)[:-1])).code == 2
    alone = await reader("recall", "Bertha", "--exclude-last", "3")
    assert (alone.code, "--exclude-last needs --exclude-session" in alone.err) == (2, True)
    await db.execute("delete from agent_memory where user_id = $1", user)


@pytest.mark.usefixtures("remembered")
async def test_a_dream_prints_what_it_wrote(memoryd: Commands, connection: asyncpg.Connection) -> None:
    dreamt = (await memoryd("dream", "--json")).json
    assert dreamt["status"] == "completed"
    assert dreamt["memories_scanned"] == 5
    (insight,) = dreamt["insights"]
    assert insight["category"] == "correction"
    assert insight["agent_id"] == "alice"
    assert await connection.fetchval("select array_agg(started_by) from dream_sessions") == ["manual"]

    again = await memoryd("dream")
    assert again.code == 0
    assert "Dream completed: 5 memories looked over" in again.out
    assert "correction" in again.out
    assert "failures" in again.out
    assert await connection.fetchval("select count(*) from dream_insights") == 1  # continued, not doubled


async def test_a_dream_during_another_is_refused(memoryd: Commands, connection: asyncpg.Connection) -> None:
    await connection.execute(
        "insert into dream_sessions (started_by, lease_until) values ('idle', now() + interval '1 min')"
    )
    ended = await memoryd("dream")
    assert ended.code == 1
    assert ended.out == ""
    assert "Another dream is running (idle, for" in ended.err
    assert await connection.fetchval("select count(*) from dream_sessions") == 1


async def test_a_dream_of_other_dimensions_is_refused(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    ended = await memoryd("dream", embedding_dimensions=128)
    assert ended.code == 1
    assert "256 dimensions" in ended.err
    assert await connection.fetchval("select count(*) from dream_sessions") == 0
