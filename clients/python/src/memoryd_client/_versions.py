"""Memories that were replaced: the statements that replace one, and that say what was true at a time."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from memoryd_client._database import Write
from memoryd_client._errors import NotFound
from memoryd_client._identity import Identity
from memoryd_client._ids import id_of
from memoryd_client._types import MemoryVersion

if TYPE_CHECKING:
    from memoryd_client._connections import Connection

SUPERSEDE = """
select supersede_memory(m.id, $4) as id, pg_current_xact_id()::text as transaction
from agent_memory m
where m.id = $3 and m.user_id is not distinct from coalesce($2, memoryd.caller_id())
  and (m.user_id is not null or m.agent_id = $1)
"""
STORED = "select exists (select from agent_memory where id = $1)"
AS_OF = """
select id, kind, content, metadata, valid_from, valid_to, superseded_by
from memory_as_of($1, user_id => coalesce($2, memoryd.caller_id()), max_rows => $3)
"""


async def superseded(connection: Connection, who: Identity, key: UUID, text: str) -> Write[UUID | None]:
    """Replaces a memory of this identity, in a transaction that has begun; None if the user has switched memory off."""
    row = await connection.fetchrow(SUPERSEDE, who.agent, who.named_user, key, text)
    if row is None:
        raise NotFound(
            "There is no such memory, or it is not yours.", hint="Give the id that recall returned."
        )
    if row["id"] is None:
        return Write(None, "0", "select true", ())
    new = id_of(row["id"])
    return Write(new, row["transaction"], STORED, [new], [new])


async def stood(connection: Connection, who: Identity, time: datetime, count: int) -> list[MemoryVersion]:
    """What was true of the user at a time, in a transaction that has begun."""
    return [
        MemoryVersion(
            id_of(r["id"]),
            r["kind"],
            r["content"],
            json.loads(r["metadata"]),
            r["valid_from"],
            r["valid_to"],
            None if r["superseded_by"] is None else id_of(r["superseded_by"]),
        )
        for r in await connection.fetch(AS_OF, time, who.named_user, count)
    ]
