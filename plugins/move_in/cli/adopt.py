"""memoryd adopt: makes memoryd's schema where an application has tables of the same names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import postgres, settings_or_exit
from daemon.cli.failure import Misuse, sentences
from daemon.cli.operations.migrate import migrate_database
from daemon.cli.output import number

if TYPE_CHECKING:
    from plugins.move_in.adopt.adoption import AdoptedRows, Adoption
    from plugins.move_in.adopt.survey import Survey

_NOTHING = "Nothing of an application stands in memoryd's way. Nothing was moved or taken in."
_RESERVED = ("public", "memoryd", "information_schema", "extensions")


def adopt(
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Say what would be moved and taken in, and change nothing."
    ),
    schema: str = typer.Option(
        "memoryd_adopted", metavar="NAME", help="The schema that the tables are moved into."
    ),
    also: list[str] = typer.Option(
        [], metavar="NAME", help="Move this one too, though it is like none of the designs. Can be repeated."
    ),
) -> None:
    """Move tables and functions that have memoryd's names aside, make memoryd's schema, and take their rows in.

    For databases that were built by one of the designs in docs/from/. All in one transaction; nothing is dropped.
    """
    from plugins.move_in.adopt.adoption import Adoption

    settings = settings_or_exit()
    with sentences(), postgres(settings, existing=True) as (url, _server):
        if not schema or schema in _RESERVED or schema.startswith("pg_") or len(schema.encode()) > 63:
            raise Misuse(f"--schema {schema}: take the name of a schema that is nobody's yet.")
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
    from daemon.db.migration_files import load_files
    from daemon.db.migrator import read_ledger
    from daemon.db.plan import MigrationError
    from daemon.db.pool import connect
    from plugins.move_in.adopt.survey import refuse, survey

    connection = await connect(url, pooled=True)
    try:
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
    finally:
        await connection.close()


def _report(taken: AdoptedRows) -> None:
    """The rows of one table."""
    typer.echo(f"{taken.table}: {taken.taken} of {number(taken.rows, 'row')} taken in")
    for reason, count in taken.left_out.most_common():
        typer.echo(f"  left out: {count} ({reason})")
    if taken.kept:
        typer.echo(f"  kept in the metadata: {', '.join(taken.kept)}")
    if taken.lost:
        typer.echo(
            f"  only in the table that was moved: {', '.join(taken.lost)} (memoryd makes embeddings anew)"
        )


def _advise(found: Survey, schema: str) -> None:
    """What is left to the application's owner."""
    typer.echo(f"\nWhat still goes by the tables in {schema}:")
    for remark in found.remarks:
        typer.echo(f"- {remark}")
    typer.echo(
        "- jobs of pg_cron, edge functions and other programs: from now on their names mean memoryd's tables and functions.\n"
        "  memoryd deletes what expires by itself, and makes embeddings: such jobs and calls can go.\n"
        f"- whoever has rows there: an erasure by memoryd does not reach {schema}. When you miss nothing any more:\n"
        f"  drop schema {schema} cascade\n"
        "What each field and function has become: docs/from/"
    )
