"""memoryd dead: lists the dead letters, and makes jobs of them again."""

from __future__ import annotations

import asyncpg

from tests.support.content.index import INDEXED_MEMORIES
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import column
from tests.support.waiting import IDLE, until

DIE = """
insert into memoryd.dead_letters (id, topic, lane, attempts, error, created_at, died_at)
values (11, 'capture', 'alice', 5, E'ValueError\\nin three\\nlines', now(), now() - interval '2 hours'),
       (12, 'index', null, 5, 'RejectionError [red]', now(), now() - interval '1 hour'),
       (13, 'index', null, 5, 'RejectionError', now(), now())
"""
LEFT = "select array_agg(id order by id) from memoryd.dead_letters"
QUEUED = "select array_agg(topic order by id) from memoryd.jobs"


async def test_without_dead_letters_dead_says_so(memoryd: Commands) -> None:
    shown = await memoryd("dead")
    assert (shown.code, shown.out) == (0, "There is no dead letter.\n")


async def test_dead_letters_are_listed_newest_first(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(DIE)
    lines = (await memoryd("dead")).out.splitlines()
    assert [line.split()[0] for line in lines] == ["id", "13", "12", "11"]
    assert "RejectionError [red]" in lines[2]
    assert lines[3].endswith("ValueError")
    assert "2 h ago" in lines[3]
    assert [row["id"] for row in (await memoryd("dead", "--topic", "index", "--json")).json] == [13, 12]
    assert "... and 2 more" in (await memoryd("dead", "--limit", "1")).out
    assert (await memoryd("dead", "--topic", "dream")).out == "There is no dead letter of topic dream.\n"


async def test_requeue_without_a_choice_is_refused(memoryd: Commands, connection: asyncpg.Connection) -> None:
    await connection.execute(DIE)
    for arguments in ([], ["11", "--all"], ["--topic", "index", "--all"], ["11", "--topic", "capture"]):
        refused = await memoryd("dead", "requeue", *arguments)
        assert refused.code == 2
        assert "--topic, or --all" in refused.err
    assert await connection.fetchval(LEFT) == [11, 12, 13]


async def test_dead_letters_are_requeued_by_id_by_topic_and_all(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(DIE)
    by_id = await memoryd("dead", "requeue", "11")
    assert (by_id.code, by_id.out) == (0, "1 job requeued.\n")
    assert await connection.fetchval(LEFT) == [12, 13]
    assert await connection.fetchval(QUEUED) == ["capture"]
    assert (await memoryd("dead", "requeue", "--topic", "index")).out == "2 jobs requeued.\n"
    await connection.execute(DIE)
    assert (await memoryd("dead", "requeue", "--all")).out == "3 jobs requeued.\n"
    assert await connection.fetchval(LEFT) is None
    assert (await memoryd("dead", "requeue", "--all")).out == "0 jobs requeued.\n"


async def test_an_id_that_is_no_dead_letter_is_reported(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(DIE)
    ended = await memoryd("dead", "requeue", "12", "99")
    assert ended.code == 1
    assert ended.err.startswith("1 job requeued; ")
    assert await connection.fetchval(LEFT) == [11, 13]


async def test_a_requeued_job_is_done(
    memoryd: Commands, connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await connection.execute("insert into agent_memory (agent_id, content) values ('alice', 'likes tea')")
    await connection.execute(
        "with gone as (delete from memoryd.jobs returning *)"
        " insert into memoryd.dead_letters (id, topic, ref, attempts, error, created_at)"
        " select id, topic, ref, 5, 'refused', created_at from gone"
    )
    await daemons.start(poll_seconds=3600)  # only the listener wakes it
    assert (await memoryd("dead", "requeue", "--topic", "index")).code == 0
    await until(connection, IDLE)
    assert len(await column(connection, INDEXED_MEMORIES)) == 1


async def test_the_client_of_a_dead_request_is_notified_of_failure_and_requeue(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    request = await connection.fetchval(
        "insert into memory_requests (kind, query) values ('recall', 'x') returning id"
    )
    state = "select concat_ws(' ', status, error) from memory_requests where id = $1"
    await connection.execute(
        """
        with gone as (delete from memoryd.jobs where ref = $1 returning *)
        insert into memoryd.dead_letters (id, topic, ref, attempts, error, created_at)
        select id, topic, ref, 5, 'RuntimeError: no luck', created_at from gone
        """,
        request,
    )
    assert await connection.fetchval(state, request) == "failed given up: RuntimeError: no luck"
    assert (await memoryd("dead", "requeue", "--topic", "request")).out == "1 job requeued.\n"
    assert await connection.fetchval(state, request) == "pending"
