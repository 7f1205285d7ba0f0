"""What an erasure leaves: no part of a word, no name of an agent that was the user's own; other users keep what is theirs."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.users import ERASE, found
from tests.support.content.index import index_rows
from tests.support.database.schemas import connected
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, column, insert, remember, say
from tests.support.waiting import BLOCKED, IDLE, READY, until

SECRET = "quokkazephyr"
AGENT = "quokkazephyrs helper"
WORDS = "select word from memoryd.lexicon order by word"

FRAGMENTS = (
    f"7{SECRET}",
    f"{SECRET}9and",
    f"é{SECRET}",
    f"{SECRET}ß",
    f"x_{SECRET}_y",
    f"{SECRET}@example.org",
    f"https://{SECRET}.org/{SECRET}/a?b={SECRET}#c",
    f"{SECRET}{SECRET}{SECRET}",
    f"<{SECRET}>&{SECRET};",
    f"-{SECRET}-{SECRET}",
    f"{SECRET}'s",
)


async def test_words_of_no_other_user_are_erased_in_all_their_parts_and_learnt_again_from_others(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    for text in (*FRAGMENTS, "the wombat digs a burrow"):
        await remember(connection, f"see {text} there", user_id=ANN)
        await ask(connection, f"call {text} back", user_id=ANN, status="completed", output=f"called {text}")
        await until(connection, IDLE)
        assert await column(connection, WORDS) != []
        await connection.execute(ERASE, ANN)
        assert await column(connection, WORDS) == [], text
        await until(connection, IDLE)
        assert await found(connection, SECRET) == {}, text
        assert await column(connection, WORDS) == [], text
    await remember(connection, "the wombat digs", user_id=BOB)
    await until(connection, IDLE)
    assert await column(connection, WORDS) == ["digs", "wombat"]
    # Those that others have stay.
    await remember(connection, "the wombat sleeps", user_id=ANN)
    await until(connection, IDLE)
    await connection.execute(ERASE, ANN)
    await until(connection, IDLE)
    assert await column(connection, WORDS) == ["digs", "wombat"]


async def test_an_agent_that_only_the_user_named_is_erased(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    await connection.execute("insert into agents (agent_id, identity) values ($1, $1)", AGENT)
    memory = await remember(connection, "the cat", agent_id=AGENT, user_id=ANN)
    await ask(connection, "feed the cat", agent_id=AGENT, user_id=ANN, status="completed", output="fed")
    talk = await insert(connection, "conversation_sessions", {"agent_id": AGENT, "user_id": ANN})
    for user, said in ((ANN, "hello"), (None, "hello to you")):
        await insert(connection, "conversation_messages",
                     {"session_id": talk, "agent_id": AGENT, "user_id": user, "role": "user", "content": said})  # fmt: skip
    anchor: dict[str, object] = {
        "memory_id": memory,
        "agent_id": AGENT,
        "category": "decision",
        "payload": "{}",
        "content_hash": b"one",
    }
    await insert(connection, "memory_anchors", anchor)
    await insert(connection, "memory_anchors", anchor | {"content_hash": b"two", "previous_hash": b"one"})
    await until(connection, IDLE)
    where = await found(connection, SECRET)
    assert {"agents.identity", "memory_anchors.agent_id", "memoryd.lanes.lane"} <= set(where)
    await connection.execute(ERASE, ANN)
    await until(connection, IDLE)
    assert await found(connection, SECRET) == {}
    anchors = await connection.fetch(
        "select agent_id, content_hash, previous_hash from memory_anchors order by content_hash"
    )
    assert len({a["agent_id"] for a in anchors}) == 1
    # A hash that the writer gave goes with what else the row said: nothing protects it any more.
    assert [(a["content_hash"], a["previous_hash"]) for a in anchors] == [(b"one", None), (b"two", None)]
    # Who comes back under that name is served.
    again = await ask(connection, "feed the dog", agent_id=AGENT, user_id=BOB)
    await until(connection, READY, again)


async def test_an_anchor_that_is_written_during_the_erasure_is_renamed_and_emptied_or_neither(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    written = "insert into memory_anchors (agent_id, category, payload) values ($1, 'decision', '{\"a\": 1}') returning id"
    await connection.execute("insert into agents (agent_id) values ($1)", AGENT)
    await remember(connection, "the cat", agent_id=AGENT, user_id=ANN)
    async with connected(database_url) as erasing, connected(database_url) as third:
        async with third.transaction():
            async with second.transaction():
                await second.execute("select from agents for update")
                erasure = asyncio.create_task(erasing.execute(ERASE, ANN))
                await until(connection, BLOCKED)
                first = await connection.fetchval(written, AGENT)
                await third.execute("select from memoryd.trail_leaves where anchor_id = $1 for update", first)
            await until(connection, BLOCKED)
            # The first one is being emptied now.
            await connection.execute(written, AGENT)
        await erasure
    states = await connection.fetch(
        "select agent_id like 'erased %' as renamed, payload = '{\"erased\": true}' as emptied from memory_anchors "
        "order by created_at nulls first"
    )
    assert all(one["renamed"] == one["emptied"] for one in states), states
    assert states[0]["emptied"]


@pytest.mark.parametrize("owner", [BOB, None])
@pytest.mark.parametrize(
    "table", ["agent_memory", "agent_commands", "memory_queries", "conversation_sessions"]
)
async def test_an_agent_that_others_named_stays(
    connection: asyncpg.Connection, table: str, owner: object
) -> None:
    await connection.execute("insert into agents (agent_id, identity) values ('alice', 'a sailor')")
    await remember(connection, "the cat", user_id=ANN)
    text = {"agent_memory": "content", "agent_commands": "message"}.get(table)
    more: dict[str, object] = {} if text is None else {text: "x"}
    await insert(connection, table, {"agent_id": "alice", "user_id": owner} | more)
    await connection.execute(ERASE, ANN)
    assert await column(connection, "select identity from agents") == ["a sailor"]


async def test_a_user_takes_no_registered_agent_along_by_naming_it(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "insert into agents (agent_id, identity, enabled) values ('desk', 'the front desk', true), "
        "('gone', 'misbehaved', false)"
    )
    # Named for somebody whose rows are gone by now, and for two at once.
    first = await remember(connection, "the cat", agent_id="bobs", user_id=BOB)
    await connection.execute(
        "insert into agent_memory (agent_id, user_id, content) values ('both', $1, 'x'), ('both', $2, 'y')",
        ANN,
        BOB,
    )
    await connection.execute("delete from agent_memory where id = $1 or user_id = $2", first, BOB)
    await remember(connection, "hers", agent_id="anns", user_id=ANN)
    agents = "select * from agents where agent_id <> 'anns' order by agent_id"
    before = await connection.fetch(agents)
    assert len(before) == 4
    async with acting_as(connection, ANN):
        for agent in ("desk", "gone", "bobs", "both"):
            named: dict[str, object] = {"agent_id": agent, "user_id": ANN}
            for table in ("memory_queries", "conversation_sessions", "agent_sessions"):
                await insert(connection, table, named)
            await remember(connection, "I name it", **named)
        await connection.execute(ERASE, ANN)
    assert await connection.fetch(agents) == before
    assert (
        await column(connection, "select agent_id from agents where agent_id = 'anns' or named_for = $1", ANN)
        == []
    )


LANED = "select topic, lane, token from memoryd.lanes where topic <> 'lock' order by 1, 2"


async def test_a_user_reaches_no_lane_of_others_by_naming_agents_like_it(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """Neither its lease, nor its fencing token, nor its dead letters; nor stops it by an erasure that is left open."""
    theirs = await remember(connection, "the cat", agent_id="helpdesk", user_id=BOB)
    alone = await remember(connection, "the dog", agent_id="helpdesk")
    await ask(connection, "feed it", agent_id="helpdesk", user_id=BOB, status="completed", output="fed")
    said = await say(connection, uuid4(), "I live in Oslo", user_id=BOB)
    await connection.execute(
        "select memoryd.queue_in_lanes('facts', array[memoryd.associate_lane('facts', $1)], array[$2::uuid])",
        BOB,
        said,
    )
    await connection.execute(
        "select memoryd.queue_in_lanes('associate', array_agg(memoryd.associate_lane(agent_id, user_id)), array_agg(id)) "
        "from agent_memory where id = any($1)",
        [theirs, alone],
    )
    await connection.execute(
        "insert into memoryd.jobs (topic, lane) values ('statistics', 'lexemes'), ('lexicon', 'words'), ('reembed', 'build')"
    )
    topics = ["associate", "capture", "facts", "statistics", "lexicon", "reembed"]
    for topic in topics:
        await connection.execute("select memoryd.claim_lanes($1, 8, 8, '1 hour')", topic)
    await connection.execute(
        "insert into memoryd.dead_letters (id, topic, lane, attempts, error, created_at) "
        "select row_number() over (), topic, lane, 1, 'x', now() from memoryd.lanes where topic <> 'lock'"
    )
    before = await connection.fetch(LANED)
    assert {lane["topic"] for lane in before} == set(topics)
    hashed = sha256(BOB.bytes).hexdigest()[:16]
    names = {str(lane["lane"]) for lane in before} | {
        f"facts {hashed}",
        f"helpdesk {hashed}",
        f"{hashed} facts",
        "- x",
    }
    async with second.transaction():
        async with acting_as(second, ANN):
            for name in names - {"helpdesk"}:
                await insert(second, "memory_queries", {"agent_id": name, "user_id": ANN})
            await second.execute(ERASE, ANN)
        free = await connection.fetch(
            "select topic, lane, token from (select * from memoryd.lanes where topic <> 'lock' for update skip locked) l "
            "order by 1, 2"
        )
        assert free == before
    assert await connection.fetch(LANED) == before
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == len(before)
    await connection.execute(ERASE, BOB)
    left = {str(lane["lane"]) for lane in await connection.fetch(LANED)}
    assert left == {"- helpdesk", "helpdesk", "lexemes", "words", "build"}


async def test_an_erasure_keeps_disabled_agents_disabled(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    await connection.execute(
        "insert into agents (agent_id, identity, enabled) values ('alice', 'hers', false)"
    )
    await remember(connection, "the cat", user_id=ANN)
    await connection.execute(ERASE, ANN)
    asked = await ask(connection, "feed the cat", user_id=ANN)
    await until(connection, "select status = 'cancelled' from agent_commands where id = $1", asked)
    assert await column(connection, "select identity from agents") == [None]


async def test_an_agent_erased_meanwhile_is_registered_again(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    """Its row was there when the command came, and gone when the command was looked at."""
    asked = await ask(connection, "feed the cat", user_id=BOB)
    await connection.execute("delete from agents")
    await daemons.start()
    await until(connection, READY, asked)
    assert await column(connection, "select agent_id from agents") == ["alice"]


async def test_words_of_rows_inserted_and_deleted_between_two_counts_are_erased(
    connection: asyncpg.Connection,
) -> None:
    """Their sums are nothing, and no count ever included them."""
    rows = [await remember(connection, f"wombat w{chr(97 + n)}zq") for n in range(20)]
    assert len(await index_rows(connection, "memory")) == 20
    words = ["wombat", *(f"w{chr(97 + n)}zq" for n in range(20))]
    await connection.execute(
        "select memoryd.learn_words($1, $2, array(select scope from agent_memory where id = any($2)))",
        words,
        rows,
    )
    assert len(await column(connection, WORDS)) == 21
    await connection.execute("delete from agent_memory where id <> $1", rows[0])
    await connection.execute("select memoryd.fold_lexeme_changes()")
    assert await column(connection, WORDS) == ["wazq", "wombat"]
    await connection.execute("delete from agent_memory")
    await connection.execute("select memoryd.fold_lexeme_changes()")
    assert await column(connection, WORDS) == []


@pytest.mark.parametrize("change", ["delete from agent_memory", "update agent_memory set content = 'now'"])
async def test_outdated_content_in_answers_to_others_is_erased(
    connection: asyncpg.Connection, change: str
) -> None:
    mine, others = (
        await remember(connection, SECRET, user_id=ANN),
        await remember(connection, "kept", user_id=BOB),
    )
    result = [{"id": str(mine), "content": SECRET}, {"id": str(others), "content": "kept"}]
    await insert(
        connection,
        "memory_requests",
        {"kind": "recall", "query": "q", "status": "done", "result": json.dumps(result)},
    )
    await connection.execute(f"{change} where id = $1", mine)
    await connection.execute(ERASE, ANN)
    left = json.loads(await connection.fetchval("select result from memory_requests"))
    assert left == [{"id": str(others), "content": "kept"}]


async def test_a_message_to_an_erased_user_is_removed_from_all_answers(
    connection: asyncpg.Connection,
) -> None:
    """Also where another user asked, and where the answer's elements are no objects."""
    shared = await insert(connection, "shared_knowledge", {"tier": "working", "category": "decision", "title": SECRET,
                                                           "content": SECRET, "created_by": str(ANN)})  # fmt: skip
    result = [7, {"id": str(shared), "content": SECRET}, {"id": "x", "content": "kept"}, None]
    request = await insert(connection, "memory_requests", {"kind": "recall", "user_id": BOB, "query": "q", "status": "done",
                                                           "result": json.dumps(result)})  # fmt: skip
    await connection.execute(ERASE, ANN)
    left = json.loads(await connection.fetchval("select result from memory_requests where id = $1", request))
    assert left == [7, {"id": "x", "content": "kept"}, None]
    assert await found(connection, SECRET) == {}
