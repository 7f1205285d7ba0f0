"""One process, many databases on two servers: what goes wrong in one is nothing to the others."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.content.finished import all_done
from tests.support.database.cut_wire import CutWire
from tests.support.database.logins import login, login_url
from tests.support.database.many import RESTS, Many, many_databases, serve, served
from tests.support.database.schemas import embedded_by
from tests.support.database.servers import Server
from tests.support.folders import quiet_port
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.processes.load import load_on
from tests.support.rows import ask, column, remember
from tests.support.waiting import READY, until

CONNECTIONS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name in ('memoryd', 'memoryd listener', 'memoryd resting')
"""
CONTEXTS = "select sum(done)::integer from memoryd.activity where topic = 'context'"
LISTENS = """
select exists (select from pg_stat_activity
               where datname = current_database() and application_name = 'memoryd resting'
                 and state = 'idle' and (query like '%memoryd.jobs%' or query = 'select 1'))
"""
KILLED = """
select count(*) from (
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name like 'memoryd%') k
"""
LATER = "insert into memoryd.migrations (version, name, checksum) values (9999, 'of_later', 'x')"
SECRET = "select content from recall('what is the code of the door?', agent_id => 'alice', match_count => 5)"


async def test_databases_of_two_servers_are_served_by_one_process(
    two_servers: list[tuple[Server, str]], processes: Daemons, tmp_path: Path
) -> None:
    async with many_databases(two_servers, 3, tmp_path) as many:
        for connection in many.connections.values():
            await connection.execute(
                "insert into memoryd.jobs (topic, ref) values ('bell', gen_random_uuid())"
            )
        process = await serve(processes, many.list(), databases_at_once=6)
        for name, connection in many.connections.items():
            await remember(connection, f"the code of the door is {name}", agent_id="alice")
        contexts = dict(
            zip(
                many.connections,
                await asyncio.gather(*map(served, many.connections.values())),
                strict=True,
            )
        )
        assert len(contexts) == 6
        for name, connection in many.connections.items():
            assert await column(connection, SECRET) == [f"the code of the door is {name}"]
        # What nobody needs is left alone, also where a job of a plugin that was taken away waits: one connection each, and it
        # counts as served.
        for connection in many.connections.values():
            await until(connection, RESTS)
        assert set((await many.each(CONNECTIONS)).values()) == {1}
        # What was done there was written before the rest.
        assert set((await many.each(CONTEXTS)).values()) == {1}
        status = await Commands(None, tmp_path)("status", database_urls=str(many.file))
        assert status.code == 0, status.err
        assert status.out.count("rest") >= 6
        # It wakes for what is written, there alone.
        begun = len(process.events("daemon_started"))
        await served(many.connections["s1-2"])
        assert {line["database"] for line in process.events("daemon_started")[begun:]} == {"s1-2"}
        # Each line says of which database it is.
        whose = {line.get("database") for line in process.events("daemon_stopped")}
        assert whose == set(many.urls)
        assert await process.stop() == 0
        assert set((await many.each("select count(*) from memoryd.daemons")).values()) == {0}


async def test_what_is_wrong_with_one_delays_no_other(many: Many, processes: Daemons) -> None:
    _, later, cut, well = many.urls
    await many.connections[later].execute(LATER)
    listed = many.list(
        later, cut, well, refused="postgresql://nobody:secret@127.0.0.1:1/none", missing=f"{many.urls[well]}"
        .replace(many.urls[well].partition("?")[0].rpartition("/")[2], "memoryd_test_nobody"),
    )  # fmt: skip
    process = await serve(processes, listed, databases_at_once=1)
    for name in ("refused", "missing", later):
        told = await process.event("database_not_served", database=name)
        assert "secret" not in json.dumps(told)
    # The daemon of one of them loses its connections again and again.
    for _ in range(3):
        await served(many.connections[cut])
        await many.connections[cut].fetchval(KILLED)
        await served(many.connections[well])
    # Once it is mended, it is served without a restart; each reason was told once.
    await many.connections[later].execute("delete from memoryd.migrations where version = 9999")
    await served(many.connections[later])
    told_of = [line["database"] for line in process.events("database_not_served")]
    # Of the one that is cut, too, where that happens while its daemon starts.
    assert sorted(name for name in told_of if name != cut) == sorted(("refused", "missing", later))
    await process.event("database_served", database=later)
    assert process.events("part_failed") == []


async def test_what_a_database_refuses_is_told_by_its_name_and_without_its_password(
    many: Many, processes: Daemons
) -> None:
    locked, other, well, _ = many.urls
    await embedded_by(many.connections[other], "openai/other")
    async with login(many.connections[locked], many.urls[locked]) as (role, _):
        stranger = login_url(many.urls[locked], role, "secret")
        process = await serve(
            processes, many.list(other, well, locked=stranger), embedder="local/wordllama-256"
        )
        for name, said in (("locked", "permission denied"), (other, "openai/other")):
            assert said in (await process.event("database_not_served", database=name))["reason"]
        await served(many.connections[well])
        assert await process.stop() == 0
    assert len(process.events("database_not_served")) == 2
    assert ":secret" not in process.text()


async def test_two_processes_share_databases_and_one_is_killed(many: Many, processes: Daemons) -> None:
    names = list(many.urls)
    settings = {"executor_command": "cat", "claim_seconds": 3, "heartbeat_seconds": 1}
    await serve(processes, many.list(*names[:3]), **settings)
    second_list = many.file.with_name("second")
    second_list.write_text("".join(f"{name}={many.urls[name]}\n" for name in names[1:]))
    second = await serve(processes, str(second_list), **settings)
    third: DaemonProcess | None = None
    loads = [load_on(many.urls[name], rounds=6, pause=0.05) for name in names]
    async with loads[0] as one, loads[1], loads[2], loads[3] as last:
        await one.at_least(2)
        await last.at_least(2)
        await second.kill()
        third = await serve(processes, str(second_list), **settings)
    for connection in many.connections.values():
        await all_done(connection, timeout=120)
    assert third is not None
    assert await third.stop() == 0


async def test_the_list_is_read_again_at_sighup(many: Many, processes: Daemons) -> None:
    first, second, third, _ = many.urls
    process = await serve(processes, many.list(first, second))
    await served(many.connections[first])
    await served(many.connections[second])

    # Half written, or wrong: nothing changes.
    whole = many.file.read_text()
    for wrong in (whole + f"{third}={many.urls[third]}"[:-5], "", f"{whole}Not A Name={many.urls[third]}\n"):
        many.file.write_text(wrong)
        seen = len(process.lines)
        process.process.send_signal(1)
        told = await process.event("databases_not_read", after=seen)
        assert "keeper@" not in told["reason"]
    await served(many.connections[first])

    many.list(second, third)
    process.process.send_signal(1)
    await process.event("databases_read", databases=2, changed=2)
    await served(many.connections[third])
    await until(many.connections[first], "select not exists (select from memoryd.daemons)")
    assert await many.connections[first].fetchval(CONNECTIONS) == 0
    await served(many.connections[second])


async def test_one_that_is_to_sleep_has_no_connection(many: Many, processes: Daemons) -> None:
    name, *_ = many.urls
    process = await serve(processes, many.list(name), suspend_minutes=0.05)
    await process.event("daemon_stopped", database=name)
    await until(many.connections[name], RESTS)
    await until(many.connections[name], f"select ({CONNECTIONS}) = 0")
    alive = await Commands(many.urls[name], many.file.parent)("status")
    assert alive.code == 0, alive.out
    # After the rest it looks.
    await served(many.connections[name])


async def test_a_connection_that_dies_without_a_word_while_a_database_rests_is_found(
    many: Many, processes: Daemons, folder: Path
) -> None:
    name, *_ = many.urls
    opened = many.connections[name]
    async with CutWire(many.urls[name], str(folder)) as wire:
        await serve(processes, many.list("s0-1", wired=wire.url), heartbeat_seconds=0.2)
        await served(opened)
        await until(opened, LISTENS)
        wire.silence()
        # Nobody is told of it.
        await served(opened, "restart the worker")


async def test_what_came_while_a_killed_process_had_databases_at_rest_is_done_by_the_next_one(
    many: Many, processes: Daemons
) -> None:
    first, second, *_ = many.urls
    listed = many.list(first, second)
    process = await serve(processes, listed)
    for name in (first, second):
        await served(many.connections[name])
        await until(many.connections[name], RESTS)
    await process.kill()
    command = await ask(many.connections[first], "restart the worker")
    again = await serve(processes, listed)
    await until(many.connections[first], READY, command)
    for name in (first, second):
        await until(many.connections[name], RESTS)
    assert again.events("database_not_served") == []


async def test_each_gets_its_turn_where_one_at_a_time_is_worked_in(many: Many, processes: Daemons) -> None:
    await serve(processes, many.list(), databases_at_once=1)
    for connection in many.connections.values():
        await ask(connection, "restart the worker", agent_id="alice")
    for connection in many.connections.values():
        await until(connection, "select bool_and(status = 'ready') from agent_commands")


async def test_commands_go_over_all_databases_or_take_one(many: Many, tmp_path: Path) -> None:
    names = list(many.urls)
    listed = many.list(*names[:2], gone="postgresql://nobody@127.0.0.1:1/none")
    memoryd = Commands(None, tmp_path)
    migrated = await memoryd("migrate", database_urls=listed)
    assert migrated.code == 1
    assert migrated.out.count("== ") == 3
    assert migrated.out.count("The schema is up to date.") == 2
    assert "gone: The database cannot be reached" in migrated.err
    status = await memoryd("--database", names[1], "status", "--json", database_urls=listed)
    assert (status.code, status.json["name"]) == (1, names[1])  # no daemon is alive
    folder = tmp_path / "backups"
    folder.mkdir()
    backup = await memoryd("backup", str(folder), database_urls=many.list(*names[:2]))
    assert backup.code == 0, backup.err
    assert sorted(path.name for path in folder.iterdir()) == sorted(names[:2])
    for wrong, code in ((("recall", "a door"), 2), (("--database", "nobody", "recall", "a door"), 2)):
        refused = await memoryd(*wrong, database_urls=listed)
        assert refused.code == code
        assert names[0] in refused.err
    alone = await Commands(many.urls[names[0]], tmp_path)("--database", names[0], "recall", "a door")
    assert alone.code == 2
    found = await memoryd("--database", names[0], "recall", "a door", database_urls=listed)
    assert found.code == 0, found.err


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("postgresql://h/a", "is not NAME=URL"),
        ("a=postgresql://h/x b=postgresql://h:5432/x", "two names for one database"),
        ("a=postgresql://h/x a=postgresql://h/y", "twice"),
        ("'a=postgresql://h/x", "is no name"),
        ("a=mysql://h/x", "names no database"),
        ("a=postgresql://me:hush/word@h:1/x", "cannot be read"),
        ("/nowhere/at/all", "cannot be read"),
        (" ", "cannot be read"),
    ],
)
async def test_a_list_that_is_wrong_is_refused(listed: str, said: str, tmp_path: Path) -> None:
    refused = await Commands(None, tmp_path)("run", database_urls=listed)
    assert refused.code in (1, 2)
    assert said in " ".join(refused.sentences)
    assert "hush" not in refused.err


async def test_probes_and_metrics_name_their_database(many: Many, processes: Daemons) -> None:
    name, other, *_ = many.urls
    port = quiet_port()
    listed = many.list(name, other, gone="postgresql://nobody@127.0.0.1:1/none")
    process = await serve(processes, listed, http=port, rest_seconds=30)
    await process.event("http_listening")
    await process.event("database_not_served", database="gone")
    await served(many.connections[name])

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    async def ask_for(path: str) -> tuple[int, Any]:
        return await asyncio.to_thread(get, path)

    assert (await ask_for("/health/live"))[0] == 200
    code, said = await ask_for("/health/ready")
    assert (code, json.loads(said)["not_ready"]) == (200, ["gone"])
    assert (await ask_for(f"/health/ready/{name}"))[0] == 200
    assert (await ask_for("/health/ready/gone"))[0] == 503
    assert (await ask_for("/health/ready/nobody"))[0] == 404
    code, said = await ask_for("/metrics")
    assert code == 200
    handled = f'memoryd_jobs_handled_total{{database="{name}",outcome="done",topic="context"}} 1.0'
    assert handled in said
    assert f'memoryd_database_state{{database="{name}",state="working"}} 1.0' in said
    assert 'memoryd_database_up{database="gone"} 0.0' in said
    assert said.count("memoryd_build_info{") == 1
    assert said.count("\nprocess_resident_memory_bytes ") == 1
