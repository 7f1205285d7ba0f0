"""A conversation as a host keeps it: a list of items, each a row of conversation_messages.

Promise: items keep the order in which they were added, also by two processes at once; those of one call are stored all or none,
each once; an item is popped by one caller only.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from memoryd_client import _values as values
from memoryd_client import sync
from memoryd_client._connected import DatabaseClient
from memoryd_client._database import AnyDatabase, Database, Write
from memoryd_client._errors import Refused
from memoryd_client._identity import Identity, Rights, identity
from memoryd_client._ids import id_of
from memoryd_client._items import joined
from memoryd_client._messages import VISIBLE, added
from memoryd_client._types import Role
from memoryd_client.chat import RESET, RESET_FOR

if TYPE_CHECKING:
    from memoryd_client._connections import Connection

T = TypeVar("T")

# Turns of tools that others wrote, and turns without a text, are left out: without the ids of calls a model takes none.
NEWEST = r"""
select m.id, m.role, m.content, m.metadata, m.message_index
from conversation_messages m
where m.session_id = $1 and {whose} and (m.metadata ? $3 or m.role <> 'tool' and m.content ~ '\S')
  and not exists (select from memory_settings s where s.user_id = m.user_id and not s.memory_enabled)
order by m.message_index desc
limit $4
"""
ITEMS = f"select n.* from ({NEWEST.format(whose=VISIBLE)}) n order by n.message_index"  # noqa: S608 - of constants
# In a group chat a user reads what others said, and removes what is theirs.
LAST = NEWEST.format(
    whose="(m.user_id = coalesce($2, memoryd.caller_id()) or $2 is null and memoryd.caller_is_service())"
)
REMOVE = "select forget(array[$1::uuid], 'message') as count, pg_current_xact_id()::text as transaction"
POPPED = """
select pg_xact_status($1::text::xid8) = 'committed' and not exists (select from conversation_messages where id = $2)
"""


class Row(NamedTuple):
    """An item on its way into the database."""

    role: Role
    speaker: str | None
    content: str
    metadata: str


class HostAdapter:
    """The base of the classes for hosts.

    Given a URL, or a Database of memoryd_client.sync, they may be used in any thread and event loop. Given a Database of
    memoryd_client, in its event loop only.
    """

    def __init__(
        self,
        host: str,
        session_id: UUID | str,
        database: sync.Database | Database | str | None,
        *,
        user: UUID | str | None,
        agent: str | None,
        rights: Rights,
        org: UUID | str | None,
    ) -> None:
        self._anywhere = not isinstance(database, Database)
        self._rows = _Rows(database, identity(rights, agent, user, org), host, id_of(session_id))

    async def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return await (sync._LOOP.wait(work) if self._anywhere else work)  # noqa: SLF001

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._anywhere:
            return sync._LOOP.run(work)  # noqa: SLF001
        work.close()
        raise Refused(
            "This needs a database that works without async.",
            hint="Give a URL, or a Database of memoryd_client.sync.",
        )


class _Rows(DatabaseClient):
    def __init__(self, database: AnyDatabase | str | None, who: Identity, host: str, session: UUID) -> None:
        super().__init__(database, who)
        self._host = host
        self._session = session

    async def add(self, rows: Sequence[Row]) -> None:
        """Adds them in their order, all or none; none if the user has switched memory off. Raises MemorydError."""
        if not rows:
            return
        columns = list(map(list, zip(*rows)))  # noqa: B905 - its strict is not in Python 3.10's type of it
        await self._database.write(
            self._who,
            lambda connection: added(connection, self._who, self._session, columns),
            payload=values.strings(value for row in rows for value in row[1:]),
        )

    async def get(self, limit: int | None) -> list[Any]:
        """The newest `limit` items, the oldest first."""
        most = None if limit is None else max(values.number("limit", limit, -(2**31)), 0)
        rows = await self._database.read(self._who, lambda c: c.fetch(ITEMS, *self._asked(most)))
        items = [item for row in rows if (item := self._item(row)) is not None]
        if most and len(items) < len(rows):  # rows that are no items do not count
            items = (await self.get(None))[-most:]
        return items

    async def pop(self) -> Any:
        """Removes and returns the newest item, or None."""

        async def work(connection: Connection) -> Write[Any]:
            while row := await connection.fetchrow(LAST, *self._asked(1)):
                removed: Any = await connection.fetchrow(REMOVE, row["id"])
                # Where somebody else has removed it meanwhile, or it was no item, the next one is the newest.
                if removed["count"] and (item := self._item(row)) is not None:
                    key, transaction = id_of(row["id"]), removed["transaction"]
                    return Write(item, transaction, POPPED, [transaction, key], [key])
            return Write(None, "0", "select true", ())

        return await self._database.write(self._who, work)

    async def clear(self) -> None:
        """Deletes the items, of a user their own."""
        user = self._who.named_user
        await (
            self._changed(RESET, self._session)
            if user is None
            else self._changed(RESET_FOR, self._session, user)
        )

    def _asked(self, limit: int | None) -> tuple[object, ...]:
        return self._session, self._who.named_user, self._host, limit

    def _item(self, row: Any) -> Any:
        item = joined(self._host, row["content"], row["metadata"])
        if item is None and row["role"] != "tool":
            item = Row(row["role"], None, row["content"], "{}")
        return item
