"""Members of a group chat see its messages, in tables and by recall; nobody else does, and who leaves no longer does."""

from __future__ import annotations

import json
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, CAT, DAN, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.refusals import refused
from tests.support.content.chat_groups import (
    FOR_USER,
    GARDEN,
    GARDENS,
    KITCHEN,
    LINES,
    RECALL,
    exact,
    found,
    join,
    leave,
    snapshot,
    talk,
)
from tests.support.content.index import index_rows
from tests.support.database.schemas import connected
from tests.support.rows import column, embedding, insert, remember, say


@pytest.mark.parametrize("indexed", [True, False])
async def test_recall_brings_a_groups_lines_to_its_members(
    scratch: asyncpg.Connection, *, indexed: bool
) -> None:
    await talk(scratch, indexed=indexed)
    assert await found(scratch, ANN) == sorted(GARDENS | {"my own lantern"})
    assert await found(scratch, BOB) == sorted(GARDENS)
    assert await found(scratch, CAT) == sorted(GARDENS | {LINES["cook"][2]})
    assert await found(scratch, DAN) == ["a stranger's lantern"]
    assert await found(scratch, None) == []
    explained = "select content from explain_recall('lantern', match_count => 100)"
    assert await found(scratch, BOB, explained) == sorted(GARDENS)


async def test_who_serves_a_user_gets_what_the_user_would(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    for role in ("memoryd_service", "memoryd_admin"):
        for user in (ANN, BOB, CAT, DAN):
            async with acting_as(scratch, None, role=role):
                got = sorted(map(str, await column(scratch, FOR_USER, user)))
            assert got == await found(scratch, user), user
        async with acting_as(scratch, None, role=role):
            everything = sorted(map(str, await column(scratch, RECALL)))
        texts = {text for _, _, text in LINES.values()}
        assert everything == sorted(texts | {"my own lantern", "a stranger's lantern", "guard the lantern"})


@pytest.mark.parametrize("indexed", [True, False])
async def test_what_agents_say_in_a_group_is_not_for_others_who_ask_them(
    scratch: asyncpg.Connection, *, indexed: bool
) -> None:
    """Neither an agent's line, nor a system prompt, nor what names no agent; but for what is shared by level."""
    await talk(scratch, indexed=indexed)
    desk: dict[str, object] = {"chat_id": GARDEN, "agent_id": "desk"}
    secret = "the lantern opens with 4711"
    line = await say(scratch, GARDEN, secret, role="assistant", **desk)
    shared = await say(
        scratch, GARDEN, "lanterns are sold here", role="assistant", **desk | {"access_level": 1}
    )
    await say(scratch, GARDEN, "serve the lantern club", role="system", **desk)
    await say(scratch, uuid4(), "my lantern stock", role="assistant", agent_id="desk")
    own = sorted(["my lantern stock", "lanterns are sold here"])
    for_agent = "select content from recall('lantern', 'desk', match_count => 100)"
    around = "select content from recall('lantern', 'desk', match_count => 100, options => '{\"around\": 5}')"
    for _ in range(2 if indexed else 1):
        async with acting_as(scratch, None, role="memoryd_service"):
            assert sorted(map(str, await column(scratch, for_agent))) == own
            assert secret not in str(await column(scratch, around))
            assert "4711" not in await scratch.fetchval("select build_context('desk', 'lantern code')")
            everything = await column(scratch, RECALL)
            assert {secret, "serve the lantern club"} <= set(map(str, everything))
        assert await found(scratch, BOB) == sorted([*GARDENS, secret, "lanterns are sold here"])
        if indexed:
            await index_world(scratch)
            await exact(scratch)
    # Out of the group it is the agent's own, and in it again the group's.
    for chat, heard in ((None, True), (GARDEN, False)):
        await scratch.execute("update conversation_messages set chat_id = $2 where id = $1", line, chat)
        async with acting_as(scratch, None, role="memoryd_service"):
            assert (secret in await column(scratch, for_agent)) is heard
    await scratch.execute("delete from conversation_messages where id = any($1)", [line, shared])
    assert await column(scratch, "select 1 from memoryd.entries where id = any($1)", [line, shared]) == []
    assert await column(scratch, "select 1 from memoryd.unindexed where id = any($1)", [line, shared]) == []


async def test_members_read_the_groups_rows(scratch: asyncpg.Connection) -> None:
    said = await talk(scratch)
    gardens = {said[who] for who in ("ann", "bob", "agent")}
    for user, messages, chats in (
        (ANN, gardens | {said["alone"]}, {GARDEN}),
        (BOB, gardens, {GARDEN}),
        (CAT, gardens | {said["cook"]}, {GARDEN, KITCHEN}),
        (DAN, {said["stranger"]}, set()),
        (None, set(), set()),
    ):
        async with acting_as(scratch, user):
            assert set(await column(scratch, "select id from conversation_messages")) == messages
            assert set(await column(scratch, "select id from conversation_history")) == messages
            assert set(await column(scratch, "select id from chat_groups")) == chats
            sessions = "select id from conversation_sessions where chat_id is not null"
            assert set(await column(scratch, sessions)) == chats
            assert set(await column(scratch, "select chat_id from chat_group_members")) == chats
            context = await column(scratch, "select content from load_context($1)", GARDEN)
            assert set(context) == (GARDENS if GARDEN in chats else set())


async def test_a_member_writes_nothing_of_others(scratch: asyncpg.Connection) -> None:
    said = await talk(scratch)
    async with acting_as(scratch, ANN):
        change = "update conversation_messages set content = 'poison' where id = $1"
        assert await scratch.execute(change, said["ann"]) == "UPDATE 1"
        assert await scratch.execute(change, said["bob"]) == "UPDATE 0"
        assert await scratch.execute("update conversation_sessions set title = 'x'") == "UPDATE 1"
        assert await scratch.fetchval("select forget($1, 'message')", list(said.values())) == 2
        assert await scratch.fetchval("select forget(array[$1::uuid], 'session')", GARDEN) == 0
        for statement in (
            "insert into chat_group_members (chat_id, user_id) values ($1, memoryd.caller_id())",
            "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'x')",
            "update chat_group_members set chat_id = $1",
            "delete from chat_group_members where chat_id = $1",
        ):
            assert (await refused(scratch, statement, KITCHEN))[0] == "42501"
    kept = {LINES["bob"][2], LINES["agent"][2], "guard the lantern"}
    assert set(await column(scratch, "select content from conversation_messages")) >= kept


async def test_a_member_locks_nothing_of_others(connection: asyncpg.Connection, database_url: str) -> None:
    said = await talk(connection)
    async with connected(database_url) as owner:
        for strength in ("update", "no key update", "share", "key share"):
            async with acting_as(connection, ANN):
                lock = f"select id from conversation_messages where chat_id is not null for {strength}"
                assert await column(connection, lock) == [said["ann"]]
                for table in ("chat_groups", "chat_group_members"):
                    assert (await refused(connection, f"select id from {table} for {strength}"))[0] == "42501"
                free = "select id from conversation_messages where chat_id is not null for update skip locked"
                others = {said[who] for who in ("bob", "agent", "cook", "prompt")}
                assert set(await column(owner, free)) == others


async def test_who_leaves_sees_nothing_more_at_once(scratch: asyncpg.Connection) -> None:
    said = await talk(scratch)
    await leave(scratch, GARDEN, ANN)
    await leave(scratch, GARDEN, CAT)
    async with acting_as(scratch, ANN):
        seen = set(await column(scratch, "select id from conversation_messages"))
    assert seen == {said["ann"], said["alone"]}
    assert await found(scratch, ANN) == sorted(["my own lantern", LINES["ann"][2]])
    assert await found(scratch, CAT) == [LINES["cook"][2]]
    assert await found(scratch, BOB) == sorted(GARDENS)
    await join(scratch, GARDEN, CAT)
    assert await found(scratch, CAT) == sorted(GARDENS | {LINES["cook"][2]})


async def test_members_come_and_go_without_a_new_index(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    before = await snapshot(scratch)
    await leave(scratch, GARDEN, ANN)
    await join(scratch, GARDEN, DAN)
    assert await scratch.fetchval("select count(*) from memoryd.unindexed") == 0
    assert await snapshot(scratch) == before


async def test_a_message_that_moves_is_found_where_it_is(scratch: asyncpg.Connection) -> None:
    said = await talk(scratch)
    await scratch.execute("update conversation_messages set chat_id = $2 where id = $1", said["bob"], KITCHEN)
    await scratch.execute(
        "update conversation_messages set chat_id = $2 where id = $1", said["alone"], GARDEN
    )
    await scratch.execute("update conversation_messages set role = 'assistant' where id = $1", said["prompt"])
    await scratch.execute("update conversation_messages set role = 'system' where id = $1", said["agent"])
    await exact(scratch)
    gardens = [LINES["ann"][2], "my own lantern", "guard the lantern"]
    assert await found(scratch, ANN) == sorted(gardens)
    assert await found(scratch, BOB) == sorted([*gardens, LINES["bob"][2]])
    assert await found(scratch, CAT) == sorted([*gardens, LINES["bob"][2], LINES["cook"][2]])
    await scratch.execute("delete from chat_groups where id = $1", GARDEN)
    await exact(scratch)
    assert await column(scratch, "select user_id from chat_group_members") == [CAT]
    assert await found(scratch, ANN) == sorted([LINES["ann"][2], "my own lantern"])
    assert await found(scratch, CAT) == sorted([LINES["bob"][2], LINES["cook"][2]])


async def test_changed_words_are_found_by_the_members(scratch: asyncpg.Connection) -> None:
    said = await talk(scratch)
    change = "update conversation_messages set content = 'the hedgehog sleeps' where id = $1"
    await scratch.execute(change, said["bob"])
    hedgehog = "select content from recall('hedgehog lantern candle', match_count => 100)"
    rest = sorted([*(GARDENS - {LINES["bob"][2]}), "the hedgehog sleeps", "my own lantern"])
    assert await found(scratch, ANN, hedgehog) == rest
    await index_rows(scratch, "conversation", [said["bob"]], embedding=embedding(1.0))
    assert await snapshot(scratch)
    assert await found(scratch, ANN, hedgehog) == rest
    assert await found(scratch, DAN, hedgehog) == ["a stranger's lantern"]
    await scratch.execute("delete from conversation_messages where id = $1", said["bob"])
    assert await snapshot(scratch)
    assert await found(scratch, ANN, hedgehog) == sorted([*(GARDENS - {LINES["bob"][2]}), "my own lantern"])


async def test_in_the_project_of_one_group_no_other_group_is_searched(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    await say(
        scratch,
        uuid4(),
        "the lantern of the office",
        user_id=BOB,
        chat_id=GARDEN,
        metadata='{"project": "office"}',
    )
    await index_world(scratch)
    office = {"the lantern of the office"}
    for project, lines in (
        (str(GARDEN), GARDENS),
        (str(GARDEN).upper(), GARDENS),
        (str(KITCHEN), set()),
        (str(uuid4()), set()),
        ("office", GARDENS | office),
        ("garden", GARDENS),
        (None, GARDENS | office),
    ):
        inside = json.dumps({"project": project})
        there = f"select content from recall('lantern', match_count => 100, options => '{inside}')"
        own = {LINES["cook"][2]}
        assert await found(scratch, CAT, there if project else RECALL) == sorted(lines | own), project
        # Who knows the id of a group and is no member of it finds what there is without the group.
        assert await found(scratch, DAN, there if project else RECALL) == ["a stranger's lantern"], project


async def test_a_piece_of_a_group_shows_others_only_where_the_group_is_searched(
    scratch: asyncpg.Connection,
) -> None:
    """Not to who serves somebody who has left, nor in another group."""
    await talk(scratch)
    pieces = (
        "select content from recall('tulips', user_id => $1, match_count => 1, options => '{\"around\": 3}')"
    )
    here = f"select content from recall('tulips', user_id => '{ANN}', match_count => 1, options => $1::jsonb)"
    for role, user in (("memoryd_service", None), ("memoryd_admin", None), ("memoryd_user", ANN)):
        async with acting_as(scratch, user, role=role):
            assert "candle" in await scratch.fetchval(pieces, ANN), role
            for project, shown in ((KITCHEN, False), (GARDEN, True)):
                options = json.dumps({"around": 3, "project": str(project)})
                assert ("candle" in await scratch.fetchval(here, options)) is shown, role
    await leave(scratch, GARDEN, ANN)
    for role, user in (("memoryd_service", None), ("memoryd_admin", None), ("memoryd_user", ANN)):
        async with acting_as(scratch, user, role=role):
            found = await scratch.fetchval(pieces, ANN)
            assert "tulips" in found
            assert "candle" not in found, role


async def test_a_shared_line_of_a_group_is_found_once(scratch: asyncpg.Connection) -> None:
    said = await talk(scratch)
    await scratch.execute("update conversation_messages set access_level = 1 where id = $1", said["bob"])
    await insert(scratch, "user_memory_access", {"user_id": ANN, "access_level": 1})
    await insert(scratch, "user_memory_access", {"user_id": DAN, "access_level": 1})
    await exact(scratch)
    assert await found(scratch, ANN) == sorted(GARDENS | {"my own lantern"})
    assert await found(scratch, BOB) == sorted(GARDENS)
    assert await found(scratch, CAT) == sorted(GARDENS | {LINES["cook"][2]})
    assert await found(scratch, DAN) == sorted([LINES["bob"][2], "a stranger's lantern"])
    # Who serves a user gets what is shared with that user, and nothing of what is not.
    await scratch.execute("update conversation_messages set access_level = 2 where id = $1", said["cook"])
    for role in ("memoryd_service", "memoryd_admin"):
        for user in (ANN, BOB, CAT, DAN):
            async with acting_as(scratch, None, role=role):
                got = sorted(map(str, await column(scratch, FOR_USER, user)))
            assert got == await found(scratch, user), (role, user)
            assert got == await found(scratch, user, FOR_USER.replace("$1", f"'{user}'")), user
    pieces = (
        "select content from recall('lantern', user_id => $1, match_count => 9, options => '{\"around\": 5}')"
    )
    async with acting_as(scratch, None, role="memoryd_service"):
        assert LINES["ann"][2] not in str(await column(scratch, pieces, DAN))
        seen = (
            "select line from memoryd.gather_lines("
            "'alice', 'lantern', $1, true, null, '{task}', '{}', 2000, null, null, false)"
        )
        assert LINES["bob"][2] in str(await column(scratch, seen, DAN))
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", BOB)
    assert await found(scratch, DAN) == ["a stranger's lantern"]
    await scratch.execute("delete from memory_settings")
    await leave(scratch, GARDEN, BOB)
    assert await found(scratch, BOB) == [LINES["bob"][2]]


async def test_nothing_is_recalled_of_a_member_with_memory_off(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", BOB)
    assert await found(scratch, ANN) == sorted([*(GARDENS - {LINES["bob"][2]}), "my own lantern"])
    assert await found(scratch, BOB) == []
    async with acting_as(scratch, ANN):
        assert set(await column(scratch, "select content from load_context($1)", GARDEN)) == GARDENS
    await say(scratch, GARDEN, "one more lantern of Bob's", user_id=BOB, chat_id=GARDEN)
    await say(scratch, GARDEN, "one more lantern of Ann's", user_id=ANN, chat_id=GARDEN)
    await scratch.execute("update memory_settings set memory_enabled = true")
    assert await found(scratch, BOB) == sorted([*GARDENS, "one more lantern of Ann's"])


async def test_no_piece_shows_a_member_with_memory_off(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", BOB)
    pieces = (
        "select content from recall('tulips', user_id => $1, match_count => 1, options => '{\"around\": 3}')"
    )
    for role, user in (("memoryd_service", None), ("memoryd_admin", None), ("memoryd_user", ANN)):
        async with acting_as(scratch, user, role=role):
            piece = await scratch.fetchval(pieces, ANN)
            assert "I ordered candles" in piece, role
            assert "new candle" not in piece, role


async def test_a_members_own_retention_ends_their_lines_for_all(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    await scratch.execute("update conversation_messages set created_at = now() - interval '1 hour'")
    await scratch.execute(
        "insert into memory_settings (user_id, conversation_retention_minutes) values ($1, 10)", BOB
    )
    await scratch.execute("select memoryd.expire_conversations(null)")
    assert await found(scratch, ANN) == sorted([*(GARDENS - {LINES["bob"][2]}), "my own lantern"])


async def test_an_erasure_takes_a_members_lines_from_all(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    async with acting_as(scratch, BOB):
        await scratch.execute("select erase_user_memory(memoryd.caller_id())")
    await exact(scratch)
    assert await found(scratch, ANN) == sorted([*(GARDENS - {LINES["bob"][2]}), "my own lantern"])
    assert await column(scratch, "select user_id from chat_group_members where user_id = $1", BOB) == []
    assert await found(scratch, BOB) == []
    words = "select count(*) from memoryd.lexeme_statistics where lexeme = 'need'"
    assert await scratch.fetchval(words) == 0


async def test_an_export_says_of_which_groups_a_user_is_a_member(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    exported = "select export_user_memory($1) -> 'tables' ->> 'chat_group_members'"
    rows = await scratch.fetchval(exported, CAT)
    assert str(GARDEN) in rows
    assert str(KITCHEN) in rows
    assert str(ANN) not in rows
    await scratch.execute("select erase_user_memory($1)", CAT)
    await scratch.execute("delete from chat_groups where id = $1", KITCHEN)
    back = "select memoryd.import_rows($1, $2, 'chat_group_members', $3)"
    assert await scratch.fetchval(back, CAT, CAT, rows) == 1
    assert await scratch.fetchval(back, CAT, CAT, rows) == 0
    assert await found(scratch, CAT) == sorted(GARDENS)


async def test_memories_of_members_stay_their_own(scratch: asyncpg.Connection) -> None:
    await talk(scratch)
    await remember(scratch, "the lantern was my mother's", user_id=BOB)
    await index_world(scratch)
    assert await found(scratch, ANN) == sorted(GARDENS | {"my own lantern"})
    async with acting_as(scratch, ANN):
        block = await scratch.fetchval("select build_context('alice', 'lantern')")
    assert "the lantern needs a new candle" in block
    assert "my mother's" not in block


# --- Many members, many messages, many at once.
