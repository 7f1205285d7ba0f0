"""memoryd tenant: makes and lists the databases of MEMORYD_DATABASE_URLS.

Promise: no password is shown. A URL with one may come from stdin, since others can read a command line.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import ended_by_ctrl_c, settings_or_exit
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import as_json, megabytes, remark, say, table

if TYPE_CHECKING:
    from daemon.settings import Settings
    from plugins.tenants.look import Tenant

tenant = typer.Typer(
    name="tenant",
    help="Add and list tenants: the databases of MEMORYD_DATABASE_URLS.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

STDIN = "-"
MAX_URL = 10_000
SETTING = "MEMORYD_DATABASE_URLS"


@tenant.command()
def add(
    name: str = typer.Argument(..., help="The name of the tenant and of its database."),
    server: str | None = typer.Option(
        None,
        metavar="URL",
        help="URL of the server, with a role that may create databases; - reads it from stdin. Default: the "
        "server of the first tenant.",
    ),
) -> None:
    """Make a database for a tenant, and add it to the file of MEMORYD_DATABASE_URLS."""
    settings = settings_or_exit(quiet=True)
    with sentences():
        from daemon.cli.database import migrate_database
        from daemon.settings.databases import NAME, NAMES_ARE
        from plugins.tenants.add import add_tenant
        from plugins.tenants.listed import already_listed, read_listed
        from plugins.tenants.urls import database_of, host_of

        file = _file(settings)
        if not NAME.fullmatch(name):
            raise Misuse(f"{name[:80]!r} is not a name for a tenant: {NAMES_ARE}.")
        there = read_listed(file)
        if any(one.name == name for one in there):
            raise Misuse(already_listed(file, name))
        if server is None and not there:
            raise Misuse(f"{file} has no tenant yet, so name the server: --server postgresql://user@host")
        on = there[0].url if server is None else _url(server)
        try:
            url = asyncio.run(add_tenant(file, name, on, migrate=lambda url: migrate_database(settings, url)))
        except OSError as error:
            if error.errno is None or isinstance(error, ConnectionError | TimeoutError):
                raise  # an error of a database, not of the file
            raise Failure(f"{error.filename or file} cannot be written: {error.strerror or error}.") from None
        say(f"{name}: {host_of(url)}, database {database_of(url)}")
        remark("So that memoryd run reads the file again, send it SIGHUP: kill -HUP PID, with its process id")


@tenant.command("list")
def list_tenants(json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List the tenants, where each is, its schema and its size. Exit code 1: one cannot be reached."""
    settings = settings_or_exit(quiet=True)
    with sentences():
        from daemon.settings.databases import listed_in, read_databases
        from plugins.tenants.listed import read_listed
        from plugins.tenants.look import read_tenants

        given = _given(settings)
        file = listed_in(given)
        found = asyncio.run(read_tenants(read_databases(given) if file is None else read_listed(file)))
        if json:
            as_json(found)
        else:
            _show(found)
        if not all(one.reachable for one in found):
            raise typer.Exit(1)


def _given(settings: Settings) -> str:
    if settings.database_urls is None:
        raise Misuse(f"{SETTING} is not set. Let it name a file with one NAME=URL a line.")
    return settings.database_urls.get_secret_value()


def _file(settings: Settings) -> Path:
    from daemon.settings.databases import listed_in

    file = listed_in(_given(settings))
    if file is None:
        raise Misuse(
            f"{SETTING} has the databases itself, so none can be added. Write them into a file, one NAME=URL a line, "
            f"and let {SETTING} name that file."
        )
    return file


def _url(given: str) -> str:
    if given != STDIN:
        return given
    with ended_by_ctrl_c():
        return sys.stdin.readline(MAX_URL).strip()


def _show(found: list[Tenant]) -> None:
    if not found:
        say("There is no tenant yet. Make one: memoryd tenant add NAME --server URL")
        return
    table(
        ["name", "host", "database", "schema>", "size>", "state"],
        [
            [
                one.name,
                one.host,
                one.database,
                "-" if one.schema_version is None else str(one.schema_version),
                "-" if one.bytes is None else megabytes(one.bytes),
                f"not reached: {one.error}" if not one.reachable else one.trouble or "up to date",
            ]
            for one in found
        ],
    )
