"""memoryd replica conflicts: lists the texts that lost against another change, and resolves them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import age, as_json, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

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
