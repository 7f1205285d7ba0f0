"""memoryd psql: a prompt on the database.

Promise: it starts and stops nothing, and keeps the password off the command line, where others could read it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from daemon.cli.common import own_server, settings_or_exit
from daemon.cli.failure import Failure, sentences
from daemon.db.command_line import without_password
from daemon.settings.databases import readable

if TYPE_CHECKING:
    from daemon.settings import Settings


def psql(
    arguments: list[str] | None = typer.Argument(
        None, metavar="ARGUMENT", help='Passed on to psql, such as: -c "select * from agent_memory"'
    ),
) -> None:
    """Open psql on the database: with DATABASE_URL the one on the PATH, else the one that memoryd brings."""
    settings = settings_or_exit(quiet=True)
    with sentences():
        program, url = _program_and_url(settings)
        _become(program, url, arguments or [])


def _program_and_url(settings: Settings) -> tuple[Path, str]:
    if settings.database_url is not None:
        url = readable(settings.database_url.get_secret_value(), "DATABASE_URL")
        installed = shutil.which("psql")
        return Path(installed) if installed else own_server(settings).psql_path, url
    server = own_server(settings)
    if not server.is_running():
        raise Failure("memoryd's own Postgres is not running. In another terminal: make run (or memoryd run)")
    return server.psql_path, server.socket_url


def _become(program: Path, url: str, arguments: list[str]) -> NoReturn:
    shown, environment = without_password(url)
    command = [str(program), f"--dbname={shown}", *arguments]
    os.execve(program, command, environment)  # noqa: S606 - no shell wanted
