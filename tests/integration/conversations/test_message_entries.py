"""Every message has one entry, of what it says now, whatever happened before; its neighbours count when it is sought."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID, uuid4

import asyncpg
import numpy as np
import pytest

from providers.local_embedder import LocalEmbedder
from tests.support.access.acting import ANN, BOB
from tests.support.content.index import WRITE, entries, index_rows, stale
from tests.support.database.statistics import miscounted
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import column, say
from tests.support.waiting import IDLE, until

TWICE = "select id from memoryd.entries where source = 'conversation' group by id having count(*) > 1"
EMBEDDED = """
select m.content, e.embedding::text as embedding
from memoryd.entries e join conversation_messages m using (id)
where e.source = 'conversation'
"""
ANY = "(select id from conversation_messages order by md5(id::text || $1::text) limit 1)"
HAPPENINGS = (
    (
        "insert into conversation_messages (session_id, role, content, speaker) select s.id, 'user', $2, 'Ann' "
        "from conversation_sessions s order by md5(s.id::text || $1::text) limit 1"
    ),
    (
        "insert into conversation_messages (session_id, role, content, message_index) "
        "select m.session_id, 'user', $2, m.message_index + 1 "
        f"from conversation_messages m where m.id = {ANY} on conflict do nothing"
    ),
    f"update conversation_messages set content = $2 where id = {ANY}",
    f"update conversation_messages set speaker = $2 where id = {ANY}",
    f"update conversation_messages set created_at = created_at - interval '40 days' where id = {ANY} and $2 <> ''",
    # Behind all others: beside an earlier one that was moved there may be no place.
    (
        "update conversation_messages set message_index = "
        f"(select max(message_index) + 1000 from conversation_messages) where id = {ANY} and $2 <> ''"
    ),
    (
        "update conversation_messages m set session_id = "
        "(select id from conversation_sessions order by md5(id::text || $2) limit 1), "
        f"message_index = 5000 + length($2) * 100 + m.message_index where id = {ANY}"
    ),
    f"delete from conversation_messages where id = {ANY} and $2 <> ''",
    (
        "insert into conversation_messages (session_id, role, content) "
        "select s.id, 'assistant', $2 || ' ' || n || $1::text from conversation_sessions s, generate_series(1, 3) n"
    ),
)


async def happen(
    connection: asyncpg.Connection, dice: random.Random, times: int, *, pause: float = 0.0
) -> None:
    """So many things, one after the other."""
    for _ in range(times):
        await asyncio.sleep(pause)
        words = " ".join(
            dice.choices(("red", "fish", "blue", "tomorrow", "in May", "boats", "?"), k=dice.randint(1, 5))
        )
        try:
            await connection.execute(dice.choice(HAPPENINGS), str(dice.random()), f"on {words}")
        except (asyncpg.UniqueViolationError, asyncpg.CheckViolationError):
            continue


async def check_entries(connection: asyncpg.Connection) -> None:
    """Once nothing is left to do, the entries are those of a database that is indexed from scratch."""
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    assert await connection.fetchval("select count(*) from memoryd.unindexed") == 0
    assert await stale(connection) == []
    assert await column(connection, TWICE) == []
    assert await far_from_text(connection) == []
    written = await entries(connection)
    anew = connection.transaction()
    await anew.start()
    try:
        await connection.execute("delete from memoryd.entries")
        await index_rows(connection, "conversation")
        assert await entries(connection) == written
    finally:
        await anew.rollback()


async def far_from_text(connection: asyncpg.Connection) -> list[str]:
    """Messages whose embedding is not that of their text."""
    rows = await connection.fetch(EMBEDDED)
    vectors = await LocalEmbedder().embed([r["content"] for r in rows])
    far = []
    for row, vector in zip(rows, vectors, strict=True):
        stored = np.array(row["embedding"].strip("[]").split(","), dtype=np.float32)
        if np.linalg.norm(vector) and float(stored @ vector / np.linalg.norm(vector)) < 0.999:
            far.append(row["content"])
    return far


async def talks(connection: asyncpg.Connection) -> None:
    """Three conversations."""
    await connection.execute("insert into conversation_sessions (title) values ('one'), ('two'), ('three')")
    await connection.execute(
        "insert into conversation_messages (session_id, role, content) "
        "select s.id, 'user', s.title || ' fish ' || n from conversation_sessions s, generate_series(1, 8) n"
    )


@pytest.mark.usefixtures("daemon")
async def test_every_change_of_a_message_changes_its_entry(connection: asyncpg.Connection) -> None:
    await talks(connection)
    await check_entries(connection)
    for number in range(len(HAPPENINGS)):
        await connection.execute(HAPPENINGS[number], str(number), f"boats {number}")
        await check_entries(connection)


async def test_concurrent_writers_leave_one_current_entry_for_every_message(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """While two daemons index, two writers write; in the end the entries are as if indexed last."""
    await asyncio.gather(daemons.start(poll_seconds=0.2), daemons.start(poll_seconds=0.2))
    await talks(connection)
    for round_ in range(3):
        dice = [random.Random(round_ * 10 + n) for n in range(2)]
        await asyncio.gather(happen(connection, dice[0], 12), happen(second, dice[1], 12))
        await check_entries(connection)
    assert await connection.fetchval("select count(*) from conversation_messages") > 10
    assert await miscounted(connection) == []


async def test_killed_daemons_leave_one_current_entry_for_every_message(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """kill -9 at any moment, while two writers write."""
    dice = random.Random(7)
    await talks(connection)
    writers = asyncio.gather(
        happen(connection, random.Random(71), 40, pause=0.03),
        happen(second, random.Random(72), 40, pause=0.03),
    )
    for _ in range(3):
        daemon = await daemons.start(
            claim_seconds=1, poll_seconds=0.2, heartbeat_seconds=0.3, max_attempts=20
        )
        # The moment is the point: no event marks it.
        await asyncio.sleep(dice.uniform(0.0, 0.4))
        await daemon.kill()
    await writers
    await daemons.start(claim_seconds=1, poll_seconds=0.2, heartbeat_seconds=0.3, max_attempts=20)
    await check_entries(connection)
    assert await miscounted(connection) == []


SAY = "insert into conversation_messages (session_id, role, content, message_index) values ($1, 'user', $2, $3) returning id"
SAY_AS = "insert into conversation_messages (session_id, user_id, role, content) values ($1, $2, 'user', $3) returning id"
ELSEWHERE = "insert into conversation_sessions (id) values (md5('elsewhere')::uuid)"
HALT = """
create function halt() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(42); return new; end $$;
create trigger halt before insert on memoryd.entries for each row when (new.position = 0) execute function halt()
"""
WAITING = """
select count(*) >= $1 from pg_stat_activity
where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
"""
FOUND = "select content from recall($1, sources => '{conversation}', match_count => 100) order by content"


async def test_a_message_inserted_while_another_is_indexed_gets_its_entry(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """The first one's entry is half written when the second one comes."""
    session = uuid4()
    await connection.execute(SAY, session, "boats in May", 0)
    await connection.execute(HALT)
    async with second.transaction():
        await second.execute("select pg_advisory_xact_lock(42)")
        await daemons.start(poll_seconds=0.2)
        await until(connection, WAITING, 1)
        async with connection.transaction():  # before the daemon indexes it, too
            await connection.execute(SAY, session, "red fish", 1)
            assert await column(connection, FOUND, "boats") == ["boats in May", "red fish"]
    await check_entries(connection)
    assert await column(connection, FOUND, "boats") == ["boats in May", "red fish"]


async def test_a_message_changed_while_its_entry_is_written_has_the_entry_of_the_change(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection, daemons: Daemons
) -> None:
    """The change waits for the daemon's transaction, and comes right after it."""
    await connection.execute(ELSEWHERE)
    await connection.execute(HALT)
    await daemons.start(poll_seconds=0.2)
    for change in (
        "delete from conversation_messages where id = $1",
        "update conversation_messages set content = 'a red kite' where id = $1",
        "update conversation_messages set speaker = 'Carol' where id = $1",
        "update conversation_messages set message_index = 99 where id = $1",
        "update conversation_messages set session_id = md5('elsewhere')::uuid, message_index = 4 where id = $1",
        "update conversation_messages set user_id = '00000000-0000-0000-0000-00000000000b' where id = $1",
    ):
        async with second.transaction():
            await second.execute("select pg_advisory_xact_lock(42)")
            key = await connection.fetchval(SAY, uuid4(), "boats in May", 0)
            await until(connection, WAITING, 1)
            changing = asyncio.create_task(third.execute(change, key))
            await until(connection, WAITING, 2)
        await changing
        await check_entries(connection)


@pytest.mark.parametrize(
    "gone",
    [
        "delete from conversation_messages where id = $1",
        "update conversation_messages set message_index = 99 where id = $1",
    ],
)
async def test_no_message_is_found_by_one_that_left_while_it_was_indexed(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, gone: str
) -> None:
    """Those that come before it has gone are found by its words, and then no more."""
    await daemons.start(poll_seconds=0.2)
    for others in ((), (0,), (0, 9)):
        session = uuid4()
        for place in others:
            await connection.execute(SAY, session, f"fish {place}", place)
        leaves = await connection.fetchval(SAY, session, "boats in May", 5)
        await check_entries(connection)
        async with second.transaction():
            await second.execute(gone, leaves)
            for place in (1, 2, 3, 4, 6, 7, 8):
                await connection.execute(SAY, session, f"blue fish {place}", place)
            indexed = "select count(*) = 7 from memoryd.entries where position in (1, 2, 3, 4, 6, 7, 8)"
            await until(connection, indexed)
            assert {"blue fish 4", "blue fish 6"} <= set(await column(connection, FOUND, "boats"))
        await check_entries(connection)
        assert await column(connection, FOUND, "boats") == ([] if "delete" in gone else ["boats in May"])
        await connection.execute("delete from conversation_sessions")


@pytest.mark.parametrize("owner", [None, ANN])
@pytest.mark.parametrize("offline", [True, False])
async def test_no_message_of_another_user_is_found_by_an_erased_one(
    connection: asyncpg.Connection, daemons: Daemons, owner: UUID | None, offline: bool
) -> None:
    """Alice deletes a message, then all else is erased; the conversation, in which Bob speaks too, may have become hers."""
    session = await connection.fetchval("insert into conversation_sessions default values returning id")
    said = [
        await connection.fetchval(SAY_AS, session, user, f"{words} fish")
        for user, words in (
            (BOB, "red"),
            (ANN, "boats in May"),
            (BOB, "blue"),
            (ANN, "tomorrow"),
            (BOB, "on"),
        )
    ]
    if not offline:
        await daemons.start()
        await check_entries(connection)
    await connection.execute("update conversation_sessions set user_id = $1", owner)
    await connection.execute("delete from conversation_messages where id = $1", said[1])
    await connection.execute("select erase_user_memory($1)", ANN)
    if offline:
        await daemons.start()
    await check_entries(connection)
    assert await connection.fetchval("select count(*) from conversation_messages") == 3
    assert await column(connection, FOUND, "boats tomorrow") == []


async def test_an_entry_is_written_by_one_worker_at_a_time(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """A worker that meets a message which another one indexes neither waits nor writes a second entry."""
    await talks(connection)
    ids = await column(connection, "select id from conversation_messages order by id")
    elsewhere = WRITE.replace("and not w.locked_elsewhere", "and w.locked_elsewhere order by 1")
    async with connection.transaction():
        assert len(await index_rows(connection, "conversation", ids)) == 24
        await second.execute("set lock_timeout = '50ms'")
        assert await column(second, elsewhere, "conversation", ids, None) == ids
        assert await index_rows(second, "conversation", ids[:1]) == []
    assert await index_rows(second, "conversation", ids[:1]) == ids[:1]
    assert await column(connection, TWICE) == []
    assert len(await entries(connection)) == 24


# --- Neighbours.

FERRY = ("We talk of nothing much.", "Which ferry goes to Bergen?", "The one at seven.", "Good, I take it.")


async def chat(
    connection: asyncpg.Connection, *texts: str, user: UUID | None = None
) -> tuple[UUID, list[UUID]]:
    """A conversation of these messages; returns its id and theirs."""
    session = await connection.fetchval("insert into conversation_sessions default values returning id")
    return session, [await say(connection, session, text, user_id=user) for text in texts]


async def found(connection: asyncpg.Connection, question: str, user: UUID | None = None) -> set[object]:
    """Ids of the messages that recall finds."""
    asked = "select id from recall($1, null, $2, sources => '{conversation}', match_count => 100)"
    return set(await column(connection, asked, question, user))


@pytest.mark.parametrize("indexed", [True, False])
async def test_a_message_is_found_by_the_words_of_the_messages_beside_it(
    connection: asyncpg.Connection, daemons: Daemons, indexed: bool
) -> None:
    """The answer says none of the question's words. Messages far from it, or of another conversation, are not found so."""
    far = [f"Filler number {n}." for n in range(12)]
    _, ids = await chat(connection, *FERRY, *far)
    _, others = await chat(connection, "The one at eight.", "Good.")
    if indexed:
        await daemons.start()
        await until(connection, IDLE)
    answered = await found(connection, "Bergen ferry")
    assert {ids[1], ids[2]} <= answered
    assert not answered & {*ids[-6:], *others}


async def test_a_neighbours_words_count_only_while_it_is_there(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    """At once, and also once the daemon has done all that there was to do."""
    await connection.execute(ELSEWHERE)
    answers = {}
    for change in (
        "delete from conversation_messages where id = $1",
        "update conversation_messages set content = 'Which train goes to Oslo?' where id = $1",
        "update conversation_messages set message_index = 5000 where id = $1",
        "update conversation_messages set session_id = md5('elsewhere')::uuid, message_index = 0 where id = $1",
    ):
        _, [_, neighbour, answer, _] = await chat(connection, *FERRY)
        answers[answer] = change, neighbour
    daemon = await daemons.start()
    await until(connection, IDLE)
    await daemon.stop()
    assert answers.keys() <= await found(connection, "Bergen ferry")
    for change, neighbour in answers.values():
        await connection.execute(change, neighbour)
    assert not answers.keys() & await found(connection, "Bergen ferry")
    await daemons.start()
    await check_entries(connection)
    assert not answers.keys() & await found(connection, "Bergen ferry")


async def test_a_message_that_moves_beside_another_is_found_by_its_words(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    """Its new position counts at once, without any indexing."""
    session, _ = await chat(connection, "Which ferry goes to Bergen?")
    _, [moves, *_] = await chat(connection, "The one at seven.", "Good, I take it.")
    await until(connection, IDLE)
    await daemon.stop()
    assert moves not in await found(connection, "Bergen ferry")
    await connection.execute(
        "update conversation_messages set session_id = $1, message_index = 1 where id = $2", session, moves
    )
    assert moves in await found(connection, "Bergen ferry")
    assert await connection.fetchval("select count(*) from memoryd.unindexed") == 0


async def test_words_of_another_users_messages_do_not_count(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    """In a conversation of two users, a question about one user's memory does not see what the other said."""
    session, _ = await chat(connection, "Which ferry goes to Bergen?", user=ANN)
    answer = await say(connection, session, "The one at seven.", user_id=BOB)
    await until(connection, IDLE)
    assert await found(connection, "Bergen ferry", BOB) == set()
    assert await found(connection, "seven", BOB) == {answer}
