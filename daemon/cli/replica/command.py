"""memoryd replica: how the replica is doing, and what a person has to decide about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Misuse, sentences
from daemon.cli.output import age, as_json, number, say, table
from memory.text import one_line

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

STATUS = """
select r.id, r.leased_until > now() as kept, r.trouble,
       extract(epoch from now() - r.synced_at)::float8 as synced_seconds,
       (select count(*) from memoryd.replica_files f where f.conflict_id is null) as files,
       (select count(*) from memoryd.replica_conflicts c join public.documents d on d.id = c.document_id
        where d.status <> 'deleted')
       + (select count(*) from memoryd.replica_section_conflicts c where not c.ended) as conflicts,
       (select count(*) from memoryd.replica_collections c where c.file_hash is not null) as collections,
       (select count(*) from memoryd.replica_sections s where s.base_hash is not null) as entries,
       (select count(*) from memoryd.replica_buried) as deleted_sections,
       (select coalesce(sum(c.missing), 0) from memoryd.replica_collections c
        where c.missing_since is not null) as waiting_sections,
       (select count(*) from memoryd.replica_tombstones) as deleted,
       (select count(*) from memoryd.replica_files f where f.missing_since is not null) as waiting
from memoryd.replica r
"""
DELETED = """
select t.document_id as id, d.title, extract(epoch from now() - t.deleted_at)::float8 as seconds
from memoryd.replica_tombstones t join public.documents d on d.id = t.document_id
where d.status = 'deleted'
order by t.deleted_at desc, t.document_id
limit $1
"""
DELETED_ENTRIES = """
select b.row_id as id, b.source, left(coalesce(b.row ->> 'title', b.row ->> 'content', b.row ->> 'insight'), 80) as title,
       extract(epoch from now() - b.deleted_at)::float8 as seconds
from memoryd.replica_buried b
order by b.deleted_at desc, b.row_id
limit $1
"""
WAITING = """
select f.path from memoryd.replica_files f where f.missing_since is not null
union
select c.path from memoryd.replica_collections c where c.missing_since is not null
order by 1
limit $1
"""
LEFT_OUT = "select l.path, l.reason from memoryd.replica_left_out l order by l.path limit $1"
CONFIRM = """
with confirmed as (update memoryd.replica set deletions_confirmed_at = clock_timestamp())
select (select count(*) from memoryd.replica_files f where f.missing_since is not null) as documents,
       (select coalesce(sum(c.missing), 0) from memoryd.replica_collections c where c.missing_since is not null) as entries
"""
REWRITE = "select memoryd.rewrite_replica(), memoryd.rewrite_collections()"
WAKE = "select memoryd.wake('replica')"


@dataclass(frozen=True, slots=True)
class _Lists:
    """What is shown line by line."""

    documents: list[Any]
    """That people deleted."""
    entries: list[Any]
    waiting: list[Any]
    left_out: list[Any]


replica = typer.Typer(name="replica", invoke_without_command=True, rich_markup_mode="markdown")


@replica.callback()
def show_replica(
    call: typer.Context,
    confirm_deletions: bool = typer.Option(
        False, "--confirm-deletions", help="Many files or sections are gone at once: yes, delete them."
    ),
    rewrite: bool = typer.Option(
        False,
        "--rewrite",
        help="The files are lost, or the folder is a new one: write what is missing again.",
    ),
    limit: int = typer.Option(20, min=1, help="How many lines of each list, of what was deleted the newest."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show the replica: files, conflicts, what people deleted, deletions that wait for a yes, and files left as they are."""
    if call.invoked_subcommand is not None:
        return
    with sentences():
        if confirm_deletions and rewrite:
            raise Misuse(
                "Choose one: --confirm-deletions deletes documents, --rewrite writes their files again."
            )

    async def work(settings: Settings, database: Database) -> tuple[Any, _Lists, Any]:
        confirmed = None
        if confirm_deletions:
            confirmed = await database.fetchrow(CONFIRM)
            await database.execute(WAKE)
        if rewrite:
            await database.execute(REWRITE)
        status = dict(await database.fetchrow(STATUS) or {}) | {"folder": settings.replica}
        lists = [await database.fetch(sql, limit) for sql in (DELETED, DELETED_ENTRIES, WAITING, LEFT_OUT)]
        return status, _Lists(*lists), confirmed

    status, lists, confirmed = with_database(work)
    if json:
        as_json(
            {
                **status,
                "deleted_documents": lists.documents,
                "deleted_entries": lists.entries,
                "waiting_files": [row["path"] for row in lists.waiting],
                "left_out": lists.left_out,
            }
        )
    elif confirm_deletions:
        both = f"{number(confirmed['documents'], 'document')} and {_entries(confirmed['entries'])}"
        say(f"{both} will be deleted. memoryd replica undelete brings one back, for 30 days.")
    elif rewrite:
        say(
            "The daemon compares all files with their documents and entries again, and writes what is missing."
        )
    else:
        _show(status, lists)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _show(status: dict[str, Any], lists: _Lists) -> None:
    say(f"folder     {status['folder'] or 'none: MEMORYD_REPLICA is not set here'}")
    say(f"kept       {'by a daemon' if status['kept'] else 'by no daemon now'}, {_synced(status)}")
    say(f"files      {status['files']:,}, and {status['collections']:,} with {_entries(status['entries'])}")
    say(
        f"conflicts  {status['conflicts']:,}"
        + ("  -> memoryd replica conflicts" if status["conflicts"] else "")
    )
    say(f"deleted    {status['deleted']:,}, and {_entries(status['deleted_sections'])}")
    if status["waiting"]:
        say(
            f"waiting    {number(status['waiting'], 'file')} gone at once: nothing is deleted until the files are back, or you "
            "run memoryd replica --confirm-deletions"
        )
    if status["waiting_sections"]:
        say(
            f"waiting    {_entries(status['waiting_sections'])} gone at once: none is deleted until they are back, or you "
            "run memoryd replica --confirm-deletions"
        )
    if status["trouble"]:
        say(f"trouble    {status['trouble']}")
    if lists.waiting:
        say()
        table(["waiting file"], [[row["path"]] for row in lists.waiting])
    if lists.left_out:
        say()
        table(["left as it is", "why"], [[row["path"], row["reason"]] for row in lists.left_out])
    if lists.documents:
        say()
        table(
            ["deleted document", "when>", "title"],
            [[str(row["id"]), f"{age(row['seconds'])} ago", row["title"]] for row in lists.documents],
        )
    if lists.entries:
        say()
        table(
            ["deleted entry", "when>", "of", "text"],
            [
                [str(row["id"]), f"{age(row['seconds'])} ago", row["source"], one_line(row["title"], 60)]
                for row in lists.entries
            ],
        )


def _synced(status: dict[str, Any]) -> str:
    seconds = status["synced_seconds"]
    return "never synchronised" if seconds is None else f"synchronised {age(seconds)} ago"
