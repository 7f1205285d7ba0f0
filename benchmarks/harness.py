"""What the benchmarks share: a command's options, an embedded Postgres, a daemon on it, times, figures as tables and as JSON.

The Postgres is the one that `memoryd run` brings, with its own durable settings, unless --database-url names another.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import asyncpg

from daemon.db.migrator import migrate
from daemon.db.settings import Model
from daemon.db.tokens import load_tokens
from plugins.embedded.server import EmbeddedPostgres
from tests.support.processes.constants import CONSTANTS, VARIABLE, variable_of

EMBEDDER = "local/wordllama-256"
DIMENSIONS = 256
LOCAL = Model(EMBEDDER, DIMENSIONS)
TICKS = 100
IDLE = "select not exists (select from memoryd.jobs)"

Figures = dict[str, object]
"""What was measured, by name."""


def command(
    about: str | None,
    measure: Callable[..., Awaitable[Figures | list[Figures]]],
    *,
    server: Mapping[str, str] | None = None,
) -> None:
    """Runs a measurement as a command, and reports its figures.

    `measure` gets the URL of a database that is made for it, and a connection to it. Its keyword arguments are options of the
    command, with their types and defaults; what `Annotated` says beside a type is the help. A measurement that has printed
    tables returns a list. `server` has settings of the embedded Postgres.
    """
    parser = arguments(about or "")
    for parameter in inspect.signature(measure, eval_str=True).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            _add_option(parser, parameter)
    given = vars(parser.parse_args())
    url, file = given.pop("database_url"), given.pop("json")

    async def run(where: str) -> Figures | list[Figures]:
        connection = await asyncpg.connect(where)
        try:
            return await measure(where, connection, **given)
        finally:
            await connection.close()

    with database(url, server=server) as where:
        figures = asyncio.run(run(where))
    report(Path(sys.argv[0]).stem, figures, file)


def _add_option(parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
    kind, said = parameter.annotation, ""
    if get_origin(kind) is Annotated:
        kind, said = get_args(kind)
    option, default = f"--{parameter.name.replace('_', '-')}", parameter.default
    needed = default is parameter.empty
    if kind is bool:
        parser.add_argument(option, action="store_true", help=said)
    elif get_origin(kind) is Literal:
        parser.add_argument(option, choices=get_args(kind), default=default, help=said)
    else:
        several = "+" if get_origin(kind) is list else None
        kind = (get_args(kind) or (kind,))[0]  # of `list[Path]` and of `Path | None`
        default = None if needed else default
        parser.add_argument(option, type=kind, default=default, required=needed, nargs=several, help=said)


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--database-url", help="an empty database to use instead of an embedded Postgres")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    return parser


@contextmanager
def database(
    url: str | None, model: Model = LOCAL, *, server: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A migrated database, embedded by this model, gone at the end if it was made here."""
    if url is not None:
        asyncio.run(prepare(url, model))
        yield url
        return
    with embedded(model, options=server) as made:
        yield made.socket_url


@contextmanager
def embedded(model: Model = LOCAL, *, options: Mapping[str, str] | None = None) -> Iterator[EmbeddedPostgres]:
    """An embedded Postgres with a migrated database, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        server = EmbeddedPostgres(Path(folder), options=options)
        server.start()
        try:
            asyncio.run(prepare(server.socket_url, model))
            yield server
        finally:
            server.stop()


def cpu(pid: int) -> float:
    """Seconds of processor that a process and the children that it waited for have used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def family(pid: int) -> float:
    """The same of a process with the children that run."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    seconds = 0.0
    for child in children:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            seconds += cpu(int(child))
    return cpu(pid) + seconds


def megabytes(pid: int, name: str = "VmHWM") -> float:
    """The most memory that a process has had, in MB, or what it has now (VmRSS); 0 once it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1.024 / 1000
    return 0.0


def measured(command: Sequence[str], environment: Mapping[str, str]) -> tuple[bytes, dict[str, float]]:
    """Runs a command: what it printed; its peak memory, with that of its children, in MB; seconds of processor and in all.

    Its memory is looked up while it runs: `ru_maxrss` of a child has what its parent had before it.
    """
    peaks: dict[int, float] = {}
    began = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, env=environment, stdout=out)
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            with contextlib.suppress(FileNotFoundError):
                listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
                for pid in (process.pid, *map(int, listed.split())):
                    peaks[pid] = megabytes(pid) or peaks.get(pid, 0.0)
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(ended[1])
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        out.seek(0)
        return out.read(), {
            "peak_mb": round(sum(peaks.values())),
            "cpu_seconds": round(ended[2].ru_utime + ended[2].ru_stime, 1),
            "wall_seconds": round(time.perf_counter() - began, 1),
        }


async def prepare(url: str, model: Model = LOCAL) -> None:
    """Migrates an empty database for this model."""
    connection = await asyncpg.connect(url)
    await migrate(
        connection, dimensions=model.dimensions, embedder=model.embedder, instructions=model.instructions
    )
    await load_tokens(connection)
    await connection.close()


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon under measurement."""

    process: subprocess.Popen[bytes]
    started: float
    """When the process was started, by time.perf_counter."""


@asynccontextmanager
async def daemon(url: str, **settings: object) -> AsyncIterator[Running]:
    """A real `memoryd run`, working when this is entered. Constants are given as tests do (tests/support/processes)."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
    environment |= {
        "DATABASE_URL": url,
        "MEMORYD_LOG_FORMAT": "json",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    environment |= {f"MEMORYD_{k.upper()}": str(v) for k, v in settings.items() if k not in CONSTANTS}
    environment |= variable_of(settings)
    module = "tests.support.processes.constants" if VARIABLE in environment else "daemon"
    with tempfile.TemporaryFile() as log:
        started = time.perf_counter()
        process = subprocess.Popen(  # noqa: ASYNC220 - starting it is quick, and its pid is what is wanted
            [sys.executable, "-m", module, "run"], env=environment, stderr=log, stdout=log
        )
        try:
            connection = await asyncpg.connect(url)
            there = f"select count(*) > 0 from memoryd.daemons where pid = {process.pid}"
            while not await connection.fetchval(there):
                if process.poll() is not None:
                    raise SystemExit("the daemon ended before it was ready")
                await asyncio.sleep(0.001)
            await connection.close()
            yield Running(process, started)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(300)  # a model on a processor answers late
            log.seek(0)
            lines = log.read().decode().splitlines()
            wrong = [line for line in lines if '"level": "error"' in line or "Traceback" in line]
            for line in wrong[:5] or lines[-1:] * bool(process.returncode):
                print(line, file=sys.stderr)


async def wait_for(connection: asyncpg.Connection, sql: str, *args: object, pause: float = 0.001) -> None:
    """Returns when the query's value is true."""
    while not await connection.fetchval(sql, *args):
        await asyncio.sleep(pause)


async def until_idle(connection: asyncpg.Connection) -> None:
    """Returns when no job is left."""
    await wait_for(connection, IDLE, pause=0.02)


class Times:
    """How long things took, by name. The first `warm` of each, which pay for what is made once, are left out."""

    def __init__(self, warm: int = 0) -> None:
        self._warm = warm
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def __getitem__(self, name: str) -> list[float]:
        """Seconds."""
        return self._seconds[name][self._warm :]

    def add(self, name: str, seconds: float) -> None:
        """Notes one that was measured elsewhere."""
        self._seconds[name].append(seconds)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Takes the time of the block."""
        began = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - began)

    def names(self) -> list[str]:
        """What took time."""
        return list(self._seconds)

    def figures(self) -> Figures:
        """The percentiles of each."""
        return {k: v for name in self.names() for k, v in percentiles(self[name], f"{name}_").items()}


def percentiles(seconds: Sequence[float], prefix: str = "") -> dict[str, float]:
    """p50, p95, p99 and the largest, in milliseconds."""
    ordered = sorted(seconds)
    cut = statistics.quantiles(ordered, n=100, method="inclusive")
    values = {"p50_ms": cut[49], "p95_ms": cut[94], "p99_ms": cut[98], "max_ms": ordered[-1]}
    return {f"{prefix}{name}": round(value * 1000, 2) for name, value in values.items()}


def print_table(head: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """A table in Markdown."""
    print("\n| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for name, values in rows:
        print(f"| {name} | " + " | ".join(values) + " |")


def shown(value: float | None) -> str:
    """A part of one, to three places."""
    return "" if value is None else f"{value:.3f}"


def print_figures(title: str, figures: Figures) -> None:
    """A line for each."""
    width = max(map(len, figures), default=0)
    print(f"\n{title}", *(f"  {key:<{width}}  {value}" for key, value in figures.items()), sep="\n")


def report(title: str, figures: Figures | list[Figures], file: Path | None) -> None:
    """Prints figures as a table and as a line of JSON, which the file gets, too; of a list the lines of JSON alone."""
    lines = figures if isinstance(figures, list) else [figures]
    if not isinstance(figures, list):
        print_figures(title, figures)
    text = "".join(json.dumps({"benchmark": title, **line}) + "\n" for line in lines)
    print("\n" + text, end="")
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
