"""When a message needs memory: which patterns it shows, whose names it tells, and what is logged where nothing is searched."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.isolation import index_world
from tests.support.content.knowledge import know
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import ask, insert, one_row, remember
from tests.support.waiting import IDLE, READY, until

SHOWN = "select coalesce(array_agg(distinct pattern order by pattern), '{}') from classify_message($1)"
LABELLED = json.loads(
    (Path(__file__).parents[3] / "benchmarks" / "talk" / "patterns.json").read_text("utf-8")
)
BLOCK = "select build_context('alice', $1)"
NOBODYS = UUID(int=0xFF)


@pytest.mark.parametrize(
    ("message", "patterns"),
    [
        ("Should we merge it?", ["decision"]),
        ("I think we should wait.", ["decision"]),
        ("Let\u2019s go with Postgres", ["decision"]),
        ("\u017fhould we merge it?", ["decision"]),
        ("\uff33hould we merge it?", ["decision"]),
        ("Wa\u0308re es besser zu warten?", ["decision"]),
        ("Should we wait or did we agree on Friday?", ["decision", "past"]),
        ("Let's say x is 5", ["task"]),
        ("How should I name it?", ["how-to"]),
        ("Remember when it broke?", ["past"]),
        ("Remember to water the plants", ["task"]),
        ("Didn\u2019t we fix that?", ["past"]),
        ("I had soup for lunch.", ["task"]),
        ("What are the next steps?", ["planning"]),
        ("The query plan reads the whole table", ["task"]),
        ("Actually, it is 42.", ["correction"]),
        ("Is it actually raining?", ["task"]),
        ("But you promised it.", ["correction", "past"]),
        ("It is small but fierce", ["task"]),
        ("That's not right.", ["correction"]),
        ("No, the other one.", ["correction"]),
        ("No, thanks", []),
        ("How do I deploy?", ["how-to"]),
        ("How are you?", []),
        ("deploy the staking contract", ["task"]),
        ("umbrella", ["task"]),
        ("爱丽丝在哪里", ["task"]),
        ("Спасибо за отчёт", ["task"]),
        ("THANK YOU!!!", []),
        ("thanks a million", ["task"]),
        ("thanks for the report", ["task"]),
        ("thanks buddy", []),
        ("Gracias, guapa", ["task"]),
        ("gracias guapa", []),
        ("okie dokie", []),
        ("uhm ok", []),
        ("ok je vois", []),
        ("va bene", []),
        ("thx a bunch", []),
        ("that helps, thanks", []),
        ("super, vielen lieben dank!", []),
        ("das ist lieb von dir", []),
        ("pas de souci", []),
        ("你好吗", []),
        ("太好了", []),
        ("gotcha, and the keys?", ["task"]),
        ("sweet potato", ["task"]),
        ("Roger", ["task"]),
        ("mi tío", ["task"]),
        ("sehr gut, der Zahnarzt am Montag", ["task"]),
        ("早餐", ["task"]),
        ("boa noite", []),
        ("kkkkkkk", []),
        ("hahahaha stark", []),
        ("heyyyy", []),
        ("noooo waaay", []),
        ("yesss", []),
        ("no it is not", []),
        ("hey who am I?", ["task"]),
        ("yes, but which one?", ["task"]),
        ("ok wer war das?", ["task"]),
        ("is that right?", ["task"]),
        ("no it was tuesday", ["task"]),
        ("alles gut mit der Wohnung?", ["task"]),
        ("hey when is the exam", ["task"]),
        ("yes, my sister", ["task"]),
        ("ok invoice", ["task"]),
        ("thanks, deploy it", ["task"]),
        ("danke Miete?", ["task"]),
        ("hello 42", ["task"]),
        ("谢谢你告诉我密码", ["task"]),
        ("bye \u202eroot", []),
        ("mama", ["task"]),
        ("bonbon", ["task"]),
        ("good night hotel in Porto", ["task"]),
        ("hi " * 39 + "vault", ["task"]),
        ("ok 👍", []),
        ("  \n\t ", []),
        ("", []),
        ("Wie geht das?", ["how-to"]),
        ("Comment puis-je payer ?", ["how-to"]),
        ("¿Recuerdas el nombre?", ["past"]),
        ("```\nlet's decide\n```", []),
        ("> should we do it?\nthanks", []),
    ],
)
async def test_a_message_shows_its_patterns(
    scratch: asyncpg.Connection, message: str, patterns: list[str]
) -> None:
    assert await scratch.fetchval(SHOWN, message) == patterns


async def test_each_pattern_says_what_is_searched(scratch: asyncpg.Connection) -> None:
    found = await scratch.fetch("select * from classify_message('Should we go? And how do I?')")
    assert [tuple(row) for row in found] == [
        ("decision", "core", ["principle"], "should we"),
        ("decision", "learning", ["decision"], "should we"),
        ("how-to", "core", ["procedure"], "how do"),
    ]
    past = await one_row(scratch, "select tier, categories from classify_message('last time we sailed')")
    assert tuple(past) == ("learning", None)


@pytest.mark.parametrize("half", ["tuned_on", "held_out"])
async def test_the_labelled_messages_are_told_apart(scratch: asyncpg.Connection, half: str) -> None:
    """All but the names, which the benchmark tries too: they need a world."""
    right = said = there = 0
    for message in LABELLED[half]:
        wanted = set(message["patterns"]) - {"names", "task"}
        found = set(await scratch.fetchval(SHOWN, message["message"])) - {"names", "task"}
        right, said, there = right + len(wanted & found), said + len(found), there + len(wanted)
    assert right / said >= 0.95
    assert right / there >= 0.95


@pytest.mark.parametrize(
    "message",
    [
        "x" * 5_000_000,
        "should we " * 300_000,
        "(" * 100_000,
        "let's " * 50_000,
        "no , " * 100_000,
        "\\1 [a-z]* $$ \x01",
    ],
)
async def test_any_text_is_a_message(scratch: asyncpg.Connection, message: str) -> None:
    assert await scratch.fetchval(SHOWN, message) is not None


async def test_names_come_from_the_data(scratch: asyncpg.Connection) -> None:
    said = "select names from memoryd.patterns_of($1, 'alice', null)"
    asked = "ask saber, Marisol and Brightwell's people at Hetzner about the investing project"
    assert await scratch.fetchval(said, asked) == []
    await scratch.execute("insert into agents (agent_id) values ('saber'), ('alice')")
    await insert(
        scratch, "conversation_messages",
        {"session_id": ANN, "role": "user", "speaker": "Marisol", "content": "hi", "agent_id": "alice"},
    )  # fmt: skip
    for title, tier, category in (
        ("Brightwell", "core", "client"),
        ("Investing project: positions", "working", "project"),
        ("People", "learning", "insight"),
    ):
        await know(scratch, title, "x", tier=tier, category=category)
    for text in ("We pay Hetzner by card", "The servers at Hetzner are old"):
        await remember(scratch, text)
    await index_world(scratch)
    assert await scratch.fetchval(said, asked) == [
        "brightwell", "hetzner", "investing", "investing project", "marisol", "saber",
    ]  # fmt: skip
    # The agent itself is not another.
    assert await scratch.fetchval(said, "alice, deploy it") == []
    assert await scratch.fetchval(said, "Thanks, Marisol!") == ["marisol"]
    assert (
        await scratch.fetchval("select patterns from memoryd.patterns_of('Thanks, Marisol!', 'alice', null)")
        == []
    )


@pytest.mark.parametrize(
    ("title", "content", "message", "name"),
    [
        ("Deploying Falkenhorst", "Falkenhorst is deployed from the tag", "how is Falkenhorst doing?", "falkenhorst"),
        ("Deploying Falkenhorst", "Falkenhorst is deployed from the tag", "how is falkenhorst doing?", "falkenhorst"),
        ("Falkenhorst", "We ask Falkenhorst before each release.", "Falkenhorst's state?", "falkenhorst"),
        ("How we deploy Falkenhorst on Fridays, and what to check before that", "Tag, wait.", "Falkenhorst?",
         "falkenhorst"),
        ("Deploying Blue Heron", "Blue Heron is deployed from the tag.", "is blue heron up?", "blue heron"),
        ("How Blue  Heron is shipped", "Tag it.", "Is Blue Heron up?", "blue heron"),
        ("How Foo** and Falkenhorst are built", "Tag it.", "foo** (falkenhorst) [x", "falkenhorst"),
        ("Releases", "Releases are made from the tag.", "are the releases out?", None),
        ("Deploy", "Deploy is done on Fridays.", "can you deploy it?", None),
        ("Release Process", "The release process takes a day.", "look at the release process", None),
        ("Deploying Payroll", "Payroll is deployed from the tag.", "is payroll done?", None),
        ("Always Rebase Branches", "Rebase your branch first.", "please rebase it", None),
        ("Speed is a feature", "Speed is what people feel.", "the speed of light", None),
        ("How the API is tested", "By hand.", "the api answers 500", None),
        ("When the Zorblax fails", "A zorblax fails often.", "a zorblax failed", None),
        ("Wie die Bremse funktioniert", "Die Bremse ist hart und laut.", "die Bremse quietscht", None),
        ("Ask before Friday", "We ship on Friday.", "it broke on Friday", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tier", ["core", "learning"])
async def test_a_name_in_a_title_is_known(
    scratch: asyncpg.Connection, tier: str, title: str, content: str, message: str, name: str | None
) -> None:
    entry = await know(scratch, title, content, tier=tier)
    found = await scratch.fetchval("select names from memoryd.patterns_of($1, 'alice', null)", message)
    assert found == ([name] if name else [])
    if name:
        assert await scratch.fetchval(SHOWN, message) == ["names"]
        shown = await scratch.fetch(
            "select id from explain_context('alice', $1) where step = 'found' and shown", message
        )
        assert [row["id"] for row in shown] == [entry]
        await scratch.execute("update shared_knowledge set status = 'archived' where id = $1", entry)
        assert await scratch.fetchval(SHOWN, message) != ["names"]


async def test_a_name_in_a_title_is_of_its_organisation(scratch: asyncpg.Connection) -> None:
    await know(scratch, "Deploying Falkenhorst", "Falkenhorst is old.", org_id=UUID(int=1))
    await know(scratch, "Shipping Zorblax", "Zorblax is old.", org_id=UUID(int=2))
    await scratch.execute("select set_config('memoryd.org_id', $1, true)", str(UUID(int=1)))
    said = "select names from memoryd.patterns_of('are falkenhorst and zorblax up?', 'alice', null)"
    assert await scratch.fetchval(said) == ["falkenhorst"]


async def test_a_user_learns_no_names_of_others(scratch: asyncpg.Connection) -> None:
    await scratch.execute("insert into agents (agent_id) values ('saber')")
    await know(scratch, "Brightwell", "x", tier="core", category="client")
    for user in (BOB, None):
        await insert(
            scratch, "conversation_messages",
            {"session_id": user or NOBODYS, "role": "user", "speaker": "Marisol", "content": "hi", "user_id": user,
             "agent_id": "alice"},
        )  # fmt: skip
        for n in range(3):
            await remember(scratch, f"the servers at Hetzner {n}", user_id=user)
    await index_world(scratch)
    asked = "tell saber, Marisol and Brightwell that Hetzner is down"
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval(SHOWN, asked) == ["task"]
        # Nor by naming their owner.
        for user in (BOB, ANN, None):
            assert (
                await scratch.fetchval("select names from memoryd.patterns_of($1, 'alice', $2)", asked, user)
                == []
            )
    async with acting_as(scratch, BOB):
        assert await scratch.fetchval("select names from memoryd.patterns_of($1, 'alice', $2)", asked, BOB) == [
            "hetzner", "marisol",
        ]  # fmt: skip


async def test_small_talk_searches_nothing_and_says_so(scratch: asyncpg.Connection) -> None:
    await remember(scratch, "thanks are due to the cook", kind="fact")
    assert await scratch.fetchval(BLOCK, "thanks!") == ""
    logged = await one_row(scratch, "select * from memory_queries")
    assert (logged["reason"], logged["patterns"], logged["retrieved_memory_ids"]) == ("small talk", [], [])
    assert "cook" in await scratch.fetchval(BLOCK, "whom are thanks due to?")
    logged = await one_row(scratch, "select * from memory_queries where reason is null")
    assert logged["patterns"] == ["task"]
    explained = await one_row(scratch, "select * from explain_context('alice', 'thanks!')")
    assert (explained["step"], explained["shown"], explained["detail"]) == ("skipped", False, "small talk")


async def test_a_question_about_a_name_or_a_day_is_no_small_talk(scratch: asyncpg.Connection) -> None:
    await know(scratch, "Zorblax", "Pays late.", category="client")
    for message, patterns in (
        ("Thanks. Zorblax?", ["names"]),
        ("ok and Zorblax?", ["names"]),
        ("Good morning! Zorblax today?", ["names"]),
        ("Thanks, Zorblax!", []),
        ("Zorblax, how are you?", []),
        ("How are you, Zorblax?", []),
        ("what's on today", ["task"]),
        ("what about tomorrow", ["task"]),
        ("how are you today", []),
        ("see you tomorrow", []),
    ):
        assert await scratch.fetchval(SHOWN, message) == patterns, message


async def test_a_users_small_talk_is_logged_as_theirs(scratch: asyncpg.Connection) -> None:
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval(BLOCK, "hello") == ""
        logged = await one_row(scratch, "select user_id, reason from memory_queries")
        assert tuple(logged) == (ANN, "small talk")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with scratch.transaction():
                await scratch.execute(
                    "insert into memory_queries (agent_id, user_id, knowledge_ids) values ('alice', $1, '{}')",
                    ANN,
                )


async def test_a_command_that_is_small_talk_gets_no_context(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await remember(connection, "thanks are due to the cook", kind="fact")
    await until(connection, IDLE)
    command = await ask(connection, "thanks!")
    await until(connection, READY, command)
    assert not await connection.fetchval("select context from agent_commands where id = $1", command)
    logged = await one_row(
        connection, "select reason, patterns from memory_queries where command_id = $1", command
    )
    assert tuple(logged) == ("small talk", [])


async def test_letters_that_repeat_take_no_time(connection: asyncpg.Connection) -> None:
    await connection.execute("set statement_timeout = '10s'")
    for message in ("abc" * 2000, "a" * 5000, "fix this sequence " + "acgt" * 1000):
        assert (
            await connection.fetchval("select memoryd.is_small_talk(memoryd.plain($1), '{}')", message)
            is False
        )
