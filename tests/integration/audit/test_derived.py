"""What came from one thing: over every way, for those alone who may see it; and forgotten whole or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from uuid import UUID, uuid4

import asyncpg
import pytest

from plugins.audit.derived import Kind, Lineage, derived
from plugins.audit.forget import ForgetError, forget
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.content.fact_chat import add, reply
from tests.support.database.schemas import connected
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, associate, column, conclude, insert, remember, say
from tests.support.services.openai_server import OpenAIServer
from tests.support.waiting import BLOCKED, IDLE, READY, until

FACTS = "select id from agent_memory where metadata ->> 'from' = 'conversation'"
QUOTE = "insert into memoryd.quotes (command_id, row_ids, hashes) values ($1, $2, $3)"


async def fact(connection: asyncpg.Connection, user: UUID, content: str, *messages: UUID) -> UUID:
    """A fact as memoryd writes it, said in these messages."""
    said = {
        "from": "conversation",
        "message_ids": [str(m) for m in messages],
        "slot": "home",
        "value": content,
    }
    memory = await remember(
        connection, content, user_id=user, kind="fact", source="conversation", metadata=json.dumps(said)
    )
    await connection.executemany(
        "insert into memoryd.fact_sources values ($1, $2, now())", [(message, memory) for message in messages]
    )
    return memory


async def shown(connection: asyncpg.Connection, row: UUID, **columns: object) -> tuple[UUID, UUID]:
    """A command whose context shows a row, and its outcome."""
    command = await ask(connection, "do it", status="completed", output="done", **columns)
    await connection.execute(QUOTE, command, [row], [1])
    outcome = await remember(
        connection, "Task: do it → completed", kind="outcome", command_id=command, **columns
    )
    return command, outcome


def ids(lineage: Lineage, *, certain: bool = True) -> list[tuple[str, UUID, int]]:
    """Its rows, by steps."""
    return [
        (r.kind, r.id, r.steps) for r in sorted(lineage.rows, key=lambda r: r.steps) if r.certain == certain
    ]


async def test_over_all_steps_and_what_may_be_influenced_apart(connection: asyncpg.Connection) -> None:
    session = uuid4()
    message = await say(connection, session, "I live in Lyon", user_id=ANN)
    home = await fact(connection, ANN, "The user lives in Lyon.", message)
    await remember(connection, "The user likes tea", user_id=ANN)
    insight = await conclude(connection, "All live in Lyon", 0.6, source_memories=[home], user_id=ANN)
    command, outcome = await shown(connection, insight)
    later, last = await shown(connection, outcome)
    lineage = await derived(connection, Kind.MESSAGE, message)
    assert ids(lineage) == [("memory", home, 1), ("insight", insight, 2), ("context", command, 3)]
    assert ids(lineage, certain=False) == [("memory", outcome, 4), ("context", later, 5), ("memory", last, 6)]
    conversation = await derived(connection, Kind.CONVERSATION, session)
    assert ids(conversation)[:2] == [("message", message, 1), ("memory", home, 2)]
    user = await derived(connection, Kind.USER, ANN)
    assert {r.kind for r in user.rows} == {"message", "memory", "insight", "context"}


async def test_a_daemon_records_what_lineage_needs(connection: asyncpg.Connection, daemons: Daemons) -> None:
    with OpenAIServer() as server:
        server.chat = lambda _: reply(add=[add("The user lives in Lyon.", "m1")])
        await daemons.start(language_model="openai/any", openai_base_url=server.base_url)
        message = await say(connection, uuid4(), "I live in Lyon", user_id=ANN, agent_id="alice")
        await connection.execute("select memoryd.queue_stretches(16, '0 seconds')")
        await until(connection, IDLE)
    [home] = await column(connection, FACTS)
    command = await ask(connection, "Where does the user live, in Lyon?", user_id=ANN)
    await until(connection, READY, command)
    lineage = await derived(connection, Kind.MESSAGE, message)
    assert ("memory", home, 1) in ids(lineage)
    assert ("context", command) in {(r.kind, r.id) for r in lineage.rows}
    assert "Lyon" in await connection.fetchval("select context from agent_commands where id = $1", command)
    await forget(connection, Kind.MESSAGE, message)
    # At once, without a daemon.
    assert "Lyon" not in await connection.fetchval(
        "select context from agent_commands where id = $1", command
    )


async def test_a_document_knowledge_and_an_agent(connection: asyncpg.Connection) -> None:
    document = await insert(connection, "documents", {"title": "poison", "content": None, "user_id": ANN})
    chunk = await insert(
        connection, "memory_chunks", {"document_id": document, "chunk_index": 0, "chunk_text": "poison"}
    )
    command, outcome = await shown(connection, chunk, agent_id="bob")
    lineage = await derived(connection, Kind.DOCUMENT, document)
    assert ids(lineage) == [("chunk", chunk, 1), ("context", command, 2)]
    assert ids(lineage, certain=False) == [("memory", outcome, 3)]
    assert dict(await forget(connection, Kind.DOCUMENT, document, influenced=True)) == {
        "document": 1,
        "memory": 1,
    }
    assert await column(connection, "select id from memory_chunks") == []

    known: dict[str, object] = {
        "tier": "working",
        "category": "project",
        "title": "Apollo",
        "content": "goes to the moon",
        "created_by": "mole",
    }
    one = await insert(connection, "shared_knowledge", known)
    two = await insert(
        connection,
        "shared_knowledge",
        known | {"content": "is late", "created_by": "ada", "related_ids": [one]},
    )
    memory = await remember(connection, "The moon is far", agent_id="mole")
    agent = await derived(connection, Kind.AGENT, "mole")
    assert {i for _, i, _ in ids(agent)} == {one, memory}
    assert ids(agent, certain=False) == [("knowledge", two, 2)]
    assert dict(await forget(connection, Kind.AGENT, "mole")) == {"knowledge": 1, "memory": 1}
    assert await column(connection, "select id from shared_knowledge") == [two]


async def test_another_users_rows_are_as_if_they_were_not_there(connection: asyncpg.Connection) -> None:
    group = await insert(connection, "chat_groups", {"platform": "slack"})
    for user in (ANN, BOB):
        await insert(connection, "chat_group_members", {"chat_id": group, "user_id": user})
    talk = uuid4()
    message = await say(connection, talk, "I live in Lyon", user_id=BOB, chat_id=group)
    home = await fact(connection, BOB, "The user lives in Lyon.", message)
    # A memory of Ann's that claims to come from it; and one command of each whose context shows the fact.
    mine = await remember(
        connection,
        "mine",
        user_id=ANN,
        metadata=json.dumps({"from": "conversation", "message_ids": [str(message)]}),
    )
    theirs, _ = await shown(connection, home, user_id=BOB)
    own, outcome = await shown(connection, mine, user_id=ANN)
    insight = await conclude(connection, "All live in Lyon", 0.6, source_memories=[home], user_id=BOB)
    async with acting_as(connection, ANN):
        for kind, what in (
            (Kind.MEMORY, home), (Kind.INSIGHT, insight), (Kind.COMMAND, theirs), (Kind.USER, BOB), (Kind.MEMORY, uuid4()),
        ):  # fmt: skip
            lineage = await derived(connection, kind, what)
            assert lineage.rows == [], kind
        lineage = await derived(connection, Kind.CONVERSATION, talk)
        assert (lineage.there, lineage.rows) == (True, [])
        lineage = await derived(connection, Kind.MESSAGE, message)
        assert not lineage.there
        assert ids(lineage) == [("memory", mine, 1), ("context", own, 2)]
        assert ids(lineage, certain=False) == [("memory", outcome, 3)]
        assert dict(await forget(connection, Kind.MEMORY, home)) == {}
        assert dict(await forget(connection, Kind.MESSAGE, message, influenced=True)) == {"memory": 2}
    assert await connection.fetchval("select count(*) from agent_memory where user_id = $1", BOB) == 2
    assert await column(connection, "select id from dream_insights") == [insight]
    assert await column(connection, "select id from conversation_messages") == [message]
    async with acting_as(connection, BOB):
        assert dict(await forget(connection, Kind.MESSAGE, message)) == {"message": 1}
    # The fact goes with its message; what was concluded of it is overwritten, as an end user may not delete it.
    assert await column(connection, "select id from agent_memory where id = $1", home) == []
    assert await connection.fetchval("select stale from dream_insights where id = $1", insight)


async def test_a_circle_ends(connection: asyncpg.Connection) -> None:
    one = await remember(connection, "one")
    two = await remember(connection, "two")
    await associate(connection, one, two, 0.5)
    await associate(connection, two, one, 0.5)
    known: dict[str, object] = {"tier": "working", "category": "project", "created_by": "ada", "content": "x"}
    first = await insert(connection, "shared_knowledge", known | {"title": "first"})
    second = await insert(connection, "shared_knowledge", known | {"title": "second", "related_ids": [first]})
    await connection.execute(
        "update shared_knowledge set related_ids = array[$2::uuid] where id = $1", first, second
    )
    # The outcome of a command is shown to the command before.
    command, outcome = await shown(connection, one)
    await connection.execute("update memoryd.quotes set row_ids = array[$1::uuid, $2]", one, outcome)
    assert len((await derived(connection, Kind.MEMORY, one)).rows) == 4
    assert ids(await derived(connection, Kind.KNOWLEDGE, first), certain=False) == [("knowledge", second, 1)]
    assert ids(await derived(connection, Kind.COMMAND, command)) == [
        ("memory", outcome, 1),
        ("context", command, 2),
    ]


async def test_what_is_gone_leaves_what_came_from_it(connection: asyncpg.Connection) -> None:
    """A message that expired: its facts stay, and are found by its id."""
    gone = uuid4()
    home = await fact(connection, ANN, "The user lives in Lyon.", gone)
    lineage = await derived(connection, Kind.MESSAGE, gone)
    assert (lineage.there, ids(lineage)) == (False, [("memory", home, 1)])
    await connection.execute("select forget(array[$1::uuid])", home)
    assert dict(await forget(connection, Kind.MESSAGE, gone)) == {}


async def test_what_was_deleted_meanwhile_is_not_counted(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection
) -> None:
    poisoned = await remember(connection, "poison")
    other = await remember(connection, "other")
    insight = await conclude(connection, "so it is", 0.6, source_memories=[poisoned, other])
    deleting = second.transaction()
    await deleting.start()
    await second.execute("delete from dream_insights where id = $1", insight)
    forgetting = asyncio.create_task(forget(connection, Kind.MEMORY, poisoned))
    await until(third, BLOCKED)
    await deleting.commit()
    assert dict(await forgetting) == {"memory": 1}


async def test_two_at_once_forget_each_row_once(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    session = uuid4()
    messages = [await say(connection, session, f"I live in Town{n}", user_id=ANN) for n in range(20)]
    for n, message in enumerate(messages):
        await fact(connection, ANN, f"The user lives in Town{n}.", message)
    done = await asyncio.gather(*(forget(c, Kind.CONVERSATION, session) for c in (connection, second)))
    assert sum(counts.get("message", 0) for counts in done) == 20
    for table in ("agent_memory", "conversation_messages", "conversation_sessions"):
        assert await column(connection, f"select id from {table}") == []


async def test_killed_half_way_it_leaves_everything(
    database_url: str, connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    message = await say(connection, uuid4(), "I live in Lyon", user_id=ANN)
    home = await fact(connection, ANN, "The user lives in Lyon.", message)
    insight = await conclude(connection, "All live in Lyon", 0.6, source_memories=[home])
    before = await everything(connection)
    # It is held up at the insight, after the message and the fact are deleted; then its session ends.
    holding = second.transaction()
    await holding.start()
    await second.execute("select from dream_insights where id = $1 for update", insight)
    async with connected(database_url) as killed:
        forgetting = asyncio.create_task(forget(killed, Kind.MESSAGE, message))
        await until(connection, BLOCKED)
        await connection.execute("select pg_terminate_backend($1)", killed.get_server_pid())
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await forgetting
    await holding.rollback()
    assert await everything(connection) == before


async def everything(connection: asyncpg.Connection) -> list[Sequence[object]]:
    """The ids of what is there."""
    tables = ("agent_memory", "conversation_messages", "dream_insights", "conversation_sessions")
    return [await column(connection, f"select id from {table} order by id") for table in tables]


async def test_nothing_is_forgotten_where_it_could_miss_something(connection: asyncpg.Connection) -> None:
    memory = await remember(connection, "poison")
    async with connection.transaction(isolation="repeatable_read"):
        with pytest.raises(ForgetError, match="read committed"):
            await forget(connection, Kind.MEMORY, memory)
    with pytest.raises(ForgetError, match="memoryd erase"):
        await forget(connection, Kind.USER, ANN)


@pytest.mark.parametrize("length", [1, 5_000_000])
async def test_texts_and_metadata_of_any_shape(connection: asyncpg.Connection, length: int) -> None:
    message = await say(connection, uuid4(), "x" * length, user_id=ANN)
    shapes: tuple[object, ...] = (
        [],
        {},
        {"from": "conversation"},
        {"from": "conversation", "message_ids": "x"},
        {"from": "conversation", "message_ids": [None, 1, "\ufffd", {"a": 1}]},
    )
    for said in shapes:
        await remember(connection, "x" * length, user_id=ANN, metadata=json.dumps(said))
    assert (await derived(connection, Kind.MESSAGE, message)).rows == []
    assert len((await derived(connection, Kind.AGENT, "alice")).rows) == 5
    assert (await derived(connection, Kind.AGENT, "nobody ☃ ' --")).rows == []
