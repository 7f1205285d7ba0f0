"""What many databases share in one process (turns, programs, dreams, builds): one that wants all of it gets its share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.support.content.dreams import failures
from tests.support.content.finished import all_done, all_indexed
from tests.support.database.many import RESTS, Many, serve, served
from tests.support.database.schemas import connected, embedded_by
from tests.support.processes.daemons import Daemons
from tests.support.rows import DIMENSIONS, ask, remember
from tests.support.services.openai_server import HANG, Fault, OpenAIServer
from tests.support.services.remote import CALIBRATED, CountingServer
from tests.support.waiting import FINISHED, IDLE, beats, until

ONE_AT_A_TIME: dict[str, Any] = {"databases_at_once": 1, "rest_seconds": 3600}
# As of a daemon that works on it all the time.
NEVER_DONE = """
insert into memoryd.jobs (topic, claimed_by, attempt, visible_at) values ('index', 1, 1, now() + interval '1 hour')
"""
RUNNING = "select status = 'running' from agent_commands where id = $1"
TASKS = """
insert into agent_commands (agent_id, message)
select 'robot ' || n, 'restart worker ' || n from generate_series(1, 4) n
"""
DREAMS = "select count(*) from dream_sessions where status = 'running'"
# As of so many that an index is due, whatever else waits.
MANY_PASSAGES = "insert into memoryd.scope_statistics values (1, 'memory', 'english', 1000000, 1000000)"
BUILDS = """
select exists (select from pg_stat_activity where datname = current_database()
               and application_name = 'memoryd dense index' and wait_event_type = 'Lock')
"""
BUILT = "select count(*) from memoryd.settings where key like 'dense\\_index.%'"
FAILED = "select count(*) from agent_commands where status <> 'completed' or exit_code <> 0"


def script(folder: Path, text: str) -> str:
    """A program for the executor."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_who_has_nothing_to_do_waits_for_no_rest_while_others_wait(
    many: Many, processes: Daemons
) -> None:
    await serve(processes, many.list(), **ONE_AT_A_TIME)
    for _ in range(2):
        for connection in many.connections.values():
            await served(connection)


async def test_one_that_always_has_work_gives_up_its_turn(many: Many, processes: Daemons) -> None:
    busy, *others = many.urls
    await many.connections[busy].execute(NEVER_DONE)
    process = await serve(processes, many.list(busy), databases_at_once=1, rest_seconds=2)
    await process.event("daemon_started", database=busy)
    many.list()
    process.process.send_signal(1)
    for name in others:
        await served(many.connections[name])
    # And has one again.
    await served(many.connections[busy])


async def test_a_program_is_not_ended_for_others_and_they_do_not_wait_for_it(
    many: Many, processes: Daemons, tmp_path: Path
) -> None:
    first, second, *_ = many.urls
    program = script(
        tmp_path,
        f"""cd {tmp_path}
        case "$MEMORYD_AGENT_ID" in long) echo begun >> runs; while [ ! -e enough ]; do sleep 0.05; done;; esac
        echo done""",
    )
    await serve(
        processes,
        many.list(first, second),
        databases_at_once=1,
        rest_seconds=1,
        shutdown_seconds=0.1,
        executor_command=program,
    )
    long = await ask(many.connections[first], "migrate the tables", agent_id="long")
    await until(many.connections[first], RUNNING, long)
    for _ in range(2):
        short = await ask(many.connections[second], "restart the worker")
        await until(many.connections[second], FINISHED, short)
        # The one with the program goes on, too.
        await until(many.connections[first], FINISHED, await ask(many.connections[first], "look at the log"))
    (tmp_path / "enough").touch()
    await until(many.connections[first], FINISHED, long)
    for name in (first, second):
        await all_done(many.connections[name])
        assert await many.connections[name].fetchval(FAILED) == 0
    assert (tmp_path / "runs").read_text() == "begun\n"


async def test_no_more_programs_than_allowed_run_in_all_databases(
    many: Many, processes: Daemons, tmp_path: Path
) -> None:
    (tmp_path / "running").mkdir()
    program = script(
        tmp_path,
        f"""cd {tmp_path}/running
        touch $$; set -- *; sleep 0.03; rm $$
        [ $# -le 2 ]""",
    )
    for connection in many.connections.values():
        await connection.execute(TASKS)
    # No poll comes to help.
    await serve(processes, many.list(), executor_command=program, executor_total=2, poll_seconds=600)
    for connection in many.connections.values():
        await all_done(connection)
        assert await connection.fetchval(FAILED) == 0


async def test_what_waits_for_a_provider_keeps_no_turn_and_is_not_lost(
    many: Many, processes: Daemons
) -> None:
    with CountingServer(dimensions=DIMENSIONS) as server:
        server.always = Fault.status(500)
        first, second, *_ = many.urls
        both = {name: many.connections[name] for name in (first, second)}
        for connection in both.values():
            await embedded_by(connection, "openai/test")
            await connection.execute(CALIBRATED)
        settings = {
            "embedder": "openai/test",
            "embedding_dimensions": DIMENSIONS,
            "openai_base_url": server.base_url,
        }
        process = await serve(processes, many.list(*both), **ONE_AT_A_TIME | settings)
        for name, connection in both.items():
            await remember(connection, f"the code of the door is {name}")
            await served(connection)
        await process.event("provider_lost")
        for connection in both.values():
            assert not await connection.fetchval(IDLE)
        server.heal()
        for connection in both.values():
            await served(connection)
            await all_indexed(connection)
    assert sorted(text for text in server.paid if "door" in text) == [
        f"the code of the door is {name}" for name in (first, second)
    ]


async def test_one_dream_at_a_time(many: Many, processes: Daemons) -> None:
    with OpenAIServer() as server:
        server.always = HANG
        for connection in many.connections.values():
            await failures(connection, 3)
        await serve(
            processes,
            many.list(),
            language_model="openai/any",
            openai_base_url=server.base_url,
            heartbeat_seconds=0.1,
            dream_idle_hours=0.0001,
        )
        await asyncio.to_thread(server.hanging.wait, 60)
        for connection in many.connections.values():
            await beats(connection)
        assert list((await many.each(DREAMS)).values()).count(1) == 1
        server.heal()
        for connection in many.connections.values():
            await until(connection, "select exists (select from dream_sessions where status = 'completed')")


async def test_one_build_of_an_index_at_a_time_and_who_builds_none_waits_for_none(
    many: Many, processes: Daemons
) -> None:
    first, second, third, _ = many.urls
    for name in (first, second):
        await many.connections[name].execute(MANY_PASSAGES)
    async with connected(many.urls[first]) as holder, holder.transaction():
        await holder.execute("lock table memoryd.entries in share row exclusive mode")
        process = await serve(processes, many.list(first))
        await until(many.connections[first], BUILDS)
        many.list(first, second, third)
        process.process.send_signal(1)
        await process.event("daemon_started", database=second)
        await until(many.connections[third], RESTS)
        assert await many.connections[second].fetchval(BUILT) == 0
    for name in (first, second):
        await until(many.connections[name], BUILT)
