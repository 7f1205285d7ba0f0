"""A remote embedder that is down delays nothing else, costs no attempts, and is paid once for each text."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.support.content.finished import all_done
from tests.support.content.index import INDEXED_MEMORIES, UNINDEXED
from tests.support.rows import column
from tests.support.services import http
from tests.support.services.openai_server import HANG, POISON, Fault
from tests.support.services.remote import CountingServer, Remote
from tests.support.waiting import IDLE, until

SECRET = "hunter2"

OUTCOMES = """
insert into agent_commands (agent_id, message, status, output, exit_code)
select 'alice', 'deploy service ' || n, 'completed', 'deployed build ' || n, 0 from generate_series(1, 20) n
"""
NOTES = """
insert into agent_memory (agent_id, content)
select 'agent ' || n % 5, 'service ' || n || ' answers slowly' from generate_series(1, $1) n
"""
TASKS = """
insert into agent_commands (agent_id, message)
select 'alice', 'restart service ' || n from generate_series(1, 5) n
"""


async def test_commands_and_recall_work_while_the_embedder_is_down_and_embeddings_follow(
    remote: Remote,
) -> None:
    server, connection = remote.server, remote.connection
    daemon = await remote.daemons.start(
        url=remote.url, **remote.settings, poll_seconds=0.5, http=0, ready_lag_seconds=0.001
    )
    site = (await daemon.event("http_listening"))["url"]
    await connection.execute("insert into agent_memory (agent_id, content) values ('alice', 'all is well')")
    await all_done(connection)

    server.stop()
    await connection.execute(NOTES, 200)
    await connection.execute(OUTCOMES)
    await connection.execute(TASKS)
    await until(connection, "select count(*) = 5 from agent_commands where status = 'ready'")
    await until(connection, "select count(*) = 20 from agent_memory where command_id is not null")
    assert await connection.fetchval("select count(*) from recall('deploy service', 'alice')") == 10
    await daemon.event("provider_lost")
    # It is back, and fails once more: each time one call is made, and all jobs wait again.
    for fault in (Fault.status(500), Fault.status(429, retry_after="0.2")):
        server.always = fault
        asked = len(server.requests)
        if fault.code == 500:
            server.start()
        await reached(server, asked + 1)
    # The last answer is heard here before the daemon has handed its batch back.
    await until(connection, "select max(snoozes) >= 2 from memoryd.jobs")
    assert await connection.fetchval("select max(attempt - snoozes) <= 1 from memoryd.jobs")
    assert len(await column(connection, UNINDEXED, "memory")) == 220
    # What waits for the embedder does not make the daemon unready, however long it lasts.
    await http.answering(site, "/health/ready", 200)
    provider = 'memoryd_provider_up{provider="openai/test",role="embedder"} 0.0'
    samples = http.samples_of((await http.answering(site, "/metrics", 200, saying=provider)).body)
    assert http.value(samples, "memoryd_rows_waiting", missing="embedding") > 0
    assert http.value(samples, "memoryd_jobs_handled_total", topic="index", outcome="handed_back") > 0

    server.heal()
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    assert await column(connection, UNINDEXED, "memory") == []
    assert await connection.fetchval("select count(*) from memory_associations") > 0
    await daemon.event("provider_back")
    assert len(daemon.events("provider_lost")) == len(daemon.events("provider_back")) == 1
    await paid_once(remote)
    assert await daemon.stop() == 0


async def test_an_embedder_that_does_not_answer_delays_no_other_work(remote: Remote) -> None:
    server, connection = remote.server, remote.connection
    server.always = HANG
    daemon = await remote.daemons.start(url=remote.url, **remote.settings)
    await connection.execute(NOTES, 5)
    await connection.execute(TASKS)
    await connection.execute(OUTCOMES)
    await until(connection, "select count(*) = 5 from agent_commands where status = 'ready'")
    await until(connection, "select count(*) = 20 from agent_memory where command_id is not null")
    assert server.hanging.is_set()
    server.heal()
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    await paid_once(remote)
    assert await daemon.stop() == 0


async def reached(server: CountingServer, requests: int) -> None:
    """Waits until so many requests came, and the last was answered."""
    async with asyncio.timeout(90):
        while len(server.requests) < requests:
            await asyncio.sleep(0.01)


async def paid_once(remote: Remote) -> None:
    """Asserts that each memory's text was embedded once."""
    contents = {r["content"] for r in await remote.connection.fetch("select content from agent_memory")}
    paid = Counter(remote.server.paid)
    assert contents <= set(paid)
    assert max(paid.values()) == 1


async def test_a_killed_daemons_embeddings_are_not_requested_again(remote: Remote) -> None:
    """Killed between the slow half, which pays, and the commit half, which writes."""
    server, connection = remote.server, remote.connection
    await connection.execute(NOTES, 10)
    # No dream, which would embed its insights.
    await connection.execute(
        "insert into agent_commands (agent_id, message, status) values ('alice', 'stop', 'cancelled')"
    )
    blocker = remote.connection
    await blocker.execute("begin; lock table memoryd.entries in share mode")
    daemon = await remote.daemons.start(url=remote.url, **remote.settings, claim_seconds=1)
    await until(
        connection,
        """
        select (select count(*) = 10 from memoryd.embeddings)
           and exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')
        """,
    )
    await daemon.kill()
    await blocker.execute("rollback")
    assert await column(connection, INDEXED_MEMORIES) == []
    await remote.daemons.start(url=remote.url, **remote.settings, claim_seconds=1, poll_seconds=0.2)
    await all_done(connection)
    assert len(server.paid) == len(set(server.paid)) == 10


async def test_the_one_text_that_the_embedder_refuses_becomes_the_only_dead_letter(remote: Remote) -> None:
    server, connection = remote.server, remote.connection
    await connection.execute(NOTES, 30)
    await connection.execute(
        "insert into agent_memory (agent_id, content) values ('alice', $1)",
        f"the password is {SECRET} {POISON}",
    )
    await connection.execute(NOTES, 30)
    task = await connection.fetchval(
        "insert into agent_commands (agent_id, message) values ('alice', $1) returning id",
        f"rotate {SECRET} {POISON}",
    )
    daemon = await remote.daemons.start(url=remote.url, **remote.settings)
    await until(connection, IDLE)
    dead = await connection.fetch("select * from memoryd.dead_letters")
    assert [(d["topic"], d["attempts"]) for d in dead] == [("index", 1)]
    assert dead[0]["error"] == "RejectionError: openai/test: HTTP 400: the provider refuses this input"
    left = await column(
        connection,
        f"select content from agent_memory where id in ({UNINDEXED})",
        "memory",
    )
    assert left == [f"the password is {SECRET} {POISON}"]
    assert await connection.fetchval("select status from agent_commands where id = $1", task) == "ready"
    assert max(Counter(server.paid).values()) == 1
    assert not daemon.events("provider_lost")
    assert await daemon.stop() == 0
    assert SECRET not in daemon.text()
    assert (await daemon.event("job_discarded"))["ref"] == str(dead[0]["ref"])
