"""memoryd audit derived: shows all rows that were derived from one thing, and forgets them with it."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import as_json, number, remark, say, table
from daemon.ids import id_of
from memory.text import is_blank
from plugins.audit.derived import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.audit.derived import Lineage


def derived(
    kind: Kind = typer.Argument(help="What it is."),
    what: str = typer.Argument(
        metavar="ID", help="Its id; of an agent its name, of a user the name or the id."
    ),
    forget: bool = typer.Option(
        False, "--forget", help="Forget it and the rows listed as derived, in one transaction."
    ),
    influenced: bool = typer.Option(
        False, "--influenced", help="With --forget: also what may have been influenced."
    ),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    limit: int = typer.Option(200, min=1, help="How many rows are shown, the nearest first."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show all rows derived from a message, a document, a memory, an agent and so on, over any number of steps.

    A row that an agent wrote after it saw a context with this thing is listed as "may be influenced". --forget leaves such
    rows, unless --influenced is given.
    """
    with sentences():
        if influenced and not forget:
            raise Misuse("--influenced adds to what --forget forgets: give both.")
        if forget and not yes and not sys.stdin.isatty():
            raise Misuse(
                "This deletes for good. Run it without --forget to see the rows, then confirm with --yes."
            )
        subject = _subject(kind, what)

    async def look(_settings: Settings, database: Database) -> Lineage:
        from plugins.audit.derived import derived as find

        async with database.connection() as connection:
            return await find(connection, kind, subject)

    lineage = with_database(look)
    with sentences():
        if not lineage.there and not lineage.rows:
            raise Failure(f"There is no {kind.value} {what}, and nothing was derived from it.")
    if not forget:
        if json:
            as_json(
                {
                    "kind": kind.value,
                    "id": subject,
                    "there": lineage.there,
                    "rows": [asdict(r) for r in lineage.rows],
                }
            )
        else:
            _print(lineage, limit)
        return
    _forget(lineage, influenced=influenced, yes=yes, json=json)


def _forget(lineage: Lineage, *, influenced: bool, yes: bool, json: bool) -> None:
    from plugins.audit.forget import forget, to_forget

    going = {kind: len(ids) for kind, ids in to_forget(lineage, influenced=influenced).items()}
    if not yes:
        said = ", ".join(f"{count:,} of kind {kind}" for kind, count in going.items()) or "nothing"
        if not typer.confirm(f"Forget for good: {said}?", err=True):
            raise typer.Exit(1)

    async def delete(_settings: Settings, database: Database) -> Mapping[str, int]:
        async with database.connection() as connection:
            return await forget(connection, lineage.kind, lineage.id, influenced=influenced)

    gone = with_database(delete)
    if json:
        as_json({"forgotten": dict(gone)})
    elif gone:
        table(["forgotten>", "what"], [[f"{count:,}", kind] for kind, count in gone.items()])
    else:
        say("Nothing was left to forget.")


def _subject(kind: Kind, what: str) -> UUID | str:
    if kind == Kind.AGENT:
        # An argument that is not UTF-8 has lone surrogates.
        if is_blank(what) or what.encode(errors="ignore").decode() != what or "\0" in what:
            raise Misuse("The name of an agent is a text of 1 to 200 characters.")
        return what
    try:
        return id_of(what) if kind == Kind.USER else UUID(what)
    except ValueError as error:
        raise Misuse(
            str(error) if kind == Kind.USER else f"{what!r} is no id: give the id of a {kind.value}, a UUID."
        ) from None


def _print(lineage: Lineage, limit: int) -> None:
    if not lineage.there:
        remark(f"The {lineage.kind.value} itself is gone; these rows were derived from it.")
    if not lineage.rows:
        say("Nothing was derived from it.")
        return
    rows = sorted(lineage.rows, key=lambda row: (not row.certain, row.steps))
    table(
        ["steps>", "what", "id", "", "from", "how"],
        [
            [
                str(row.steps),
                row.kind,
                str(row.id),
                "" if row.certain else "may be influenced",
                str(row.origin),
                row.way,
            ]
            for row in rows[:limit]
        ],
    )
    counts = Counter((row.kind, row.certain) for row in rows)
    sure = ", ".join(f"{count:,} {kind}" for (kind, certain), count in counts.items() if certain)
    maybe = ", ".join(f"{count:,} {kind}" for (kind, certain), count in counts.items() if not certain)
    say()
    say(f"{number(len(rows), 'row')}. Derived: {sure or 'none'}. May be influenced: {maybe or 'none'}.")
