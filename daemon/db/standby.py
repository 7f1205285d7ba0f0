"""A standby: a copy of the database that shows what its primary has written, and takes no writes of its own.

Promise: what cannot be done there is refused in one sentence that says where to do it. How far it is behind is what the
standby itself knows; nobody else is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from daemon.db.plan import MigrationError
from daemon.db.pool import IS_STANDBY, connect
from handlers.shared.ports import AnyConnection

# Without pg_read_all_stats the receiver's row has its process id, and nothing else. The last change is no measure while all
# that was received is replayed: then its primary may only be quiet.
READ = """
case when pg_is_in_recovery() then (
    select json_build_object(
        'receiving', r.receiving,
        'behind_seconds', case
            when r.receiving and pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0.0
            else extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) end)
    from (select exists (select from pg_stat_wal_receiver w where w.pid is not null) as receiving) r) end
"""
"""An expression: null at a primary, else the fields of `Standby` in JSON."""


@dataclass(frozen=True, slots=True)
class Standby:
    """How a standby is. `receiving`: whether it gets its primary's changes as they come.

    `behind_seconds`: the age of what it shows; None when it has replayed nothing yet.
    """

    receiving: bool
    behind_seconds: float | None

    def __str__(self) -> str:
        if self.behind_seconds is None:
            behind = "it cannot say how far it is behind"
        else:
            behind = f"{self.behind_seconds:.1f} s behind its primary"
        return f"a standby, for reads only: {behind}{'' if self.receiving else ', from which it receives nothing now'}"


class StandbyError(MigrationError):
    """Something was to be written, and the database is a standby; the message says what to do."""

    def __init__(self) -> None:
        super().__init__(
            "This database is a standby: it takes no writes. Give DATABASE_URL the address of its primary, "
            "or make this one the primary: select pg_promote()"
        )


async def refuse_standby(connection: AnyConnection) -> None:
    """Raises StandbyError at a standby."""
    if await connection.fetchval(IS_STANDBY):
        raise StandbyError


async def is_standby(url: str) -> bool:
    """Whether the URL leads to a standby now; opens its own connection, since a failover may change that."""
    connection = await connect(url, pooled=True)
    try:
        return bool(await connection.fetchval(IS_STANDBY))
    finally:
        await connection.close()
