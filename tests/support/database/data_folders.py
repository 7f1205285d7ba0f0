"""A data folder of memoryd's own Postgres, with a migrated database and no server running: made once a run, and copied.

For tests of what comes later: a cluster, a schema and tokens take seconds to make.
"""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import subprocess
from pathlib import Path

from plugins.embedded.server import EmbeddedPostgres
from tests.support.folders import quiet_port
from tests.support.processes.commands import Commands

NAME = "made"


def made_once(run: Path) -> Path:
    """The data folder to copy, which lies in the folder of the test run. Other processes that want it meanwhile wait."""
    made = run / NAME
    with (run / f"{NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            # Under its name it is whole.
            half = run / f"half-{NAME}"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            done = asyncio.run(Commands(None, half)("migrate"))
            assert done.code == 0, done.err
            assert not EmbeddedPostgres(half / "data").is_running()
            half.rename(made)
    return made / "data"


def copy(made: Path, data: Path) -> None:
    """The same folder at another place, its files of the same owners; its server will listen on a port of its own."""
    subprocess.run(["cp", "-a", str(made), str(data)], check=True)
    (data / "port").write_text(f"{quiet_port()}\n")
