"""Commands in Postgres, as an executor claims, keeps and completes them; and what a handler's end means for its command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from memoryd_client._database import Database, Write
from memoryd_client._identity import Identity
from memoryd_client._ids import id_of
from memoryd_client._types import Command
from memoryd_client._values import made, storable

if TYPE_CHECKING:
    from memoryd_client._connections import Connection

CLAIM = """
select id, agent_id, message, coalesce(context, '') as context, user_id, session_id, metadata, created_at, started_at,
       pg_current_xact_id()::text as transaction
from claim_command($1, $2)
"""
CLAIMED = (
    "select exists (select from agent_commands where id = $1 and status = 'running' and started_at = $2)"
)
RENEW = """
select r.id from unnest($1::uuid[], $2::timestamptz[]) as r(id, started_at)
where renew_command(r.id, r.started_at, $3)
"""
COMPLETE = "select complete_command($1, $2, $3, $4)"

LONGEST_LEASE = 86_400
FOREVER = float("inf")
LONGEST_OUTPUT = 250_000_000


async def claim(database: Database, who: Identity, lease_seconds: float | None) -> Command | None:
    async def work(connection: Connection) -> Write[Command | None]:
        row = await connection.fetchrow(CLAIM, who.agent, lease_seconds)
        if row is None:
            return Write(None, "0", "select true", ())
        command = made(Command, row)
        return Write(command, row["transaction"], CLAIMED, [command.id, command.started_at], [command.id])

    # A claim that is not known to be rolled back may have left a command running with nobody to do it.
    return await database.write(who, work, settle_seconds=FOREVER)


async def renew(
    database: Database, who: Identity, commands: Sequence[Command], lease_seconds: float
) -> set[UUID]:
    """Renews the leases of these; returns the ids of those that are still this executor's."""
    arguments = ([c.id for c in commands], [c.started_at for c in commands], lease_seconds)
    rows = await database.read(who, lambda c: c.fetch(RENEW, *arguments))
    return {id_of(r["id"]) for r in rows}


async def complete(database: Database, who: Identity, command: Command, output: str, exit_code: int) -> None:
    """Writes the outcome, unless another executor has claimed the command since."""
    arguments = (command.id, output, exit_code, command.started_at)
    await database.read(who, lambda c: c.execute(COMPLETE, *arguments), payload=[output])


def failure(error: BaseException) -> str:
    """The type and the message of an exception."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an exception that cannot say what it is
        said = ""
    return storable(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def outcome(returned: Any) -> tuple[str, int]:
    """The output and the exit code of a handler's result; a failure for any other result."""
    output, exit_code = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, 0)
    output = "" if output is None else output
    if (
        not isinstance(output, str)
        or not isinstance(exit_code, int)
        or not -(2**31) <= int(exit_code) < 2**31
    ):
        return (
            f"TypeError: the handler returned {type(returned).__name__}, not a text or (text, exit code)",
            1,
        )
    output = storable(output)
    if len(output) > LONGEST_OUTPUT:
        return f"ValueError: the output has {len(output):,} characters, more than {LONGEST_OUTPUT:,}", 1
    return output, int(exit_code)
