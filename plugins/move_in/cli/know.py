"""memoryd know: notes what the team should know, from a sentence or from files; lists and shows what it knows.

Promise: the same files again store nothing twice and change nothing; a note that is refused is named with its reason, and stops
nothing.
"""

from __future__ import annotations

import json as json_
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import id_option, with_database
from daemon.cli.failure import Failure, sentences
from daemon.cli.output import as_json, progress, remark, say, table
from plugins.move_in.seeds import KEYS, Seed, SeedError, first_line, from_json, from_markdown

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from handlers.shared.ports import AnyConnection

NOTE = """
select what, id, surprise, neighbour, reason
from note_knowledge(content => $1, category => $2, created_by => $3, title => $4, tier => $5,
                    confidence => coalesce($6, 'high'), tags => coalesce($7::text[], '{}'),
                    related_ids => coalesce($8::uuid[], '{}'),
                    decision_context => $9::jsonb, outcome => $10::jsonb, source => $11, created_by_name => $12,
                    strengthen => $13)
"""
LIST = """
select id, tier, category, title, confidence, status, created_by, tags, surprise_score, said_again, accessed_count, created_at
from shared_knowledge
where org_id is not distinct from memoryd.caller_org()
  and ($1::text is null or tier = $1) and ($2::text is null or category = $2) and ($3::text is null or tags @> array[$3])
  and status = any($4)
order by created_at desc, id
limit $5
"""
SHOW = """
select to_jsonb(k) - 'embedding' - 'scope' from shared_knowledge k
where k.id = $1 and org_id is not distinct from memoryd.caller_org()
"""

READERS = {".md": from_markdown, ".markdown": from_markdown, ".json": from_json, ".jsonl": from_json}
SHOWN = 20
"""Refused notes that a person is shown."""

know = typer.Typer(
    name="know",
    help="Note what the team of agents should know; list it and show it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

ORG = id_option("--org", says="The organisation whose knowledge it is. Without: what belongs to none.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@dataclass(frozen=True, slots=True)
class NoteResult:
    """The result of a note of a file."""

    path: Path
    number: int
    what: str
    reason: str | None = None


@asynccontextmanager
async def of_org(database: Database, org: UUID | None) -> AsyncIterator[AnyConnection]:
    """A transaction in which the caller is of this organisation."""
    async with database.transaction() as connection:
        await connection.execute(
            "select set_config('memoryd.org_id', $1, true)", "" if org is None else str(org)
        )
        yield connection


async def note(
    connection: AnyConnection, values: Mapping[str, Any], *, strengthen: bool
) -> Mapping[str, Any]:
    """Stores one note; returns its result."""
    shaped = {k: json_.dumps(v) if k in {"decision_context", "outcome"} else v for k, v in values.items()}
    [told] = await connection.fetch(NOTE, *(shaped.get(key) for key in KEYS), strengthen)
    return dict(told)


@know.command()
def add(  # noqa: PLR0913, PLR0917 - its options
    text: str = typer.Argument(help="What is known, in a sentence or a few."),
    by: str = typer.Option(..., help="The agent, or the person, who says it."),
    category: str = typer.Option(
        "insight",
        help="The category: principle, procedure, team, client; project, thread, commitment; decision, correction, insight, "
        "outcome.",
    ),
    title: str | None = typer.Option(None, help="A short title; without: the beginning of the text."),
    tier: str | None = typer.Option(None, help="core, working or learning, for a category of your own."),
    confidence: str = typer.Option("high", help="high, medium or low."),
    tag: list[str] = typer.Option([], help="A tag; can be given several times."),
    related: list[UUID] = typer.Option(
        [],
        help="Id of an entry: of an outcome its decision, of a correction what it corrects; can be given several times.",
    ),
    source: str | None = typer.Option(None, help="Who or what it was learned from."),
    reasoning: str | None = typer.Option(None, help="Of a decision: why."),
    kill: list[str] = typer.Option([], help="Of a decision: what would end it; can be given several times."),
    review_by: str | None = typer.Option(None, help="Of a decision: the date by which to look at it again."),
    success: bool | None = typer.Option(None, "--success/--failure", help="Of an outcome: how it came out."),
    org: UUID | None = ORG,
    json: bool = JSON,
) -> None:
    """Note one thing. It is stored if it is new; else the entry that says it already is strengthened."""
    context = {"reasoning": reasoning, "kill_criteria": kill or None, "review_by": review_by}
    context = {key: value for key, value in context.items() if value is not None}
    values: dict[str, object] = {
        "content": text, "category": category, "created_by": by, "title": title or first_line(text), "tier": tier,
        "confidence": confidence, "tags": tag, "related_ids": related, "source": source,
    }  # fmt: skip
    if context:
        values["decision_context"] = context
    if success is not None:
        values["outcome"] = {"success": success, "result": "success" if success else "failure"}

    async def write(_settings: Settings, database: Database) -> Mapping[str, Any]:
        async with of_org(database, org) as connection:
            return await note(connection, {k: v for k, v in values.items() if v is not None}, strengthen=True)

    told = with_database(write)
    if json:
        as_json(told)
        return
    say(
        f"{told['what'].capitalize()}{'' if told['id'] is None else ' ' + str(told['id'])}. Surprise {told['surprise']:.2f}."
    )
    if told["reason"]:
        remark(told["reason"])


@know.command("list")
def list_(
    tier: str | None = typer.Option(None, help="core, working or learning."),
    category: str | None = typer.Option(None, help="Only this category."),
    tag: str | None = typer.Option(None, help="Only what has this tag."),
    archived: bool = typer.Option(False, help="What is archived, too."),
    limit: int = typer.Option(50, min=1, help="How many, the newest first."),
    org: UUID | None = ORG,
    json: bool = JSON,
) -> None:
    """List what the team knows, the newest first."""
    statuses = ["active", "resolved", *(["archived"] if archived else [])]

    async def read(_settings: Settings, database: Database) -> list[Any]:
        async with of_org(database, org) as connection:
            return list(await connection.fetch(LIST, tier, category, tag, statuses, limit))

    rows = with_database(read)
    if json:
        as_json(rows)
        return
    if not rows:
        filtered = tier is not None or category is not None or tag is not None
        say(
            "Nothing that is known matches. To list all: memoryd know list"
            if filtered
            else "Nothing is known yet. To note something: memoryd know add TEXT --by NAME"
        )
        return
    table(
        ["id", "tier", "category", "by", "confidence", "surprise>", "again>", "used>", "title"],
        [
            [
                str(r["id"]), r["tier"], r["category"], r["created_by"], r["confidence"],
                "-" if r["surprise_score"] is None else f"{r['surprise_score']:.2f}",
                f"{r['said_again']:,}", f"{r['accessed_count']:,}", r["title"],
            ]
            for r in rows
        ],
    )  # fmt: skip


@know.command()
def show(which: UUID = typer.Argument(metavar="ID", help="Id of an entry."), org: UUID | None = ORG) -> None:
    """Show one entry whole, as JSON."""

    async def read(_settings: Settings, database: Database) -> Any:
        async with of_org(database, org) as connection:
            found = await connection.fetchval(SHOW, which)
            if found is None:
                raise Failure("There is no entry with this id. To see what there is: memoryd know list")
            return json_.loads(found) if isinstance(found, str) else found

    as_json(with_database(read))


@know.command()
def seed(
    paths: list[Path] = typer.Argument(help="Markdown and JSON files, and folders with such files."),
    by: str = typer.Option(
        ..., help="The agent, or the person, whose notes they are, where a note does not say."
    ),
    category: str = typer.Option("insight", help="The category, where a note does not say."),
    org: UUID | None = ORG,
    json: bool = JSON,
) -> None:
    """Note what stands in files: in Markdown each section, or each item of a list; in JSON each object.

    The same files again store nothing twice and change nothing. Exit code 1: some notes were refused.
    """
    with sentences():
        for path in paths:
            if not path.exists():
                raise Failure(f"{path} does not exist. Name files or folders.")

    async def take(_settings: Settings, database: Database) -> list[NoteResult]:
        return await _take(database, paths, {"category": category, "created_by": by}, org, quiet=json)

    told = with_database(take)
    _report(told, json=json)
    if any(each.what == "refused" for each in told):
        raise typer.Exit(1)


async def _take(
    database: Database, paths: Sequence[Path], usual: Mapping[str, Any], org: UUID | None, *, quiet: bool
) -> list[NoteResult]:
    from plugins.files.local import LocalFiles, UnreadableFileError, walk

    told: list[NoteResult] = []
    found: list[tuple[Path, Seed]] = []
    for path in walk(paths):
        if path.suffix.lower() not in READERS:
            continue
        try:
            text = LocalFiles.read(path)[0].decode("utf-8")
            found.extend((path, each) for each in list(READERS[path.suffix.lower()](text)))
        except (UnreadableFileError, SeedError, UnicodeDecodeError) as error:
            reason = "it is not in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            told.append(NoteResult(path, 0, "refused", reason))
    with progress(quiet=quiet) as shown:
        bar = shown.add_task("notes", total=len(found))
        for path, each in found:
            told.append(await _note(database, path, each, usual, org))
            shown.advance(bar)
    return told


async def _note(
    database: Database, path: Path, each: Seed, usual: Mapping[str, Any], org: UUID | None
) -> NoteResult:
    import asyncpg

    try:
        async with of_org(database, org) as connection:
            came = await note(connection, {**usual, **each.values}, strengthen=False)
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.NoDataFoundError) as error:
        return NoteResult(path, each.number, "refused", str(error.args[0]))
    return NoteResult(path, each.number, came["what"], came["reason"])


def _report(told: Sequence[NoteResult], *, json: bool) -> None:
    counts = Counter(each.what for each in told)
    refused = [each for each in told if each.what == "refused"]
    if json:
        named = [{"path": str(e.path), "note": e.number, "reason": e.reason} for e in refused]
        as_json({"notes": len(told), "counts": counts, "refused": named})
        return
    if not told:
        say("There are no notes. Markdown files end with .md, JSON files with .json or .jsonl.")
        return
    table(["notes>", "what became of them"], [[f"{n:,}", what] for what, n in counts.most_common()])
    if refused:
        say("")
        rows = [[str(e.path), str(e.number or "-"), e.reason or ""] for e in refused[:SHOWN]]
        table(["file", "note>", "why it was refused"], rows, whole=True)
        if len(refused) > SHOWN:
            remark(f"and {len(refused) - SHOWN:,} more; --json names all")
