"""memoryd replica: the state of the replica, and the decisions that a person has to make."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import age, as_json, number, say, table
from memory.text import one_line
from plugins.replica.check import STATUS
from plugins.replica.settings import Replica

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.db.pool import Database
    from daemon.settings import Settings

IS_BURIED = "select exists (select from memoryd.replica_buried b where b.row_id = $1)"


def undelete(
    deleted: UUID = typer.Argument(
        ...,
        metavar="ID",
        help="Id of a document or an entry. `memoryd replica` lists those that people deleted.",
    ),
) -> None:
    """Bring a deleted document back, or a deleted memory, insight or entry of the team's knowledge, and its file or section.

    Possible for 30 days after a person deleted the file or the section.
    """

    async def bring_back(_settings: Settings, database: Database) -> str:
        if await database.fetchval("select memoryd.restore_document($1)", deleted):
            return "Its chunks and its file come back within seconds, if a daemon runs."
        if await database.fetchval("select memoryd.restore_entry($1)", deleted):
            return "Its section comes back within seconds, if a daemon runs."
        if await database.fetchval(IS_BURIED, deleted):
            raise Failure(
                "This entry is about a user who has switched memory off. It comes back when memory is on."
            )
        raise Failure("There is no deleted document or entry with this id. To see them: memoryd replica")

    say(f"Restored. {with_database(bring_back)}")


LIST = """
select c.id, c.document_id, d.title, own.path, f.path as other_path, c.made_at,
       extract(epoch from now() - c.made_at)::float8 as seconds
from memoryd.replica_conflicts c
join public.documents d on d.id = c.document_id
left join memoryd.replica_files own on own.document_id = d.id and own.conflict_id is null
left join memoryd.replica_files f on f.conflict_id = c.id
where d.status <> 'deleted'
order by c.made_at desc, c.id
"""
LIST_ENTRIES = """
select c.id, c.row_id as entry_id, c.title, f.path, f.path as other_path, c.made_at,
       extract(epoch from now() - c.made_at)::float8 as seconds
from memoryd.replica_section_conflicts c
left join memoryd.replica_sections s on s.source = c.source and s.row_id = c.row_id
left join memoryd.replica_collections f on f.id = s.collection_id
where not c.ended
order by c.made_at desc, c.id
"""
KEEP = {
    "mine": "select memoryd.end_conflicts(array[$1::uuid]) > 0 or memoryd.end_section_conflicts(array[$1::uuid]) > 0",
    "theirs": "select memoryd.take_conflict($1) or memoryd.take_section_conflict($1)",
}


class Keep(StrEnum):
    """The text that stays."""

    MINE = "mine"
    THEIRS = "theirs"


def conflicts(
    conflict: UUID | None = typer.Argument(None, help="Id of a conflict, to resolve it."),
    keep: Keep | None = typer.Option(
        None,
        help="mine: the text in the document's own file, or in the entry's own section. theirs: the other one.",
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List documents and entries that an agent and a person both changed. With `--keep` and an id: resolve one."""
    with sentences():
        if (conflict is None) != (keep is None):
            raise Misuse(
                "To resolve a conflict: memoryd replica conflicts --keep mine ID, or --keep theirs ID"
            )

    async def resolve(_settings: Settings, database: Database) -> None:
        assert keep is not None
        if not await database.fetchval(KEEP[keep.value], conflict):
            raise Failure("There is no conflict with this id. To see them: memoryd replica conflicts")

    async def read(_settings: Settings, database: Database) -> list[Any]:
        return [*await database.fetch(LIST), *await database.fetch(LIST_ENTRIES)]

    if keep is not None:
        with_database(resolve)
        say("Resolved. The file or section of the conflict goes within seconds, if a daemon runs.")
        return
    rows = with_database(read)
    if json:
        as_json(rows)
    elif not rows:
        say("There is no conflict.")
    else:
        table(
            ["id", "made>", "file", "the other text"],
            [
                [str(row["id"]), f"{age(row['seconds'])} ago", row["path"] or "-", row["other_path"] or "-"]
                for row in rows
            ],
        )


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
REWRITE = "select memoryd.rewrite_replica()"
WAKE = "select memoryd.wake('replica')"


_Cells: TypeAlias = "Callable[[Any], list[str]]"
_LISTS: tuple[tuple[str, str, list[str], _Cells], ...] = (
    ("waiting_files", WAITING, ["waiting file"], lambda row: [row["path"]]),
    ("left_out", LEFT_OUT, ["left as it is", "why"], lambda row: [row["path"], row["reason"]]),
    (
        "deleted_documents",
        DELETED,
        ["deleted document", "when>", "title"],
        lambda row: [str(row["id"]), f"{age(row['seconds'])} ago", row["title"]],
    ),
    (
        "deleted_entries",
        DELETED_ENTRIES,
        ["deleted entry", "when>", "of", "text"],
        lambda row: [str(row["id"]), f"{age(row['seconds'])} ago", row["source"], one_line(row["title"], 60)],
    ),
)
"""Each list: its name in JSON, its statement, its headings, and the cells of a row."""

replica = typer.Typer(name="replica", invoke_without_command=True, rich_markup_mode="markdown")
replica.command()(conflicts)
replica.command()(undelete)


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
    """Show the replica: files, conflicts, deletions, deletions to confirm, and files that stay as they are."""
    if call.invoked_subcommand is not None:
        return
    with sentences():
        if confirm_deletions and rewrite:
            raise Misuse(
                "Choose one: --confirm-deletions deletes documents, --rewrite writes their files again."
            )

    async def work(settings: Settings, database: Database) -> tuple[Any, dict[str, list[Any]], Any]:
        confirmed = None
        if confirm_deletions:
            confirmed = await database.fetchrow(CONFIRM)
            await database.execute(WAKE)
        if rewrite:
            await database.execute(REWRITE)
        status = dict(await database.fetchrow(STATUS) or {}) | {"folder": settings.section(Replica).replica}
        return status, {name: await database.fetch(sql, limit) for name, sql, *_ in _LISTS}, confirmed

    status, lists, confirmed = with_database(work)
    if json:
        as_json(status | lists | {"waiting_files": [row["path"] for row in lists["waiting_files"]]})
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


def _show(status: dict[str, Any], lists: dict[str, list[Any]]) -> None:
    seconds = status["synced_seconds"]
    synced = "never synchronised" if seconds is None else f"synchronised {age(seconds)} ago"
    say(f"folder     {status['folder'] or 'none: MEMORYD_REPLICA is not set here'}")
    say(f"kept       {'by a daemon' if status['kept'] else 'by no daemon now'}, {synced}")
    say(f"files      {status['files']:,}, and {status['collections']:,} with {_entries(status['entries'])}")
    advice = "  -> memoryd replica conflicts" if status["conflicts"] else ""
    say(f"conflicts  {status['conflicts']:,}{advice}")
    say(f"deleted    {status['deleted']:,}, and {_entries(status['deleted_sections'])}")
    for gone in (number(status["waiting"], "file"), _entries(status["waiting_sections"])):
        if not gone.startswith("0 "):
            say(
                f"waiting    {gone} gone at once: nothing is deleted until they are back, or you run memoryd replica "
                "--confirm-deletions"
            )
    if status["trouble"]:
        say(f"trouble    {status['trouble']}")
    for name, _, headings, cells in _LISTS:
        if lists[name]:
            say()
            table(headings, [cells(row) for row in lists[name]])
