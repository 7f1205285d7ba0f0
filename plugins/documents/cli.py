"""memoryd ingest: files and folders become documents.

Promise: the same command again takes in only what is new or changed; a file that cannot be read is named with its reason, and
stops nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from daemon.cli.common import id_option, with_database
from daemon.cli.failure import Failure, sentences
from daemon.cli.output import as_json, remark, say, table
from daemon.cli.progress import progress

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.documents.ingest import Outcome
    from plugins.documents.store import Ownership

SHOWN = 20
"""Rejected files that a person is shown."""


def ingest(
    paths: list[Path] = typer.Argument(help="Files, and folders with files. Hidden ones are left out."),
    user: UUID | None = id_option(says="The user whose documents they become. Without: the agents'."),
    level: int | None = typer.Option(
        None, min=0, help="The access_level: others may read the documents from that level on."
    ),
    tag: list[str] = typer.Option([], help="A visibility tag; can be given several times."),
    project: str | None = typer.Option(None, help="The project, channel or group that they belong to."),
    source: str = typer.Option("file", help="Where they come from, as it is shown with results."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Take files in as documents: text, Markdown, CSV, JSON, DOCX, PPTX, XLSX; HTML, PDF and e-mail with an extra.

    A file that was taken in before is looked at by its content: unchanged, it costs nothing; changed, the document follows.
    docs/documents.md says more. The daemon cuts and indexes them. Exit code 1: some files were rejected.
    """
    with sentences():
        for path in paths:
            if not path.exists():
                raise Failure(f"{path} does not exist. Name files or folders.")

    async def take(_settings: Settings, database: Database) -> list[Outcome]:
        from plugins.documents.store import Ownership

        owned = Ownership(source=source, user=user, level=level, tags=tuple(tag), project=project)
        return await _take(database, paths, owned, quiet=json)

    outcomes = with_database(take)
    _report(outcomes, json=json)
    if any(o.result == "rejected" for o in outcomes):
        raise typer.Exit(1)


async def _take(database: Database, paths: Sequence[Path], owned: Ownership, *, quiet: bool) -> list[Outcome]:
    from daemon.local_files import walk
    from plugins.documents.ingest import Ingest, ParserUnavailable
    from plugins.documents.parsing.parser import ChildParser

    files = list(walk(paths))
    parser = ChildParser()
    outcomes: list[Outcome] = []
    try:
        with progress(quiet=quiet) as shown:
            bar = shown.add_task("files", total=len(files))
            async for outcome in Ingest(database=database, parser=parser, owned=owned).take(files):
                outcomes.append(outcome)
                shown.advance(bar)
    except ParserUnavailable as error:
        raise Failure(str(error)) from error
    finally:
        await parser.close()
    return outcomes


def _report(outcomes: Sequence[Outcome], *, json: bool) -> None:
    counts = Counter(o.result for o in outcomes)
    rejected = [o for o in outcomes if o.result == "rejected"]
    warned = [o for o in outcomes if o.result in ("added", "changed") and o.reason]
    if json:
        as_json(
            {
                "files": len(outcomes),
                "counts": counts,
                "rejected": [{"path": str(o.path), "reason": o.reason} for o in rejected],
                "warnings": [{"path": str(o.path), "reason": o.reason} for o in warned],
            }
        )
        return
    if not outcomes:
        say("There are no files.")
        return
    table(["files>", "what became of them"], [[f"{n:,}", result] for result, n in counts.most_common()])
    for heads, some in ((["rejected", "why"], rejected), (["look at", "why"], warned)):
        if some:
            say("")
            table(heads, [[str(o.path), o.reason or ""] for o in some[:SHOWN]], whole=True)
            if len(some) > SHOWN:
                remark(f"and {len(some) - SHOWN:,} more; --json names all")
