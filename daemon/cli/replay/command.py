"""memoryd replay: loads a history of finished tasks, to be remembered as if it had happened here.

Promise: in order of time, each batch in one statement; a line that cannot be stored is named and left out,
never its batch.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import typer

from daemon.cli.common import ended_by_ctrl_c, with_database
from daemon.cli.failure import Failure, sentences
from daemon.cli.output import as_json, number, remark, say
from daemon.db.presence import ALIVE, silence

if TYPE_CHECKING:
    from daemon.cli.replay.task_file import Task, TaskFile
    from daemon.db.pool import Database
    from daemon.settings import Settings

BATCH = 500
NAMED = 20
"""Lines that are left out, of which a person is told why."""
POLL_SECONDS = 0.1

LOAD = """
insert into public.agent_commands
    (agent_id, message, output, exit_code, error, status, created_at, started_at, finished_at,
     user_id, session_id, metadata)
select n.agent_id, n.message, n.output, n.exit_code, n.error, n.status, n.created_at, n.created_at,
       n.finished_at, n.user_id, n.session_id, n.metadata
from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::timestamptz[],
            $8::timestamptz[], $9::uuid[], $10::uuid[], $11::jsonb[])
     as n(agent_id, message, output, exit_code, error, status, created_at,
          finished_at, user_id, session_id, metadata)
"""

WATCHED = f"""
select exists (select from memoryd.daemons d where {ALIVE}) as by_daemon,
       (select count(*) from memoryd.dead_letters) as dead
"""  # noqa: S608 - a constant of ours
WAITING = "select count(*) from memoryd.jobs"


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did; rates in tasks a second. `remembered_*`: from the first load to the empty queue."""

    tasks: int
    skipped: int
    load_seconds: float
    load_rate: float
    remembered_seconds: float | None = None
    remembered_rate: float | None = None
    discarded: int = 0


def replay(
    file: str = typer.Argument(help="JSON lines; - is stdin."),
    times: int = typer.Option(1, min=1, help="Play the file this many times, one after the other."),
    shift: bool = typer.Option(False, "--shift", help="Move all times so that the newest task was just now."),
    until_done: bool = typer.Option(
        False, "--until-done", help="Wait until a daemon has remembered everything."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON, and on stderr every line that is left out."),
) -> None:
    """Load finished tasks from a file, for the daemon to remember.

    A line is a JSON object with agent_id, message and created_at, and optionally output, exit_code (0 is
    success), error, finished_at, user_id, session_id, metadata. Playing a file twice loads its tasks twice.
    Exit code 1: some lines were left out.
    """

    # The event loop would hear no signal while it reads what comes slowly, from a pipe or a terminal.
    with sentences(), _seekable(file) as opened:

        async def play(settings: Settings, database: Database) -> Replayed:
            return await _replay(
                settings, database, opened, times=times, shift=shift, until_done=until_done, names_all=json
            )

        done = with_database(play)
    if json:
        as_json(asdict(done))
    else:
        _show(done)
    if done.skipped or done.discarded:
        raise typer.Exit(1)


@contextmanager
def _seekable(name: str) -> Iterator[BinaryIO]:
    """The file, or a copy of what cannot be read twice."""
    if name == "-":
        with _copy(sys.stdin.buffer) as copied:
            yield copied
        return
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise Failure(f"{name} cannot be read: {error.strerror}.") from None
        yield opened if opened.seekable() else stack.enter_context(_copy(opened))


@contextmanager
def _copy(source: BinaryIO) -> Iterator[BinaryIO]:
    with tempfile.SpooledTemporaryFile(max_size=64_000_000) as copied:
        with ended_by_ctrl_c():
            shutil.copyfileobj(source, copied)
        copied.seek(0)
        yield cast("BinaryIO", copied)


async def _replay(
    settings: Settings,
    database: Database,
    file: BinaryIO,
    *,
    times: int,
    shift: bool,
    until_done: bool,
    names_all: bool,
) -> Replayed:
    from daemon.cli.replay.task_file import TaskFile

    heartbeats = silence(settings.heartbeat_seconds)
    watched, dead_before = await _watch(database, heartbeats)
    if until_done and not watched:
        raise Failure("No daemon is running that could remember them. Start one: memoryd run")
    unstorable: set[int] = set()

    complaints = 0

    def complain(line: int, reason: str) -> None:
        nonlocal complaints
        if line not in unstorable:
            complaints += 1
            if names_all or complaints <= NAMED:
                remark(f"line {line} {reason}")

    tasks = TaskFile(file, complain)
    began = time.perf_counter()
    loaded = 0
    if len(tasks):
        with _bar("loading", len(tasks) * times) as show:
            for batch in _batches(_played(tasks, times=times, shift=shift)):
                refused = await _load(database, batch)
                for task, reason in refused:
                    complain(task.line, reason)
                    unstorable.add(task.line)
                loaded += len(batch) - len(refused)
                show(loaded)
    if not names_all and complaints > NAMED:
        remark(f"and {complaints - NAMED:,} more; --json names all, on stderr")
    seconds = time.perf_counter() - began
    done = Replayed(loaded, tasks.skipped + len(unstorable), seconds, loaded / seconds)
    if not until_done:
        return done
    await _until_remembered(database, heartbeats)
    seconds = time.perf_counter() - began
    _, dead_after = await _watch(database, heartbeats)
    return Replayed(
        done.tasks,
        done.skipped,
        done.load_seconds,
        done.load_rate,
        remembered_seconds=seconds,
        remembered_rate=loaded / seconds,
        discarded=max(0, dead_after - dead_before),
    )


def _played(tasks: TaskFile, *, times: int, shift: bool) -> Iterator[Task]:
    """All tasks, `times` times. Each run ends before the next begins; the last has the times of the file, or is shifted."""
    now = datetime.now(UTC) - tasks.newest if shift else timedelta()
    for run in reversed(range(times)):
        by = now - run * tasks.span
        for task in tasks.tasks():
            try:
                yield task.later(by) if by else task
            except OverflowError:
                raise Failure("So many times over, the first tasks would lie before the year 1.") from None


def _batches(tasks: Iterator[Task]) -> Iterator[list[Task]]:
    while batch := list(islice(tasks, BATCH)):
        yield batch


async def _load(database: Database, tasks: Sequence[Task]) -> list[tuple[Task, str]]:
    """Inserts the tasks in one statement; returns those that the database refused, with its reason.

    A refused batch is split in halves until the tasks that cannot be stored are found.
    """
    import asyncpg

    try:
        await database.execute(
            LOAD,
            [task.agent_id for task in tasks],
            [task.message for task in tasks],
            [task.output for task in tasks],
            [task.exit_code for task in tasks],
            [task.error for task in tasks],
            [task.status for task in tasks],
            [task.created_at for task in tasks],
            [task.finished_at for task in tasks],
            [task.user_id for task in tasks],
            [task.session_id for task in tasks],
            [task.metadata for task in tasks],
        )
    except (
        asyncpg.DataError,
        asyncpg.IntegrityConstraintViolationError,
        asyncpg.ProgramLimitExceededError,
    ) as error:
        if len(tasks) == 1:
            return [(tasks[0], f"was refused by the database: {error.args[0]}")]
        middle = len(tasks) // 2
        return [*await _load(database, tasks[:middle]), *await _load(database, tasks[middle:])]
    return []


async def _until_remembered(database: Database, heartbeats: float) -> None:
    """Returns when the queue is empty. Raises Failure when no daemon is left to empty it."""
    waiting = most = await database.fetchval(WAITING)
    looked = time.monotonic()
    with _bar("remembering", most) as show:
        while waiting:
            await asyncio.sleep(POLL_SECONDS)
            waiting = await database.fetchval(WAITING)
            most = max(most, waiting)
            show(most - waiting)
            if time.monotonic() - looked > 5.0:
                looked = time.monotonic()
                watched, _ = await _watch(database, heartbeats)
                if waiting and not watched:
                    left = number(waiting, "job")
                    raise Failure(f"The last daemon has gone, with {left} left to do. Start one: memoryd run")


async def _watch(database: Database, heartbeats: float) -> tuple[bool, int]:
    """Whether a daemon runs, and how many dead letters there are."""
    (row,) = await database.fetch(WATCHED, heartbeats)
    return bool(row["by_daemon"]), int(row["dead"])


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(f"{what:<11}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda done: progress.update(bar, completed=done)


def _show(done: Replayed) -> None:
    say(f"Loaded {number(done.tasks, 'task')} in {done.load_seconds:.2f} s: {done.load_rate:,.0f} a second.")
    if done.remembered_seconds is not None:
        say(f"Remembered in {done.remembered_seconds:.2f} s: {done.remembered_rate:,.0f} a second.")
    if done.skipped:
        remark(f"{number(done.skipped, 'line')} skipped.")
    if done.discarded:
        remark(f"{number(done.discarded, 'job')} discarded. See: memoryd dead")
