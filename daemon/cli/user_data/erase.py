"""memoryd erase: deletes all that is kept about a user."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import uuid_or_name, with_database
from daemon.cli.failure import Misuse, sentences
from daemon.cli.output import as_json, remark, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

ERASE = "select public.erase_user_memory($1::uuid)"
SECONDS = 3600.0


def erase(
    user: UUID = typer.Argument(
        parser=uuid_or_name, help="Whose memory: the user_id of the rows, or the user's name."
    ),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Delete all that is kept about a user, in every table. The only way back is an export made before."""
    with sentences():
        if not yes and not sys.stdin.isatty():
            raise Misuse(
                "This deletes for good. Say so with --yes; to keep a copy first: memoryd export USER -o FILE"
            )
    if not yes and not typer.confirm(f"Delete all that is kept about user {user}, for good?", err=True):
        raise typer.Exit(1)

    async def delete(_settings: Settings, database: Database) -> dict[str, Any]:
        async with database.transaction() as connection:
            answer: dict[str, Any] = json_module.loads(
                await connection.fetchval(ERASE, user, timeout=SECONDS)
            )
            return answer

    counts = with_database(delete)
    if json:
        as_json(counts)
        return
    files: list[str] = counts.pop("replica_paths")
    erased = {name: count for name, count in counts.items() if count}
    if erased:
        table(["erased>", "table"], [[f"{count:,}", name] for name, count in erased.items()])
    else:
        say(f"Nothing was kept about user {user}.")
    if files:
        remark("Files of their documents that memoryd does not keep. Delete them where they are:")
        for path in files:
            remark(f"  {path}")
