"""memoryd replica undelete: brings a document, a memory, an insight or knowledge back that a person deleted in the replica."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Failure
from daemon.cli.output import say

if TYPE_CHECKING:
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
