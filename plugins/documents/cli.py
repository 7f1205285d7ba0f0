"""memoryd ingest: files and folders become documents.

Promise: the same command again takes in only new and changed files. A file that cannot be read is named with its reason, and
does not stop the others.
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
from daemon.cli.output import as_json, progress, remark, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.documents.ingest import Outcome
    from plugins.documents.store import Ownership

SHOWN = 20
"""How many rejected files are shown to a person."""


def ingest(
    paths: list[Path] = typer.Argument(help="Files, and folders with files. Hidden ones are left out."),
    user: UUID | None = id_option(says="The user who owns the documents. Left out: the agents."),
    level: int | None = typer.Option(
        None, min=0, help="The access_level: users of this level or a higher one may read the documents, too."
    ),
    tag: list[str] = typer.Option([], help="A visibility tag; may be given several times."),
    project: str | None = typer.Option(None, help="The project, channel or group of the documents."),
    source: str = typer.Option("file", help="The origin of the documents, which results show."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Take files in as documents: text, Markdown, CSV, JSON, DOCX, PPTX, XLSX; HTML, PDF and e-mail with an extra.

    If the content of a file is unchanged since the last time, nothing happens; if it changed, so does the document. The daemon
    cuts and indexes documents. docs/documents.md says more. Exit code 1: some files were rejected.
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
    from plugins.documents.ingest import Ingest, ParserError
    from plugins.documents.parsing.parser import ChildParser
    from plugins.files.local import walk

    files = list(walk(paths))
    parser = ChildParser()
    outcomes: list[Outcome] = []
    try:
        with progress(quiet=quiet) as shown:
            bar = shown.add_task("files", total=len(files))
            async for outcome in Ingest(database=database, parser=parser, owned=owned).take(files):
                outcomes.append(outcome)
                shown.advance(bar)
    except ParserError as error:
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
