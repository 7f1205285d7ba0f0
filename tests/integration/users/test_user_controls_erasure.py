"""Erasure: nothing of a user is left, in any column of any table, whatever daemons were doing; all other rows stay."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.users import ERASE, found, kept_of, whole_user
from tests.support.content.index import INDEXED
from tests.support.database.schemas import NO_TRIGGERS
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import ask, column, insert, one_row, remember
from tests.support.services.openai_server import HANG
from tests.support.services.remote import Remote
from tests.support.waiting import ANSWERED, BLOCKED, IDLE, READY, awaited, until

SECRET = "quokkazephyr"
SLEEPING = """
select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep')
"""


async def erase(connection: asyncpg.Connection, user: UUID) -> dict[str, Any]:
    """Erases as the service; the counts."""
    counts: dict[str, Any] = json.loads(await connection.fetchval(ERASE, user))
    return counts


async def live_a_life(connection: asyncpg.Connection, user: UUID, word: str) -> None:
    """What a running daemon makes of a user's commands, messages and requests."""
    for n in range(4):
        said = f"deploy {word} to staging, take {n}"
        command = await ask(connection, said, user_id=user, metadata=json.dumps({"why": word}))
        await until(connection, READY, command)
        await connection.execute("select claim_command('alice')")
        await connection.execute("select complete_command($1, $2, 1)", command, f"disk full for {word}")
    await connection.execute(
        "insert into conversation_messages (session_id, user_id, role, speaker, content) "
        "select $1, $2, 'user', $3, $3 || ' said so ' || n from generate_series(1, 5) n", uuid4(), user, word,
    )  # fmt: skip
    for kind in ("recall", "context"):
        request: dict[str, object] = {
            "kind": kind,
            "user_id": user,
            "agent_id": "alice",
            "query": f"what about {word}?",
        }
        await until(connection, ANSWERED, await insert(connection, "memory_requests", request))
    await until(connection, IDLE)
    dream = await insert(connection, "memory_requests", {"kind": "dream"})
    await until(connection, ANSWERED, dream)
    await until(connection, IDLE)


async def test_one_row_in_any_table_of_users_is_enough_to_know_somebody(scratch: asyncpg.Connection) -> None:
    """Of an account that is deleted: then it is erased. Links and anchors go with memories and leaves."""
    await whole_user(scratch, ANN, "wombat")
    known = "select memoryd.known_users($1)"
    gone = "memory_associations", "memory_anchors"
    tables = await column(
        scratch, "select name from memoryd.user_tables() where name <> all ($1)", list(gone)
    )
    await scratch.execute(NO_TRIGGERS)
    for table in tables:
        await scratch.execute("savepoint all_of_them")
        for other in ("memoryd.trail_leaves", *gone, *(t for t in tables if t != table)):
            await scratch.execute(f"delete from {other}")
        assert await column(scratch, known, [ANN, BOB]) == [ANN], table
        await scratch.execute(f"delete from {table}")
        assert await column(scratch, known, [ANN, BOB]) == []
        await scratch.execute("rollback to all_of_them")


async def test_an_erasure_leaves_nothing_of_the_user_and_everything_of_others(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    theirs = await whole_user(connection, BOB, "wombat")
    ids = await whole_user(connection, ANN, SECRET)
    await live_a_life(connection, BOB, "wombat")
    await live_a_life(connection, ANN, SECRET)
    # Others' rows that point at theirs.
    query = await insert(connection, "memory_queries", {
        "agent_id": "bob", "retrieved_memory_ids": [theirs["agent_memory"], ids["agent_memory"], uuid4()],
        "relevance_scores": [0.9, 0.8, 0.7]})  # fmt: skip
    insight: dict[str, object] = {
        "insight": f"everybody speaks of {SECRET}",
        "category": "summary",
        "confidence": 0.5,
    }
    await insert(connection, "dream_insights", insight | {"source_memories": [ids["agent_memory"]]})
    await connection.execute(
        "insert into memoryd.dead_letters (id, topic, ref, payload, attempts, error, created_at) "
        "values (-1, 'index', $1, null, 5, $2, now()), (-2, 'x', null, $3, 5, $2, now())",
        ids["agent_memory"], f"cannot embed {SECRET}", json.dumps({"ids": [str(ids["documents"])], "text": SECRET}),
    )  # fmt: skip
    await until(connection, IDLE)
    where = await found(connection, SECRET)
    assert len(where) > 40
    assert "dream_insights.insight" in where
    assert "memoryd.entries.lexemes" in where
    assert "memoryd.lexicon.word" in where
    others = await kept_of(connection, BOB)
    words = await found(connection, "wombat")

    counts = await erase(connection, ANN)

    assert await found(connection, SECRET) == {}
    assert await found(connection, str(ANN)) == {}
    assert set((await kept_of(connection, ANN)).values()) == {0}
    assert await kept_of(connection, BOB) == others
    assert await found(connection, "wombat") == words
    assert counts["agent_memory"] >= 6
    assert counts["agent_commands"] == 6
    assert counts["conversation_sessions"] == 2
    assert counts["replica_paths"] == [f"/replica/{SECRET}-{ANN}.md"]
    row = await one_row(connection, "select * from memory_queries where id = $1", query)
    assert row["retrieved_memory_ids"][0] == theirs["agent_memory"]
    assert row["relevance_scores"] == [0.9, 0.7]
    (log,) = await connection.fetch("select * from agent_execution_logs where step_name = 'erase'")
    assert log["user_id"] is None
    # The daemon that worked on all that goes on, and brings nothing back.
    await remember(connection, "the wombat sleeps", user_id=BOB)
    await until(connection, IDLE)
    assert await found(connection, SECRET) == {}


async def test_an_erasure_keeps_the_hashes_of_the_chain_of_anchors(connection: asyncpg.Connection) -> None:
    ids = await whole_user(connection, ANN, SECRET)
    other = await remember(connection, "kept")
    kept = {"memory_id": other, "agent_id": "alice", "category": "decision", "payload": "{}", "content_hash": b"next",
            "previous_hash": b"hash"}  # fmt: skip
    await insert(connection, "memory_anchors", kept)
    await erase(connection, ANN)
    rows = await connection.fetch("select * from memory_anchors order by created_at nulls first")
    assert [(r["content_hash"], r["previous_hash"]) for r in rows] == [(b"hash", None), (b"next", b"hash")]
    assert rows[0]["id"] == ids["memory_anchors"]
    assert (json.loads(rows[0]["payload"]), rows[0]["memory_id"]) == ({"erased": True}, None)


async def test_erasing_nothing_and_twice_is_no_error(connection: asyncpg.Connection) -> None:
    counts = await erase(connection, ANN)
    assert counts.pop("replica_paths") == []
    assert set(counts.values()) == {0}
    await whole_user(connection, ANN, SECRET)
    first = await erase(connection, ANN)
    assert first["agent_memory"] == 2
    again = await erase(connection, ANN)
    assert again["agent_memory"] == 0


async def test_an_erasure_keeps_the_setting_that_memory_is_off(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "insert into memory_settings (user_id, memory_enabled, memory_ttl_hours) values ($1, false, 5), ($2, true, 5)",
        ANN, BOB,
    )  # fmt: skip
    await erase(connection, ANN)
    await erase(connection, BOB)
    (left,) = await connection.fetch("select * from memory_settings")
    assert (left["user_id"], left["memory_enabled"], left["memory_ttl_hours"]) == (ANN, False, None)


async def test_an_erased_users_shared_conversation_stays_with_the_others(
    connection: asyncpg.Connection,
) -> None:
    session = await insert(connection, "conversation_sessions", {"agent_id": "alice"})
    for user, text in (
        (ANN, f"{SECRET} here"),
        (BOB, "wombat here"),
        (ANN, f"{SECRET} again"),
        (None, "hello all"),
    ):
        await insert(connection, "conversation_messages",
                     {"session_id": session, "user_id": user, "role": "user", "content": text})  # fmt: skip
    await connection.execute("update conversation_sessions set title = $1", SECRET)
    counts = await erase(connection, ANN)
    assert (counts["conversation_messages"], counts["conversation_sessions"]) == (2, 0)
    left = await column(connection, "select content from conversation_messages order by message_index")
    assert left == ["wombat here", "hello all"]
    row = await one_row(connection, "select id, user_id, title from conversation_sessions")
    assert tuple(row) == (session, None, None)


@pytest.mark.parametrize(
    "claims",
    [f'{{"sub": "{BOB}"}}', None, "", "{}", '{"sub": "nobody"}', f'["{ANN}"]', f'{{"user_id": "{ANN}"}}'],
)
async def test_erasing_and_exporting_other_users_is_refused(
    connection: asyncpg.Connection, claims: str | None
) -> None:
    await whole_user(connection, ANN, SECRET)
    before = await kept_of(connection, ANN)
    for function in ("erase_user_memory", "export_user_memory"):
        for role in ("memoryd_user", "memoryd_admin"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with acting_as(connection, None, role=role, claims=claims):
                    await connection.execute(f"select {function}($1)", ANN)
    assert await kept_of(connection, ANN) == before


async def test_search_path_and_settings_do_not_let_a_user_erase_another(
    connection: asyncpg.Connection,
) -> None:
    """What a user can make or set is not what runs as the owner."""
    await whole_user(connection, ANN, SECRET)
    await connection.execute("grant create on schema public to memoryd_user")
    for trick in (
        "create temp table agent_memory (id uuid, user_id uuid)",
        "create function public.caller_is_service() returns boolean language sql as 'select true'",
        "create function pg_temp.caller_id() returns uuid language sql as $$ select null::uuid $$",
        "set local search_path = pg_temp, public, memoryd",
        f"set local request.jwt.claim.sub = '{BOB}'",
        "set local memoryd.importing = 'on'",
        "set local memoryd.caller = 'memoryd_service'",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="you may erase your own memory only"):
            async with acting_as(connection, BOB):
                await connection.execute(f"{trick}; select public.erase_user_memory('{ANN}')")
    assert (await kept_of(connection, ANN))["agent_memory"] == 2


async def test_users_erase_and_export_their_own(connection: asyncpg.Connection) -> None:
    await whole_user(connection, ANN, SECRET)
    await whole_user(connection, BOB, "wombat")
    async with acting_as(connection, ANN):
        export = json.loads(await connection.fetchval("select export_user_memory($1)", ANN))
    assert export["user_id"] == str(ANN)
    assert "wombat" not in json.dumps(export)
    async with acting_as(connection, ANN):
        counts = json.loads(await connection.fetchval(ERASE, ANN))
    assert counts["agent_memory"] == 2
    assert await found(connection, SECRET) == {}
    assert (await kept_of(connection, BOB))["agent_memory"] == 2


async def test_erasing_or_exporting_null_is_refused(connection: asyncpg.Connection) -> None:
    for function in ("erase_user_memory", "export_user_memory"):
        with pytest.raises(asyncpg.NullValueNotAllowedError):
            await connection.execute(f"select {function}(null)")


async def test_an_erasure_in_repeatable_read_is_refused(
    connection: asyncpg.Connection,
) -> None:
    with pytest.raises(asyncpg.ActiveSQLTransactionError):
        async with connection.transaction(isolation="repeatable_read"):
            await connection.execute(ERASE, ANN)


async def test_two_concurrent_erasures_run_one_after_the_other(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    await whole_user(connection, ANN, SECRET)
    async with connection.transaction():
        first = await erase(connection, ANN)
        other = asyncio.create_task(erase(second, ANN))
        await until(connection, BLOCKED)
    assert first["agent_memory"] == 2
    assert (await other)["agent_memory"] == 0
    assert await found(connection, SECRET) == {}


async def test_requests_to_erase_are_answered_and_leave_only_their_answers(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await whole_user(connection, ANN, SECRET)
    asked = [
        await insert(
            connection,
            "memory_requests",
            {"kind": kind, "user_id": ANN, "query": SECRET, "options": json.dumps(options)},
        )
        for kind, options in (
            ("recall", {"filter": {"x": SECRET}}),
            ("erase", {}),
            ("erase", {}),
            ("export", {}),
            ("erase", {}),
        )
    ]
    await until(connection, "select not exists (select from memory_requests where status = 'pending')")
    await until(connection, IDLE)
    rows = await connection.fetch("select * from memory_requests")
    assert {r["id"] for r in rows} <= set(asked)
    assert {(r["kind"], r["status"], r["error"]) for r in rows} == {("erase", "done", None)}
    assert len(rows) == 3
    assert sum(json.loads(r["result"])["agent_memory"] for r in rows) >= 2
    assert await found(connection, SECRET) == {}
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0


async def test_a_daemon_that_is_indexing_does_not_restore_erased_rows(remote: Remote) -> None:
    server, connection = remote.server, remote.connection
    server.always = HANG
    await remote.daemons.start(**remote.settings)
    await remember(connection, f"{SECRET} is on its way", user_id=ANN)
    kept = await remember(connection, "wombats are on their way", user_id=BOB)
    await ask(connection, f"{SECRET} wants something", user_id=ANN)
    await asyncio.to_thread(server.hanging.wait, 20)
    # Words are learnt together with the rows that are found by them.
    assert await connection.fetchval("select count(*) from memoryd.lexicon") == 0
    counts = await erase(connection, ANN)
    assert counts["agent_memory"] == 1
    assert await found(connection, SECRET) == {}
    server.heal()
    await until(connection, INDEXED, kept)
    await until(connection, IDLE)
    assert await found(connection, SECRET) == {}
    assert await found(connection, str(ANN)) == {}
    # Nor its vector, which is known only by the hash of the text.
    hashes = await column(connection, "select content_hash from memoryd.embeddings")
    erased = await column(connection, "select content_hash from memoryd.erased_texts")
    assert erased
    assert not set(hashes) & set(erased)


async def test_an_outcome_captured_during_an_erasure_is_not_remembered(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """The memory is there, its transaction not yet committed, when the erasure begins: it waits, and takes it along."""
    await second.execute("begin; lock table agent_memory in share mode")
    await daemons.start()
    await ask(connection, f"deploy {SECRET}", user_id=ANN, status="completed", output=SECRET)
    await until(connection, awaited("l.relation = 'agent_memory'::regclass"))
    erasing = asyncio.create_task(erase(connection, ANN))
    await asyncio.sleep(0)
    await until(second, SLEEPING)
    await second.execute("commit")
    counts = await erasing
    assert counts["agent_memory"] == 1
    await until(connection, IDLE)
    assert await found(connection, SECRET) == {}


async def test_a_dream_that_read_erased_memories_writes_nothing_of_them(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """The dream has read the memories; its insights come after the erasure, or at the same time."""
    dream = await insert(connection, "dream_sessions", {"started_by": "manual"})
    for at_once in (False, True):
        memories = [await remember(connection, f"{SECRET} {n}", user_id=ANN) for n in range(3)]
        other = await remember(connection, "wombat", user_id=BOB)
        write = (
            "insert into dream_insights (user_id, insight, source_memories, category, confidence, dream_id) "
            "values ($1, $2, $3, 'pattern', 0.5, $4)"
        )
        if at_once:
            async with second.transaction():
                await second.execute(write, ANN, f"all about {SECRET}", memories, dream)
                erasing = asyncio.create_task(erase(connection, ANN))
                await until(second, BLOCKED)
            await erasing
        else:
            await erase(connection, ANN)
            await second.execute(write, ANN, f"all about {SECRET}", memories, dream)
            await second.execute(write, BOB, "wombats abound", [other], dream)
        assert await found(connection, SECRET) == {}
    assert await column(connection, "select insight from dream_insights") == ["wombats abound"]


async def test_five_megabytes_are_erased(connection: asyncpg.Connection) -> None:
    await remember(connection, f"{SECRET} " * 400_000, user_id=ANN)
    assert (await erase(connection, ANN))["agent_memory"] == 1
    assert await found(connection, SECRET) == {}
