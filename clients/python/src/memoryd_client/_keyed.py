"""Memories by their keys, for what other frameworks call a store or files.

Promise: each call is one transaction. It is made in the client's own event loop (memoryd_client.sync), so that it may come from
any thread and any event loop, also after a fork.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from memoryd_client import sync
from memoryd_client._database import async_of
from memoryd_client._errors import Refused
from memoryd_client._identity import Rights, identity
from memoryd_client.memory import OFF

if TYPE_CHECKING:
    from memoryd_client._connections import Connection

T = TypeVar("T")
K = TypeVar("K", bound="KeyedAdapter")

MINE = "m.scope = memoryd.scope_of(coalesce($2::uuid, memoryd.caller_id()), $1) and m.agent_id = $1"
"""Whose memory it is; of a user who asks with a login or a gateway's claims the database knows who that is."""
THERE = "(m.expires_at is null or m.expires_at > now())"

PUT = """
with put as (
    insert into agent_memory (agent_id, user_id, kind, content, metadata, ttl_hours, expires_at, key)
    select $1, coalesce($2::uuid, memoryd.caller_id()), 'fact', p.content, p.metadata::jsonb, null,
           now() + make_interval(secs => p.seconds), p.key
    from unnest($3::text[], $4::text[], $5::text[], $6::double precision[]) p(key, content, metadata, seconds)
    order by p.key
    on conflict (scope, agent_id, key) where key is not null do update
    set content = excluded.content, metadata = excluded.metadata, ttl_hours = excluded.ttl_hours,
        expires_at = excluded.expires_at, kind = excluded.kind, valid_to = null, superseded_by = null
    returning 1
)
select count(*) from put
"""
DROP = f"select forget(array(select m.id from agent_memory m where {MINE} and m.key = any($3::text[])))"  # noqa: S608 - constants


async def put(
    connection: Connection,
    whose: tuple[object, ...],
    rows: Iterable[tuple[str, str, str, float | None]],
) -> None:
    """Writes (key, content, metadata as JSON, seconds to live), each key once. Raises Refused if the user's memory is off."""
    given = list(rows)
    if given and await connection.fetchval(PUT, *whose, *map(list, zip(*given, strict=True))) < len(given):
        raise Refused(OFF)


class KeyedAdapter:
    """A client with a database and an identity whose calls work with and without async."""

    def __init__(
        self,
        database: sync.Database | str | None,
        agent: str,
        user: UUID | str | None,
        rights: Rights | None,
    ) -> None:
        self._who = identity(rights or ("service" if user is None else "user"), agent, user)
        self._owned = not isinstance(database, sync.Database)
        self._database = async_of(database)
        self._whose = (self._who.agent, self._who.named_user)

    def __enter__(self: K) -> K:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self: K) -> K:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._owned:
            await sync._LOOP.wait(self._database.close())  # noqa: SLF001

    def close(self) -> None:
        """Closes the connections, if they were opened here."""
        if self._owned:
            sync._LOOP.run(self._database.close())  # noqa: SLF001
