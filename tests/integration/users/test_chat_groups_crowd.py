"""Group chats of many members, while members come and go, with a daemon; and members who speak as others."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID, uuid4

import asyncpg

from tests.support.access.acting import ANN, BOB, DAN, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.refusals import refused
from tests.support.content.chat_groups import GARDEN, GARDENS, LINES, exact, found, join, leave, talk
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import column, insert, remember
from tests.support.waiting import ANSWERED, IDLE, until

CROWD = """
insert into chat_group_members (chat_id, user_id) select $1, md5('member ' || n)::uuid from generate_series(1, 1000) n;
"""
CROWD_SAYS = """
insert into conversation_messages (session_id, user_id, chat_id, role, content)
select $1, md5('member ' || n)::uuid, $1, 'user', 'member ' || n || ' saw lantern number ' || n from generate_series(1, 1000) n;
"""


async def test_a_thousand_members_find_what_one_of_them_said(connection: asyncpg.Connection) -> None:
    await insert(connection, "chat_groups", {"id": GARDEN, "platform": "telegram"})
    await connection.execute(CROWD, GARDEN)
    await connection.execute(CROWD_SAYS, GARDEN)
    await index_world(connection)
    await exact(connection)
    written = "select count(*) from memoryd.entries"
    assert await connection.fetchval(written) == 2000
    members = await column(
        connection, "select md5('member ' || n)::uuid from generate_series(1, 1000, 250) n"
    )
    asked = "select content from recall('Who saw lantern number 777?', match_count => 1)"
    for member in members:
        assert await found(connection, UUID(str(member)), asked) == ["member 777 saw lantern number 777"]
    assert await found(connection, ANN, asked) == []


async def test_who_comes_and_goes_while_others_recall_sees_all_or_nothing(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """What a recall brings is what one moment's membership allows: all messages of the group, or none."""
    said = await talk(connection)
    assert said
    done = asyncio.Event()

    async def come_and_go() -> None:
        for _ in range(40):
            await join(second, GARDEN, DAN)
            await leave(second, GARDEN, DAN)
        done.set()

    going = asyncio.create_task(come_and_go())
    seen: set[tuple[str, ...]] = set()
    while not done.is_set() or len(seen) < 1:
        seen.add(tuple(await found(connection, DAN)))
    await going
    alone, together = ("a stranger's lantern",), tuple(sorted(GARDENS | {"a stranger's lantern"}))
    assert seen <= {alone, together}
    assert await found(connection, DAN) == list(alone)


async def test_a_daemon_indexes_messages_for_the_members(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await talk(connection, indexed=False)
    await until(connection, IDLE)
    await exact(connection)
    assert await connection.fetchval("select count(*) from memoryd.unindexed") == 0
    request = {
        "kind": "recall",
        "user_id": BOB,
        "query": "lantern",
        "options": '{"sources": ["conversation"]}',
    }
    asked = await insert(connection, "memory_requests", request)
    await until(connection, ANSWERED, asked)
    answer = await connection.fetchval("select result from memory_requests where id = $1", asked)
    assert sorted(one["content"] for one in json.loads(answer)) == sorted(GARDENS)
    # The answer is a copy of what others said: an erasure takes it from there.
    await connection.execute("select erase_user_memory($1)", ANN)
    answer = await connection.fetchval("select result from memory_requests where id = $1", asked)
    assert sorted(one["content"] for one in json.loads(answer)) == sorted(GARDENS - {LINES["ann"][2]})
    await until(connection, IDLE)
    await exact(connection)


async def test_a_member_cannot_speak_as_somebody_else(connection: asyncpg.Connection) -> None:
    said = await talk(connection)
    async with acting_as(connection, BOB):
        for change in ("role = 'assistant'", "speaker = 'Ann'"):
            assert (
                await refused(
                    connection, f"update conversation_messages set {change} where id = $1", said["bob"]
                )
            )[0] == "42501"
        await connection.execute(
            "update conversation_messages set content = 'gone' where id = $1", said["bob"]
        )
    async with acting_as(connection, ANN):
        own = "update conversation_messages set speaker = 'Annie' where id = $1"
        assert await connection.execute(own, said["alone"]) == "UPDATE 1"


async def test_a_members_name_hides_no_rows_of_others(connection: asyncpg.Connection) -> None:
    await talk(connection)
    await remember(connection, "the lantern stands in the cellar", user_id=ANN)
    await connection.execute("update conversation_messages set speaker = 'Lantern' where user_id = $1", BOB)
    await index_world(connection)
    asked = "select content from recall('where does the lantern stand', sources => '{memory}')"
    assert await found(connection, ANN, asked) == ["the lantern stands in the cellar"]


async def test_a_busy_group_hides_no_row_of_ones_own(connection: asyncpg.Connection) -> None:
    """However the hash of the group's scope sorts beside that of the user's."""
    users = [uuid4() for _ in range(6)]
    await insert(connection, "chat_groups", {"id": GARDEN, "platform": "telegram", "group_name": "garden"})
    await join(connection, GARDEN, *users)
    for user in users:
        await remember(connection, "a lantern and a stove", user_id=user)
    await connection.execute(
        "insert into conversation_messages (session_id, chat_id, user_id, role, content) "
        "select $1, $1, $2, 'user', 'lantern and stove ' || n from generate_series(1, 700) n",
        GARDEN,
        BOB,
    )
    await index_world(connection)
    asked = "select content from recall('lantern stove', sources => '{memory}')"
    for user in users:
        assert await found(connection, user, asked) == ["a lantern and a stove"]
