"""Finds the pg_dump and pg_restore for a server, and runs them.

Promise: no password stands on a command line, where others could read it, and no error shows a row.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path
from typing import IO

from daemon.db.indexes import BUILD_MEMORY
from daemon.db.server import without_password
from plugins.embedded.causes import EmbeddedPostgresError
from plugins.embedded.programs import NEWEST, find_programs
from plugins.operate.backup.archive import BackupError


def find_program(name: str, server: int) -> Path:
    """The program for a server of this major version: of the same version if memoryd brings it, else a newer one.

    Raises BackupError where there is none.
    """
    for version in (server, NEWEST):
        if version >= server:
            try:
                return find_programs(version).bin / name
            except EmbeddedPostgresError:
                continue
    installed = shutil.which(name)
    if installed is not None and _major(installed) >= server:
        return Path(installed)
    raise BackupError(
        f"The server is PostgreSQL {server}, and there is no {name} here that knows it. "
        f"Install the client programs of PostgreSQL {server}."
    )


async def run_on(url: str, program: Path, *arguments: str, output: IO[bytes] | None = None) -> None:
    """Runs a program on a database, until it ends or this task does. Ctrl-C is for memoryd. Raises BackupError."""
    try:
        shown, environment = without_password(url)
    except ValueError as error:
        raise BackupError(str(error)) from None
    if output is None:
        # A restore makes the big indexes again, which may not fit into the server's setting. Poolers take no options.
        before = environment.get("PGOPTIONS", "")
        environment["PGOPTIONS"] = f"{before} -c maintenance_work_mem={BUILD_MEMORY}".strip()
    process = await asyncio.create_subprocess_exec(
        *(str(program), f"--dbname={shown}", "--no-password", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=output or subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**environment, "LC_ALL": "C", "PGCLIENTENCODING": "UTF8"},
        start_new_session=True,
        # A file that grows over a limit is then an error of the program, and not its end.
        restore_signals=False,
    )
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise BackupError(f"{program.name} failed: {_first_error(said.decode('utf-8', 'replace'))}")


def _first_error(said: str) -> str:
    """The first error in a program's output. The following lines may quote rows, and are left out."""
    found = re.search(r"^pg_(?:dump|restore): error: (.+)$", said, re.MULTILINE)
    line = found[1] if found else said.strip().partition("\n")[0]
    return re.sub(r"^(could not execute query: )?ERROR:\s+", "", line).strip() or "it gave no reason"


def _major(program: str) -> int:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)", told)
    return int(found[1]) if found else 0
