"""memoryd import --from: the export of another memory system becomes memories and conversations.

Promise: the whole export is read and checked before the first row is written. It is written in one transaction, which waits for
nothing outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING
from uuid import UUID

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, Misuse
from daemon.cli.output import as_json, remark, say, table
from plugins.move_in.importers.items import System
from plugins.move_in.importers.reading import read
from plugins.move_in.importers.sources import READERS
from plugins.move_in.importers.spool import Reason, Spool
from plugins.move_in.importers.writer import WriteResult, write

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

SHOWN = 20
"""How many users are shown to a person."""


def import_elsewhere(
    name: str, source: str, *, user: UUID | None, agent: str | None, dry_run: bool, json: bool
) -> None:
    """Reads, writes, reports. `name`: one of System. Raises Failure and Misuse."""
    system = System(name)
    if user is None and agent is None and not READERS[system].says_whose:
        raise Misuse(f"An export of {system} does not name its user: give --user or --agent.")
    spool = Spool(system, user=user, agent=agent)

    async def take(_settings: Settings, database: Database) -> dict[str, WriteResult]:
        try:
            async with aclosing(read(system, source)) as items:
                async for item in items:
                    spool.add(item)
        except OSError as error:
            raise Failure(f"{source} cannot be read: {error.strerror}.") from None
        async with database.transaction() as connection:
            return await write(connection, spool, dry_run=dry_run)

    try:
        counts = with_database(take)
        report(
            system,
            counts,
            left_out=spool.left_out,
            changed=spool.changed,
            users=spool.users,
            dry_run=dry_run,
            json=json,
        )
    finally:
        spool.close()


def report(
    system: str,
    counts: Mapping[str, WriteResult],
    *,
    left_out: Counter[Reason],
    changed: Counter[Reason] | None = None,
    users: Mapping[str, UUID] | None = None,
    dry_run: bool,
    json: bool,
) -> None:
    """Says what was taken, and what was not."""
    changed, users = changed or Counter(), users or {}
    if json:
        as_json(
            {
                "from": system,
                "dry_run": dry_run,
                "rows": counts,
                "left_out": _reasons(left_out),
                "changed": _reasons(changed),
                "users": users,
            }
        )
        return
    taken = "would be taken>" if dry_run else "taken>"
    table([taken, "there already>", "what"], [[f"{c.taken:,}", f"{c.there:,}", n] for n, c in counts.items()])
    for head, reasons in (("left out>", left_out), ("changed>", changed)):
        if reasons:
            say()
            rows = [[f"{n:,}", what, why] for (what, why), n in reasons.most_common()]
            table([head, "what", "why"], rows, whole=True)
    if users:
        say()
        named = list(users.items())
        table(["user id here", "user there"], [[str(key), name] for name, key in named[:SHOWN]])
        if len(users) > SHOWN:
            remark(f"and {len(users) - SHOWN:,} more; --json names all")


def _reasons(counts: Mapping[Reason, int]) -> list[dict[str, object]]:
    return [{"what": what, "reason": why, "count": n} for (what, why), n in counts.items()]
