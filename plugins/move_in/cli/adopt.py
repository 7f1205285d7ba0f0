"""memoryd adopt: makes memoryd's schema where an application has tables of the same names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import postgres, settings_or_exit
from daemon.cli.database import migrate_database
from daemon.cli.failure import Misuse, sentences
from daemon.cli.output import number

if TYPE_CHECKING:
    from plugins.move_in.adopt.adoption import AdoptedRows, Adoption
    from plugins.move_in.adopt.survey import Survey

_NOTHING = "No object of an application is in memoryd's way. Nothing was moved or taken in."
_RESERVED = ("public", "memoryd", "information_schema", "extensions")


def adopt(
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Show what would be moved and taken in, and change nothing."
    ),
    schema: str = typer.Option(
        "memoryd_adopted", metavar="NAME", help="The schema that the tables are moved into."
    ),
    also: list[str] = typer.Option(
        [], metavar="NAME", help="Also move this object, although it matches no design. May be repeated."
    ),
) -> None:
    """Move tables and functions that have memoryd's names aside, make memoryd's schema, and take their rows in.

    It is for databases that were built by one of the designs in docs/from/. It is one transaction, and drops nothing.
    """
    from plugins.move_in.adopt.adoption import Adoption

    settings = settings_or_exit()
    with sentences(), postgres(settings, existing=True) as (url, _server):
        if not schema or schema in _RESERVED or schema.startswith("pg_") or len(schema.encode()) > 63:
            raise Misuse(f"--schema {schema}: choose a name that no schema has yet.")
        adoption = Adoption(schema, frozenset(also))
        if dry_run:
            asyncio.run(_show_plan(url, adoption))
            return
        asyncio.run(migrate_database(settings, url, adoption=adoption))
    found = adoption.found
    if found is None or not found.moved:
        typer.echo(_NOTHING)
        return
    for one in found.moved:
        typer.echo(f"moved {one.kind} {one.shown} into {schema}")
    for taken in adoption.taken:
        _report(taken)
    _advise(found, schema)


async def _show_plan(url: str, adoption: Adoption) -> None:
    from daemon.db.errors import MigrationError
    from daemon.db.migration_files import load_files
    from daemon.db.plan import read_ledger
    from daemon.db.pool import connected
    from plugins.move_in.adopt.survey import refuse, survey

    async with connected(url, pooled=True) as connection:
        if await read_ledger(connection):
            typer.echo(_NOTHING)
            return
        found = await survey(connection, load_files(), also=adoption.also)
        for one in found.moved:
            what = (
                "would take its rows in"
                if one.name in found.designs and one.kind == "table"
                else "its rows stay there"
            )
            said = f"; {what}" if one.kind == "table" else ""
            typer.echo(f"would move {one.kind} {one.shown} into {adoption.schema}{said}")
        if found.unlike:
            raise MigrationError(refuse(found.unlike))
        if not found.moved:
            typer.echo(_NOTHING)
            return
        _advise(found, adoption.schema)


def _report(taken: AdoptedRows) -> None:
    typer.echo(f"{taken.table}: {taken.taken} of {number(taken.rows, 'row')} taken in")
    for reason, count in taken.left_out.most_common():
        typer.echo(f"  left out: {count} ({reason})")
    if taken.kept:
        typer.echo(f"  kept in the metadata: {', '.join(taken.kept)}")
    if taken.lost:
        typer.echo(
            f"  only in the table that was moved: {', '.join(taken.lost)} (memoryd makes new embeddings)"
        )


def _advise(found: Survey, schema: str) -> None:
    """Prints what the application's owner still has to do."""
    typer.echo(f"\nThese still use the tables in {schema}:")
    for remark in found.remarks:
        typer.echo(f"- {remark}")
    typer.echo(
        "- jobs of pg_cron, edge functions and other programs: the names in them now mean memoryd's tables and functions.\n"
        "  memoryd deletes expired rows and makes embeddings itself: remove such jobs and calls.\n"
        f"- users with rows there: an erasure by memoryd does not reach {schema}. Once you need nothing in it any more:\n"
        f"  drop schema {schema} cascade\n"
        "Where each field and function is now: docs/from/"
    )
