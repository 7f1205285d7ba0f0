"""memoryd tenant: makes, lists and moves the databases of MEMORYD_DATABASE_URLS.

Promise: no password is shown. A URL with one may come from stdin, since others can read a command line.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from daemon.cli.common import embedder_of, ended_by_ctrl_c, settings_or_exit
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import as_json, megabytes, number, remark, say, table

if TYPE_CHECKING:
    from daemon.settings import Settings
    from daemon.settings.databases import NamedDatabase
    from daemon.tenants.look import Tenant
    from daemon.tenants.template import Migrate

tenant = typer.Typer(
    help="Add, list and move tenants: the databases of MEMORYD_DATABASE_URLS.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Result = TypeVar("Result")

STDIN = "-"
MAX_URL = 10_000
SETTING = "MEMORYD_DATABASE_URLS"


@tenant.command()
def add(
    name: str = typer.Argument(..., help="Of the tenant, and of its database."),
    server: str | None = typer.Option(
        None,
        metavar="URL",
        help="A role that may create databases, on the server that gets it; - reads it from stdin. Left out: "
        "as the first tenant.",
    ),
) -> None:
    """Make a database for a tenant, in a moment, and add it to the file of MEMORYD_DATABASE_URLS.

    It is a copy of the database memoryd_template, which is made the first time, and again after an upgrade.
    """
    settings = settings_or_exit(quiet=True)
    with sentences():
        from daemon.db.models import model_of
        from daemon.settings import roles_in
        from daemon.tenants.add import add_tenant
        from daemon.tenants.listed import read_listed

        file = _file(settings)
        _check_name(name)
        there = read_listed(file)
        if any(one.name == name for one in there):
            from daemon.tenants.listed import already_listed

            raise Misuse(already_listed(file, name))
        on = _server(server, there, file)

        async def main() -> str:
            embedder = embedder_of(settings)
            model = model_of(embedder)
            await embedder.close()
            return await add_tenant(
                file,
                name,
                on,
                model=model,
                admin_roles=roles_in(settings.admin_roles),
                migrate=_migrate(settings),
            )

        url = _writing(file, main)
        say(f"{name}: {_shown(url)}")
        _tell_daemon(there)


@tenant.command("list")
def list_tenants(json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List the tenants, where each is, its schema and its size. Exit code 1: one cannot be reached."""
    settings = settings_or_exit(quiet=True)
    with sentences():
        from daemon.settings.databases import listed_in, read_databases
        from daemon.tenants.listed import read_listed
        from daemon.tenants.look import look

        given = _given(settings)
        file = listed_in(given)
        found = asyncio.run(look(read_databases(given) if file is None else read_listed(file)))
        if json:
            as_json(found)
        else:
            _show(found)
        if not all(one.reachable for one in found):
            raise typer.Exit(1)


@tenant.command()
def move(
    name: str = typer.Argument(..., help="Of the tenant."),
    url: str | None = typer.Argument(
        None, help="Of the database that it moves to, made if it is not there; - reads it from stdin."
    ),
    undo: bool = typer.Option(False, "--undo", help="Open the database again, after a move that was killed."),
    folder: Path | None = typer.Option(
        None,
        "--folder",
        help="Where the dump lies meanwhile, as large as a backup. Left out: beside the file.",
    ),
) -> None:
    """Move a tenant to another server: close its database, dump, restore, compare, and change its line in the file.

    Until that line is changed, whatever fails, the old database is opened again. After it, it stays, closed.
    """
    settings = settings_or_exit(quiet=True)
    with sentences():
        if undo == (url is not None):
            raise Misuse("Say where to: memoryd tenant move NAME URL. After a move that was killed: --undo")
        from daemon.tenants.move import move_tenant
        from daemon.tenants.urls import database_of

        file = _file(settings)
        named = _named(file, name)
        dump = (file.resolve().parent if folder is None else folder) / f"{file.name}.{name}.moving"
        if url is None:
            _undo(named, dump)
            return
        new = _url(url)

        async def main() -> None:
            pids = await _daemons((named,))
            moved = await move_tenant(file, named, new, dump=dump, migrate=_migrate(settings), tell=remark)
            say(f"{name}: {_shown(new)}, {number(moved.rows, 'row')}")
            if moved.without_login:
                remark(
                    f"Roles that may not log in there, since a dump has no passwords: {', '.join(moved.without_login)}. "
                    "For each: alter role ... login password '...'"
                )
            if moved.left:
                remark(f"What that server did not take: {', '.join(moved.left)}. Give it by hand.")
            _say_signal(pids)
            from daemon.db.command_line import without_password
            from daemon.db.pool import quoted

            shown, _ = without_password(moved.from_elsewhere)
            statement = f"drop database {quoted(database_of(named.url))}"
            remark(
                "The old database is closed to connections. When nobody needs it any more: "
                f"psql {shlex.quote(shown)} -c {shlex.quote(statement)}"
            )

        _writing(file, main)


def _undo(named: NamedDatabase, dump: Path) -> None:
    from daemon.tenants.move import undo

    if asyncio.run(undo(named.url, dump=dump)):
        say(f"{named.name} takes connections again: {_shown(named.url)}")
    else:
        say(f"Nothing is to be undone: {named.name} takes connections, {_shown(named.url)}")


def _given(settings: Settings) -> str:
    if settings.database_urls is None:
        raise Misuse(f"{SETTING} is not set. Let it name a file with one NAME=URL a line.")
    return settings.database_urls.get_secret_value()


def _file(settings: Settings) -> Path:
    from daemon.settings.databases import listed_in

    file = listed_in(_given(settings))
    if file is None:
        raise Misuse(
            f"{SETTING} has the databases itself, so none can be added or moved. Write them into a file, one NAME=URL a line, "
            f"and let {SETTING} name that file."
        )
    return file


def _check_name(name: str) -> None:
    from daemon.settings.databases import NAME, NAMES_ARE

    if not NAME.fullmatch(name):
        raise Misuse(f"{name[:80]!r} is no name of a tenant: {NAMES_ARE}.")


def _named(file: Path, name: str) -> NamedDatabase:
    from daemon.tenants.listed import read_listed

    for one in read_listed(file):
        if one.name == name:
            return one
    raise Misuse(f"{file} has no {name[:80]!r}. To see what it has: memoryd tenant list")


def _server(given: str | None, there: tuple[NamedDatabase, ...], file: Path) -> str:
    if given is not None:
        return _url(given)
    if not there:
        raise Misuse(f"{file} has no tenant yet, so name the server: --server postgresql://user@host")
    return there[0].url


def _url(given: str) -> str:
    if given != STDIN:
        return given
    with ended_by_ctrl_c():
        return sys.stdin.readline(MAX_URL).strip()


def _migrate(settings: Settings) -> Migrate:
    from daemon.cli.operations.migrate import migrate_database

    return lambda url: migrate_database(settings, url)


def _writing(file: Path, main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    from daemon.cli.embedded import ended_in_order

    try:
        # SIGTERM undoes what is half done, as Ctrl-C does.
        with ended_in_order():
            return asyncio.run(main())
    except OSError as error:
        if error.errno is None or isinstance(error, ConnectionError | TimeoutError):
            raise  # of a database
        raise Failure(f"{error.filename or file} cannot be written: {error.strerror or error}.") from None


def _shown(url: str) -> str:
    from daemon.tenants.urls import database_of, host_of

    return f"{host_of(url)}, database {database_of(url)}"


async def _daemons(there: tuple[NamedDatabase, ...]) -> list[int]:
    from daemon.tenants.look import daemons_here

    return await daemons_here(there)


def _tell_daemon(there: tuple[NamedDatabase, ...]) -> None:
    _say_signal(asyncio.run(_daemons(there)))


def _say_signal(pids: list[int]) -> None:
    if pids:
        remark(f"So that memoryd run reads the file again: kill -HUP {' '.join(map(str, pids))}")
    else:
        remark("So that memoryd run reads the file again, send it SIGHUP: kill -HUP PID, with its process id")


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
