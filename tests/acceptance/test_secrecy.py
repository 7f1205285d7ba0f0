"""What agents write stays in the database: no word of it reaches the daemon's log, however much goes wrong."""

from __future__ import annotations

import json

import asyncpg

from tests.support.database.schemas import embedded_by
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import DIMENSIONS, ask, insert, remember
from tests.support.services.openai_server import POISON, Fault, OpenAIServer
from tests.support.waiting import IDLE, until

MARKER = "xylophonist"
KEY = "sk-zanzibar"
DONE = "select not exists (select from memory_requests where status = 'pending')"


def assert_silent(daemon: DaemonProcess) -> None:
    """The log has been written, in JSON throughout, and says nothing of what was said."""
    assert daemon.events("batch_done")
    assert daemon.events("not_json") == []
    for secret in (MARKER, POISON, KEY):
        assert secret.lower() not in daemon.text().lower()


async def test_a_commands_whole_lifecycle_leaves_no_content_in_the_log(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await connection.execute(
        "insert into agents (agent_id, identity) values ('alice', $1)", f"Alice the {MARKER}"
    )
    await connection.execute("insert into agents values ('off', false, $1)", f"no {MARKER} wanted")
    daemon = await daemons.start(
        log_level="debug", cleanup_seconds=1, executor_command="cat", heartbeat_seconds=0.1
    )
    for n in range(4):
        await ask(connection, f"hire {MARKER} number {n}", metadata=json.dumps({"who": MARKER}))
    await ask(
        connection, f"the {MARKER} fails; exit 3", status="failed", output=MARKER, error=MARKER, exit_code=3
    )
    await ask(connection, MARKER, agent_id="off")
    memory = await remember(
        connection, f"{MARKER}s like mallets", metadata=json.dumps({"who": MARKER}), source=MARKER
    )
    await remember(
        connection, MARKER, expires_at=await connection.fetchval("select now() - interval '1 hour'")
    )
    await connection.execute(
        "update agent_memory set content = content || ' and gongs' where id = $1", memory
    )
    for kind, columns in (
        ("recall", {"query": f"where is the {MARKER}?"}),
        ("context", {"query": MARKER, "agent_id": "alice"}),
        ("dream", {}),
    ):
        await insert(connection, "memory_requests", {"kind": kind, **columns})
    # As they may wait when memoryd is upgraded: an insert refuses them.
    for options in ({"match_count": MARKER}, {"sources": [MARKER]}, {MARKER: 1}):
        async with connection.transaction():
            waiting = await insert(connection, "memory_requests", {"kind": "recall", "query": MARKER})
            change = "update memory_requests set options = $2 where id = $1"
            await connection.execute(change, waiting, json.dumps(options))
    await until(connection, DONE)
    await until(connection, "select count(*) = 5 from agent_commands where status in ('completed', 'failed')")
    await until(connection, IDLE)
    await daemon.event("memories_expired")
    assert (
        await connection.fetchval("select count(*) from agent_memory where content like $1", f"%{MARKER}%")
        >= 6
    )
    await daemon.stop()
    assert_silent(daemon)


async def test_content_that_providers_echo_is_not_logged(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    with OpenAIServer(dimensions=DIMENSIONS) as server:
        await embedded_by(connection, "openai/any")
        daemon = await daemons.start(
            log_level="debug", embedder="openai/any", embedding_dimensions=DIMENSIONS, language_model="openai/any",
            openai_base_url=server.base_url, openai_api_key=KEY, max_attempts=1,
        )  # fmt: skip
        server.chat = lambda request: f"I refuse to speak of {request}"
        server.script(Fault.status(503, message=MARKER), Fault.status(401, message=f"no such key: {KEY}"))
        for n in range(3):
            await remember(connection, f"the {MARKER} fell ill {n}", kind="error")
        await until(connection, IDLE)
        # The server refuses this one and says what it was sent.
        await remember(connection, f"{POISON} for the {MARKER}")
        await until(connection, "select exists (select from memoryd.dead_letters)")
        await ask(connection, f"{POISON} {MARKER}")
        await insert(connection, "memory_requests", {"kind": "recall", "query": f"{POISON} {MARKER}"})
        await insert(connection, "memory_requests", {"kind": "dream"})
        await until(connection, DONE)
        await until(connection, IDLE)
        assert await daemon.event("job_discarded")
        assert await daemon.event("insight_by_rule")
        assert set(server.keys) == {KEY}
    await daemon.stop()
    assert_silent(daemon)


async def test_content_that_the_database_refuses_is_not_logged(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    """A constraint of the user's own: Postgres names the row that failed, and the message that it was given."""
    await connection.execute(
        "create function refuse_marker() returns trigger language plpgsql as "
        "$$ begin raise exception 'refused: %', new.content using detail = new.content, hint = new.content; end $$; "
        "create trigger refuse_marker before insert on agent_memory for each row "
        f"when (new.content like '%{MARKER}%') execute function refuse_marker()"
    )
    daemon = await daemons.start(log_level="debug", max_attempts=1)
    await ask(connection, MARKER, status="completed", output=MARKER)
    discarded = await daemon.event("job_discarded")
    assert discarded["topic"] == "capture"
    assert MARKER in await connection.fetchval("select error from memoryd.dead_letters")
    await connection.execute("drop trigger refuse_marker on agent_memory")
    await connection.execute(
        "alter table agent_memory add constraint no_marker check (content not like '%kettledrum%')"
    )
    await ask(connection, f"kettledrum {MARKER}", status="completed", agent_id="bob")
    await until(connection, "select count(*) = 2 from memoryd.dead_letters")
    await daemon.stop()
    assert_silent(daemon)
    assert "kettledrum" not in daemon.text()
