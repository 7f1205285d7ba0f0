"""memoryd restore: brings a document back that was deleted."""

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


def restore(
    document: UUID = typer.Argument(
        ..., help="Id of a document. `memoryd replica` lists those that people deleted."
    ),
) -> None:
    """Bring a deleted document back, and its file. Possible for 30 days after its file was deleted."""

    async def bring_back(_settings: Settings, database: Database) -> None:
        if not await database.fetchval("select memoryd.restore_document($1)", document):
            raise Failure("There is no deleted document with this id. To see them: memoryd replica")

    with_database(bring_back)
    say("Restored. Its chunks and its file come back within seconds, if a daemon runs.")
