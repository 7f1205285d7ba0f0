"""What Memory, ChatMemory and Executor have in common: a database, and an identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from memoryd_client._database import AnyDatabase, async_of
from memoryd_client._identity import Identity

if TYPE_CHECKING:
    from memoryd_client._connections import Connection

C = TypeVar("C", bound="DatabaseClient")


class DatabaseClient:
    """A client that calls a database as one identity. Given a URL, it also closes the connections."""

    def __init__(self, database: AnyDatabase | str | None, who: Identity) -> None:
        self._who = who
        self._owned = not isinstance(database, AnyDatabase)
        self._database = async_of(database)

    async def __aenter__(self: C) -> C:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections, if they were opened here."""
        if self._owned:
            await self._database.close()

    async def _changed(self, sql: str, *arguments: object) -> int:
        """How many rows a statement changed or deleted."""
        most = 0

        async def work(connection: Connection) -> int:
            nonlocal most
            count: int = await connection.fetchval(sql, *arguments)
            most = max(most, count)  # a second try finds nothing where the first one was committed
            return most

        return await self._database.read(self._who, work)
