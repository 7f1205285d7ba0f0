"""A data folder of memoryd's own Postgres, with a migrated database and no server running: made once a run, and copied.

For tests of what comes later: a cluster, a schema and tokens take seconds to make.
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from plugins.embedded.server import EmbeddedPostgres
from tests.support.folders import quiet_port
from tests.support.processes.commands import Commands


def fill(folder: Path) -> None:
    """Makes the one to copy: `data` in this folder."""
    done = asyncio.run(Commands(None, folder)("migrate"))
    assert done.code == 0, done.err
    assert not EmbeddedPostgres(folder / "data").is_running()


def copy(made: Path, data: Path) -> None:
    """The same folder at another place, its files of the same owners; its server will listen on a port of its own."""
    subprocess.run(["cp", "-a", str(made), str(data)], check=True)
    (data / "port").write_text(f"{quiet_port()}\n")
