"""A process that has imported memoryd, and forks one that runs a command whenever a test asks (forks.py).

Half of the time of a short command are imports, and hundreds of tests start one. In all else a forked process is what
`python -m daemon` is: arguments, environment, folder and streams are its own.

A request comes over the socket of the first argument: its length in four bytes, JSON (arguments, environment, cwd), and the
three streams. The answer is a line with the process's id, and one with its exit code, or minus the number of the signal.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import re
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource

import daemon
import daemon.db.apply
import daemon.db.plan
import daemon.db.tokens
import handlers
import memory
import plugins
import providers
from daemon.__main__ import main
from daemon.cli.app import command_tree
from daemon.db.migration_files import load_files
from daemon.settings import load_settings
from plugins.audit.patterns import personal_data_in, secrets_in
from providers.local_embedder import LocalEmbedder
from providers.local_tokens import fingerprint, read_tokens
from providers.openai_client import DEFAULT_BASE_URL, connect
from tests.support.processes.constants import change_constants
from tests.support.repository import ROOT

STREAMS = 3
EVM = "evm"
"""A folder of modules that take as long to import as all else."""
LATE = (
    "apscheduler.schedulers.asyncio", "apscheduler.triggers.interval", "rich.markdown", "typer._adapters",
    "typer._click.decorators", "typer.rich_utils",
)  # fmt: skip
"""What the daemon imports when it begins, and typer when a command is run, and when one is refused."""
READY = b"ready\n"


def import_all() -> None:
    """What any command imports, reads from its functions, and the files of migrations and of the local embedder."""
    found = [*LATE]
    for package in (daemon, handlers, memory, plugins, providers):
        for file in Path(package.__path__[0]).rglob("*.py"):
            names = file.relative_to(ROOT).with_suffix("").parts
            if "__main__" not in names and EVM not in names:
                found.append(".".join(name for name in names if name != "__init__"))
    for module in found:
        # Not every one is there beside other releases than the tested: tests/upstream/releases.py.
        with suppress(ModuleNotFoundError):
            importlib.import_module(module)
    LocalEmbedder()
    command_tree()
    _read_once()
    gc.freeze()  # a collection in a child would copy the memory that they share


def _import_evm() -> None:
    importlib.import_module(f"plugins.trail.ledgers.{EVM}.ledger")


def _import_openai() -> None:
    connect(base_url=DEFAULT_BASE_URL, api_key="none", timeout_seconds=1)
    for used in ("chat.completions", "embeddings"):
        importlib.import_module(f"openai.resources.{used}")


RARE = {re.compile("MEMORYD_EVM"): _import_evm, re.compile("MEMORYD_OPENAI"): _import_openai}
"""What few commands need: the first with a setting that begins so waits for it."""


def _read_once() -> None:
    """Keeps what each process would read or work out for itself, and what is the same for all."""
    load_files()
    fingerprint()
    secrets_in()
    personal_data_in()
    tokens, version = cache(read_tokens), cache(metadata.version)
    tokens()
    version("memoryd")
    vars(daemon.db.tokens)["read_tokens"] = tokens
    metadata.version = version
    for module in (daemon.db.apply, daemon.db.plan):
        vars(module)["package_version"] = version
    found: dict[int, tuple[bool, bool]] = {}
    look = EnvSettingsSource._field_is_complex

    def look_once(self: EnvSettingsSource, field: FieldInfo) -> tuple[bool, bool]:
        if id(field) not in found:
            found[id(field)] = look(self, field)
        return found[id(field)]

    EnvSettingsSource._field_is_complex = look_once  # type: ignore[method-assign]
    load_settings()


def serve(path: str) -> None:
    """Answers until stdin is closed: by the process that needs it, also by its end. In a forked child it returns."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    awake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.write(1, READY)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listener.fileno(), awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            _tell_ended(running)
        if 0 in ready:
            sys.exit()
        if listener.fileno() in ready:
            asked, _ = listener.accept()
            message, streams = _request(asked)
            for setting in [one for one in RARE if any(map(one.match, message["environment"]))]:
                RARE.pop(setting)()
            process = os.fork()
            if process == 0:
                for one in (asked, listener, *running.values()):
                    one.close()
                os.close(awake)
                os.close(waker)
                _become(message, streams)
                return
            for stream in streams:
                os.close(stream)
            running[process] = asked
            with suppress(OSError):
                asked.sendall(b"%d\n" % process)


def _request(asked: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, streams, _, _ = socket.recv_fds(asked, 4, STREAMS)
    (length,) = struct.unpack("!I", head)
    data = b""
    while len(data) < length:
        data += asked.recv(length - len(data))
    message: dict[str, Any] = json.loads(data)
    return message, streams


def _become(message: dict[str, Any], streams: list[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # What the environment says of them holds, as at a start.
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), encoding="utf-8"),
        io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8", write_through=False),
        io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), encoding="utf-8", line_buffering=True),
    )
    tempfile.tempdir = None
    os.chdir(message["cwd"])
    os.environ.clear()
    os.environ.update(message["environment"])
    sys.argv = ["memoryd", *message["arguments"]]
    change_constants()


def _tell_ended(running: dict[int, socket.socket]) -> None:
    for process in list(running):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            with running.pop(process) as asked, suppress(OSError):
                asked.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def run() -> None:
    """A command, to the end of its process.

    It ends as the interpreter does, threads joined, files removed and streams flushed, but no module is unloaded: that would
    copy most of the memory that is shared, and takes longer than many a command.
    """
    code: object = None
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    if isinstance(code, int | None):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(OSError):  # the interpreter itself says that a stream is broken
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((code or 0) & 0xFF)
    sys.exit(code)  # type: ignore[arg-type]


if __name__ == "__main__":
    import_all()
    serve(sys.argv[1])
    run()
