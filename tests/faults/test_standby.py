"""A real streaming standby: commands and MCP read from it as from its primary, what writes says so, a daemon waits there.

What each function of SQL answers there is compared in tests/integration/recall/test_read_only.py.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from daemon.db.server import Standby, StandbyError
from daemon.plugins import Check
from daemon.served import WHY
from plugins.health.checks import as_shown, check_standby
from plugins.health.status import read_status
from tests.support.access.acting import ANN, acting_as
from tests.support.access.refusals import refused
from tests.support.database.schemas import apply, connected
from tests.support.database.servers import Server
from tests.support.database.standby import Pair, caught_up, pair
from tests.support.processes.commands import Finished, memoryd
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask as command
from tests.support.rows import remember
from tests.support.services.http import ask
from tests.support.services.mcp_clients import done, failed, over_stdio, resource
from tests.support.waiting import IDLE, READY, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

REFUSAL = str(StandbyError())
ASIDE = r"CONTEXT [0-9a-f]{12}|code [0-9a-f]{12}|\"(exported_at|score)\": [^,\n]+"
"""What two calls have each its own: the code of a context, times, and what fades with time."""


@pytest.fixture(scope="module")
def servers(server: Server, made_data: Path) -> Iterator[Pair]:
    """A primary with its standby."""
    with pair(server.programs, made_data) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    """The same, with a daemon at the primary, and memories that the standby shows, too."""
    daemons = Daemons(servers.primary.socket_url, tmp_path_factory.mktemp("daemon"))
    await daemons.start()
    async with (
        connected(servers.primary.socket_url) as primary,
        connected(servers.standby.socket_url) as standby,
    ):
        await remember(primary, "the wombat of the team sleeps in the shed")
        await remember(primary, "the wombat of ann", user_id=ANN)
        await until(primary, IDLE)
        await caught_up(primary, standby)
    yield servers
    await daemons.kill_all()


async def both(world: Pair, folder: Path, *arguments: str) -> tuple[Finished, Finished]:
    """What a command answers at the standby, and then at the primary, which may write a row about it."""
    async with (
        connected(world.primary.socket_url) as primary,
        connected(world.standby.socket_url) as standby,
    ):
        await caught_up(primary, standby)
    there = await memoryd(*arguments, url=world.standby.socket_url, folder=folder)
    return there, await memoryd(*arguments, url=world.primary.socket_url, folder=folder)


# What reads.


@pytest.mark.parametrize(
    "arguments",
    [
        ("recall", "wombat", "--json"),
        ("recall", "wombat", "--user", str(ANN), "--json"),
        ("context", "alice", "where does the wombat sleep?"),
        ("export", str(ANN)),
    ],
)
async def test_a_command_that_reads_answers_as_at_the_primary(
    world: Pair, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    there, here = await both(world, tmp_path, *arguments)
    assert (there.code, there.sentences) == (0, []) == (here.code, here.sentences)
    assert re.sub(ASIDE, "", there.out) == re.sub(ASIDE, "", here.out)
    assert "wombat" in there.out


async def test_status_says_that_it_is_a_standby_and_how_far_behind(world: Pair, tmp_path: Path) -> None:
    there, here = await both(world, tmp_path, "status", "--json")
    assert (there.code, here.code) == (0, 0)
    assert here.json["standby"] is None
    assert there.json["standby"]["receiving"] is True
    assert there.json["standby"]["behind_seconds"] >= 0
    same = ("memories", "commands", "agents", "schema_version", "schema_trouble", "unindexed", "unembedded")
    assert [there.json[name] for name in same] == [here.json[name] for name in same]
    assert [one["id"] for one in there.json["daemons"]] == [one["id"] for one in here.json["daemons"]]
    shown = await memoryd("status", url=world.standby.socket_url, folder=tmp_path)
    assert "This is a standby, for reads only: " in shown.out


async def test_the_doctor_finds_no_problem_at_a_standby(world: Pair, tmp_path: Path) -> None:
    there, here = await both(world, tmp_path, "doctor", "--json")
    found = {check["name"]: check for check in there.json}
    told = {check["name"]: check["verdict"] for check in here.json}
    assert (there.code, here.code) == (0, 0)
    assert found["standby"]["verdict"] == "ok"
    assert "a standby, for reads only" in found["standby"]["found"]
    # Nobody can listen at a standby.
    assert told.keys() - found.keys() == {"wake_up"}
    # Of connections each server has its own.
    assert {n: c["verdict"] for n, c in found.items() if n not in ("standby", "connections")} == {
        n: verdict for n, verdict in told.items() if n not in ("wake_up", "connections")
    }


async def test_a_standby_bears_the_load_of_a_backup(world: Pair, tmp_path: Path) -> None:
    made = await memoryd("backup", str(tmp_path / "of.backup"), url=world.standby.socket_url, folder=tmp_path)
    assert made.code == 0, made.err
    assert re.search(r" [1-9][0-9,]* memor(y|ies), ", made.out), made.out


async def test_how_far_behind_it_is_while_it_replays_nothing(world: Pair) -> None:
    async with (
        connected(world.primary.socket_url) as primary,
        connected(world.standby.socket_url) as standby,
    ):
        await standby.execute("select pg_wal_replay_pause()")
        await until(standby, "select pg_get_wal_replay_pause_state() = 'paused'")
        try:
            await remember(primary, "not shown yet")
            await until(standby, "select pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()")
            told = (await read_status(standby)).standby
        finally:
            await standby.execute("select pg_wal_replay_resume()")
        await caught_up(primary, standby)
    assert told is not None
    assert told.receiving
    assert told.behind_seconds is not None
    assert told.behind_seconds > 0


async def test_mcp_reads_and_says_in_words_that_it_cannot_write(world: Pair, tmp_path: Path) -> None:
    async with over_stdio(world.standby.socket_url, tmp_path, "--agent", "alice") as client:
        found = await done(client, "recall", query="wombat")
        assert [one["content"] for one in found["results"]] == ["the wombat of the team sleeps in the shed"]
        assert found["recall_id"] is None
        assert "wombat" in await done(client, "context", message="where does the wombat sleep?")
        assert (await done(client, "explain", of="recall", text="wombat"))["results"]
        assert "wombat" in await resource(client, "memoryd://memories")
        for tool, given in (
            ("remember", {"text": "a platypus came by"}),
            ("know", {"text": "Wombats sleep by day", "category": "principle", "title": "Wombats"}),
            ("forget", {"ids": [found["results"][0]["id"]]}),
        ):
            said = await failed(client, tool, **given)
            assert said.startswith("This memory is read-only: its database is a standby"), (tool, said)
        assert (await done(client, "recall", query="wombat"))["results"] == found["results"]


async def test_a_read_of_which_the_log_takes_no_line_is_refused(world: Pair) -> None:
    async with connected(world.standby.socket_url) as standby:
        await standby.execute("set log_min_messages = fatal")
        async with acting_as(standby, ANN):
            state, said, hint = await refused(standby, "select * from recall('wombat')")
    assert (state, "log takes it" in said, "log_min_messages" in hint) == ("25006", True, True)


# What writes.


@pytest.mark.parametrize("arguments", [("migrate",), ("migrate", "--dry-run"), ("run", "--once")])
async def test_what_would_change_the_schema_is_refused(
    world: Pair, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    told = await memoryd(*arguments, url=world.standby.socket_url, folder=tmp_path)
    assert (told.code, told.sentences) == (1, [REFUSAL])


async def test_another_command_that_writes_names_the_primary(world: Pair, tmp_path: Path) -> None:
    told = await memoryd("dream", url=world.standby.socket_url, folder=tmp_path)
    assert told.code == 1
    assert told.sentences[-1].endswith("If it is a standby, give DATABASE_URL the address of its primary.")


async def test_a_daemon_waits_at_a_standby_and_ends_well(world: Pair, tmp_path: Path) -> None:
    daemons = Daemons(world.standby.socket_url, tmp_path)
    waiting = await daemons.start(wait=False, http=0, poll_seconds=0.02)
    try:
        assert (await waiting.event("standby"))["level"] == "warning"
        site = (await waiting.event("http_listening"))["url"]
        assert (await ask(site, "/health/live")).json == {"status": "live"}
        ready = await ask(site, "/health/ready")
        assert (ready.status, ready.json) == (503, {"status": "not ready", "reason": WHY})
        assert "memoryd_database_up 0.0" in (await ask(site, "/metrics")).body
        assert await waiting.stop() == 0
    finally:
        await daemons.kill_all()
    assert [line["event"] for line in waiting.lines] == ["standby", "http_listening", "stopping"]


async def test_a_daemon_begins_when_its_standby_is_promoted(
    server: Server, made_data: Path, tmp_path: Path
) -> None:
    with pair(server.programs, made_data) as servers:
        await apply(servers.primary.socket_url)
        async with connected(servers.primary.socket_url) as primary:
            made = await command(primary, "deploy the staging server")
            async with connected(servers.standby.socket_url) as standby:
                await caught_up(primary, standby)
        daemons = Daemons(servers.standby.socket_url, tmp_path)
        waiting = await daemons.start(wait=False, poll_seconds=0.02)
        try:
            await waiting.event("standby")
            # Away for a moment, it is still awaited.
            servers.standby.restart()
            async with connected(servers.standby.socket_url) as promoted:
                assert await promoted.fetchval("select pg_promote()")
                await waiting.event("promoted")
                await waiting.event("daemon_started")
                assert await until(promoted, READY, made)
            assert await waiting.stop() == 0
        finally:
            await daemons.kill_all()
        events = [line["event"] for line in waiting.lines]
        assert events.count("standby") == 1
        assert events.index("standby") < events.index("promoted") < events.index("daemon_started")


# What the doctor makes of it.


@pytest.mark.parametrize(
    ("standby", "verdict", "found"),
    [
        (Standby(receiving=True, behind_seconds=0.0), "ok", "0.0 s behind its primary."),
        (Standby(receiving=True, behind_seconds=61.0), "warning", "61.0 s behind its primary."),
        (Standby(receiving=False, behind_seconds=3.0), "ok", "from which it receives nothing now."),
        (Standby(receiving=False, behind_seconds=90.0), "warning", "from which it receives nothing now."),
        (Standby(receiving=True, behind_seconds=None), "ok", "it cannot say how far it is behind."),
    ],
)
async def test_what_the_doctor_says_of_a_standby(standby: Standby, verdict: str, found: str) -> None:
    check = check_standby(standby)
    assert (check.verdict, check.found.endswith(found)) == (verdict, True)
    assert (check.advice is not None) == (verdict != "ok")


async def test_a_problem_of_the_primarys_daemons_is_none_of_the_standbys() -> None:
    standby: Any = Standby(receiving=True, behind_seconds=0.0)
    wrong, well = Check("daemons", "problem", "No daemon is running.", "Start one"), Check("queue", "ok", "")
    assert (as_shown(wrong, None), as_shown(well, standby)) == (wrong, well)
    shown = as_shown(wrong, standby)
    assert (shown.verdict, shown.found) == ("warning", "No daemon is running.")
    assert "memoryd doctor" in (shown.advice or "")
