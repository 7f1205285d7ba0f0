"""Links follow the words: what changes is unlinked in both directions, and linked anew, whatever was under way meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from daemon.db.pool import Database
from handlers import associate as links
from handlers.shared.ports import Job
from tests.support.access.acting import ANN, BOB
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.processes.paused import gate_closed, meanwhile, paused, pausing
from tests.support.rows import associate, column, embedding, remember
from tests.support.waiting import IDLE, until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LINKED = "select related_memory_id from memory_associations where memory_id = $1 order by strength desc, related_memory_id"
STRENGTH = "select strength from memory_associations where memory_id = $1 and related_memory_id = $2"
SAY = "update agent_memory set content = $2, embedding = $3::text::vector where id = $1"


# The index of the same memory is another job, which may stop first.
LINKS_WRITTEN = (
    "create constraint trigger pause after delete on memoryd.jobs deferrable initially deferred "
    "for each row when (old.topic = 'associate') execute function public.pause()"
)


async def at(connection: asyncpg.Connection, content: str, hours: float, **columns: object) -> UUID:
    """A memory so many hours after noon, like no other in meaning."""
    created_at = NOON + timedelta(hours=hours)
    return await remember(
        connection, content, **({"created_at": created_at, "embedding": embedding()} | columns)
    )


async def linked(connection: asyncpg.Connection, memory: UUID) -> Sequence[object]:
    """What a memory is linked to, once nothing is left to do."""
    await until(connection, IDLE)
    return await column(connection, LINKED, memory)


async def test_a_change_unlinks_and_links_in_both_directions(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    first = await at(connection, "red boats sail north", 0)
    middle = await at(connection, "red boats sail south", 20)
    last = await at(connection, "red boats sail east", 40)
    assert await linked(connection, middle) == [first]
    assert set(await linked(connection, last)) == {first, middle}
    await connection.execute(SAY, middle, "green apples taste sour", embedding(0, 1))
    assert await linked(connection, middle) == []
    assert await linked(connection, last) == [first]
    # Back again; this time the daemon's own embedding is what it waits for.
    await connection.execute("update agent_memory set content = 'red boats sail west' where id = $1", middle)
    assert await linked(connection, middle) == [first]
    assert set(await linked(connection, last)) == {first, middle}


async def test_a_memory_that_changes_while_it_is_being_linked_has_the_links_of_its_new_words(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    red = [await at(connection, f"red boats sail take{n}", n * 20) for n in range(6)]
    green = [await at(connection, f"green apples taste take{n}", n * 20 + 10) for n in range(6)]
    await until(connection, IDLE)
    await pausing(connection, "before")
    async with gate_closed(second):
        memory = await at(connection, "red boats sail now", 1000)
        await paused(connection)
        await connection.execute(SAY, memory, "green apples taste now", embedding())
    found = await linked(connection, memory)
    assert len(found) == 5
    assert set(found) < set(green)
    assert set(found).isdisjoint(red)


async def test_a_memory_whose_related_one_changes_meanwhile_is_linked_to_others(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    red = [await at(connection, f"red boats sail take{n}", n * 20) for n in range(6)]
    await until(connection, IDLE)
    await pausing(connection, "before")
    async with gate_closed(second):
        memory = await at(connection, "red boats sail now", 1000)
        await paused(connection)
        await connection.execute(SAY, red[5], "green apples taste good", embedding())
    assert set(await linked(connection, memory)) == set(red[:5])


async def test_a_change_waits_for_links_under_way_and_deletes_them(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    first = await at(connection, "red boats sail north", 0)
    await daemons.start()
    await until(connection, IDLE)
    await pausing(connection, LINKS_WRITTEN)
    third = await asyncpg.connect(daemons.url)
    async with gate_closed(second):
        memory = await at(connection, "red boats sail south", 20)
        await paused(connection)
        changing = await meanwhile(third, connection, SAY, first, "green apples taste good", embedding(0, 1))
        assert not changing.done()
    await changing
    await third.close()
    assert await linked(connection, memory) == []


async def test_a_reinforced_link_stays_when_the_words_stay_the_same(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    first = await at(connection, "red boats sail north", 0)
    other = await at(connection, "red boats drift north", 20)
    last = await at(connection, "red boats sail east", 40)
    await until(connection, IDLE)
    await connection.execute("update memory_associations set strength = 0.99 where memory_id = $1", last)
    # What else changes of a memory says nothing about its links.
    await connection.execute("update agent_memory set metadata = '{\"seen\": true}' where id <> $1", other)
    await connection.execute(SAY, other, "red boats sail home", embedding())
    await until(connection, IDLE)
    assert await connection.fetchval(STRENGTH, last, first) == 0.99
    assert await connection.fetchval(STRENGTH, last, other) == 0.75


async def test_a_link_that_was_made_of_other_words_does_not_keep_its_strength(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    """However it came to stay, as where a client's snapshot was older than the link."""
    first = await at(connection, "red boats sail north", 0)
    last = await at(connection, "red boats sail east", 40)
    assert await linked(connection, last) == [first]
    await connection.execute(
        "update memory_associations set strength = 0.99, updated_at = now() - interval '1 hour'"
    )
    await connection.execute("select memoryd.associate_again(array[$1::uuid])", last)
    await until(connection, IDLE)
    assert await connection.fetchval(STRENGTH, last, first) == 0.75


async def test_a_memory_that_changes_between_two_reads_is_not_linked_by_its_old_embedding(
    connection: asyncpg.Connection, database: Database, daemons: Daemons
) -> None:
    """Its embedding is read first, then its words: the link would be of neither version, and nothing would make it again."""
    daemon = await daemons.start()
    near = {"embedding": embedding(1)}
    first = await at(connection, "copper invoice", -1000, **near)
    for n in range(links.WINDOW):
        await at(connection, f"filler {n}", n)
    last = await at(connection, "silver bill", 1000, **near)
    assert await linked(connection, last) == [first]
    await daemon.stop()
    # As before it was linked: what was linked to a memory that changes is linked again in any case.
    await connection.execute("delete from memory_associations")

    class Between:
        """Reads as the daemon does, and changes the memory after its embedding was read."""

        async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
            rows = await database.fetch(sql, *args)
            if sql == links.READ_REACH:
                await connection.execute(SAY, first, "green apples", embedding(0, 1))
            return rows

        async def execute(self, sql: str, *args: object) -> None:
            await database.execute(sql, *args)

    job = Job(1, "associate", None, last, None, 1, 0, NOON)
    handler = links.AssociateHandler(reader=Between())
    commit = await handler.prepare([job])
    async with database.transaction() as transaction:
        await commit(transaction, [job])
    await daemons.start()
    assert await linked(connection, last) == []


async def test_links_made_by_hand_stay_when_others_change(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    other = await at(connection, "green apples taste good", 0)
    first = await at(connection, "red boats sail north", 20)
    last = await at(connection, "red boats sail east", 40)
    await until(connection, IDLE)
    await associate(connection, last, other, 0.4)
    await connection.execute(SAY, first, "blue whales dive deep", embedding(0, 1))
    assert await linked(connection, last) == [other]
    assert await connection.fetchval(STRENGTH, last, other) == 0.4


async def test_a_change_links_no_users_together(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    mine = await at(connection, "red boats sail north", 0, user_id=ANN)
    theirs = await at(connection, "green apples taste good", 20, user_id=BOB)
    nobodys = await at(connection, "green apples taste bitter", 10)
    assert await linked(connection, theirs) == [nobodys]
    for memory in (mine, nobodys):
        await connection.execute(SAY, memory, "green apples taste sour", embedding())
    assert await linked(connection, theirs) == [nobodys]
