"""memoryd migrate, psql and url: the schema of the database, a prompt on it, and its address."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import embedder_of, for_each_database, own_server, postgres, settings_or_exit
from daemon.cli.failure import Failure, sentences
from daemon.cli.output import remark, say
from daemon.db.server import without_password
from daemon.settings.databases import readable

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from daemon.db.migrator import Adoption
    from daemon.db.plan import Upgrade
    from daemon.db.settings import Model
    from daemon.settings import Settings


def migrate(
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be applied, and change nothing."),
    repair: bool = typer.Option(
        False,
        "--repair",
        help="Make again what somebody changed: roles, row-level security, functions, views, triggers, policies, rights; "
        "move aside what has memoryd's names.",
    ),
) -> None:
    """Bring the schema up to date: numbered files once, files of functions again when changed, all in one transaction.

    Then load the tokens of the local embedder, where the database has none yet, or others.
    """
    for_each_database(settings_or_exit(), lambda one: _migrate(one, dry_run=dry_run, repair=repair))


def _migrate(settings: Settings, *, dry_run: bool, repair: bool) -> None:
    from daemon.db.plan import describe

    with postgres(settings) as (url, _server):
        done = asyncio.run(migrate_database(settings, url, dry_run=dry_run, repair=repair))
    for line in describe(done, does="would apply" if dry_run else "applied"):
        say(line)
    if not done:
        say("The schema is up to date.")


def log_upgrade(upgrade: Upgrade, *, embedder: str, logger: FilteringBoundLogger) -> None:
    for migration in upgrade.schema:
        logger.info("migration_applied", migration=str(migration))
    if upgrade.tokens:
        logger.info("tokens_loaded", embedder=embedder)
    if replace(upgrade, tokens=False):
        logger.info("functions_applied", files=len(upgrade.functions), dropped=len(upgrade.dropped))
    for part, statement in upgrade.left:
        logger.warning("rights_missing", part=part, statement=statement)


async def migrate_database(
    settings: Settings,
    url: str,
    *,
    dry_run: bool = False,
    repair: bool = False,
    adoption: Adoption | None = None,
    model: Model | None = None,
) -> Upgrade:
    """Migrates one database; returns what was applied, or would be. Raises MigrationError.

    `model`: that of the embedder that the settings name, where it is known.
    """
    from daemon.db.migrator import migrate as apply
    from daemon.db.pool import connected
    from daemon.db.settings import model_of, model_to_use, read_models
    from daemon.db.tokens import load_tokens, tokens_are_missing
    from daemon.settings import roles_in

    if model is None:
        embedder = embedder_of(settings)
        model = model_of(embedder)
        await embedder.close()
    # What works behind a transaction pooler works everywhere, and here nothing is asked twice.
    async with connected(url, pooled=True) as connection:
        if not dry_run:
            model = model_to_use(
                model,
                await read_models(connection),
                chosen=settings.embedder_chosen,
                instructed=settings.embedder_instructed,
            )
        done = await apply(
            connection,
            dimensions=model.dimensions,
            embedder=model.embedder,
            instructions=model.instructions,
            dry_run=dry_run,
            admin_roles=roles_in(settings.admin_roles),
            repair=repair,
            adoption=adoption,
        )
        tokens = await (tokens_are_missing if dry_run else load_tokens)(connection)
        return replace(done, tokens=tokens)


def psql(
    arguments: list[str] | None = typer.Argument(
        None, metavar="ARGUMENT", help='Passed on to psql, such as: -c "select * from agent_memory"'
    ),
) -> None:
    """Open psql on the database: with DATABASE_URL the one on the PATH, else the one that memoryd brings."""
    settings = settings_or_exit(quiet=True)
    with sentences():
        program, url = _program_and_url(settings)
        # The password stays off the command line, where others could read it.
        shown, environment = without_password(url)
        command = [str(program), f"--dbname={shown}", *(arguments or ())]
        os.execve(program, command, environment)  # noqa: S606 - no shell wanted


def _program_and_url(settings: Settings) -> tuple[Path, str]:
    if settings.database_url is not None:
        url = readable(settings.database_url.get_secret_value(), "DATABASE_URL")
        installed = shutil.which("psql")
        return Path(installed) if installed else own_server(settings).psql_path, url
    server = own_server(settings)
    if not server.is_running():
        raise Failure("memoryd's own Postgres is not running. In another terminal: make run (or memoryd run)")
    return server.psql_path, server.socket_url


def url(
    tcp: bool = typer.Option(
        False,
        "--tcp",
        help="The embedded server's address on 127.0.0.1, with its password, instead of its socket.",
    ),
) -> None:
    """Print the URL of the database, the password included."""
    settings = settings_or_exit(quiet=True)
    if settings.database_url is not None:
        say(settings.database_url.get_secret_value())
        return
    with sentences():
        server = own_server(settings, existing=True)
        say(server.tcp_url if tcp else server.socket_url)
        if not server.is_running():
            remark("It is not running now. Start it: make run (or memoryd run)")
