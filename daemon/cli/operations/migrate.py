"""memoryd migrate: brings the database's schema up to date."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import (
    embedder_of,
    for_each_database,
    postgres,
    settings_or_exit,
)

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from daemon.db.migrator import Adoption
    from daemon.db.models import Model
    from daemon.db.plan import Upgrade
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
        typer.echo(line)
    if not done:
        typer.echo("The schema is up to date.")


def log_upgrade(upgrade: Upgrade, *, embedder: str, logger: FilteringBoundLogger) -> None:
    """Logs the applied changes."""
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
    from daemon.db.models import model_of, model_to_use, read_models
    from daemon.db.pool import connect
    from daemon.db.tokens import load_tokens, tokens_are_missing
    from daemon.settings import roles_in

    if model is None:
        embedder = embedder_of(settings)
        model = model_of(embedder)
        await embedder.close()
    # What works behind a transaction pooler works everywhere, and here nothing is asked twice.
    connection = await connect(url, pooled=True)
    try:
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
    finally:
        await connection.close()
