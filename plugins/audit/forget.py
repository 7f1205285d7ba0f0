"""Forgets a thing with its derived rows, in one transaction.

Promise: it deletes through forget() with the rights of the role, and the usual triggers follow (anchors, links, insights, the
replica). Texts that showed the rows lose these lines at once where the role may do that, else by a daemon within seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from plugins.audit.derived import SERVICE, TABLES, Kind, Lineage, derived
from plugins.audit.rule import SECONDS

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection

ROUNDS = 10
"""Rounds that search for rows derived meanwhile. Each round finds fewer, since their origins are gone."""

# In the order in which all transactions lock rows (migrations/functions/base/locks.sql).
KINDS = ("command", "message", "conversation", "memory", "insight", "document", "knowledge")
WITHOUT_A_SOURCE = {"command", "insight", "knowledge"}
"""forget() does not know these: a service deletes them, and an end user may not."""
LOCK = "select t.id from public.{table} t where t.id = any($1) order by t.id for update"
FORGET = "select public.forget($1::uuid[], $2::text)"
DELETE = "delete from public.{table} t where t.id = any($1)"
MAY_CLEAN = "select has_function_privilege('memoryd.remove_outdated(integer)', 'execute')"
CLEAN = "select * from memoryd.remove_outdated(null)"
OF_A_USER = "Forget a user by an erasure, which also deletes what is not derived: memoryd erase USER"
ISOLATION = "select current_setting('transaction_isolation')"


class ForgetError(ValueError):
    """Nothing was forgotten; the message says why, and what to do."""


def to_forget(lineage: Lineage, *, influenced: bool) -> dict[str, list[UUID]]:
    """The ids to delete, by kind. Links, chunks and anchors are deleted or erased with their rows."""
    rows = lineage.rows if influenced else lineage.certain
    ids: dict[str, list[UUID]] = {kind: [] for kind in KINDS}
    if lineage.there and lineage.kind in ids and isinstance(lineage.id, UUID):
        ids[lineage.kind].append(lineage.id)
    for row in rows:
        # Commands and contexts are not derived from it: they lose the lines that show it.
        if row.kind in ids and (row.kind != "command" or lineage.kind in {Kind.USER, Kind.CONVERSATION}):
            ids[row.kind].append(row.id)
    return {kind: sorted(set(found)) for kind, found in ids.items() if found}


async def forget(
    connection: AnyConnection, kind: Kind, what: UUID | str, *, influenced: bool = False
) -> Mapping[str, int]:
    """Forgets it; returns the number of deleted rows by kind. Raises ForgetError, asyncpg.PostgresError."""
    if kind == Kind.USER:
        raise ForgetError(OF_A_USER)
    gone: Counter[str] = Counter()
    async with connection.transaction():
        if await connection.fetchval(ISOLATION) != "read committed":
            raise ForgetError(
                "It must see what is committed while it runs: use isolation level read committed."
            )
        service = await connection.fetchval(SERVICE)
        first = await derived(connection, kind, what)
        for _ in range(ROUNDS):
            ids = to_forget(await derived(connection, kind, what) if gone else first, influenced=influenced)
            before = gone.total()
            for each, found in ids.items():
                gone[each] += await _forget(connection, each, found, service=service)
            if gone.total() == before:
                break
        if await connection.fetchval(MAY_CLEAN):
            await connection.fetch(CLEAN, timeout=SECONDS)
    return {each: count for each, count in gone.items() if count}


async def _forget(connection: AnyConnection, kind: str, ids: list[UUID], *, service: bool) -> int:
    if kind in WITHOUT_A_SOURCE and not service:
        return 0
    if service:
        await connection.fetch(LOCK.format(table=TABLES[kind]), ids, timeout=SECONDS)
    if kind in WITHOUT_A_SOURCE:
        status = await connection.execute(DELETE.format(table=TABLES[kind]), ids, timeout=SECONDS)
        return int(status.rpartition(" ")[2])
    source = "session" if kind == "conversation" else kind
    deleted: int = await connection.fetchval(FORGET, ids, source, timeout=SECONDS)
    return deleted
