"""Postgres through asyncpg, where no libpq with TLS is found. asyncpg takes longer to load than the rest of a hook."""

from __future__ import annotations

import asyncio

import asyncpg

from plugins.hooks.libpq import UNREADABLE, Refusal, Unreachable

ROLE = "select set_config('role', 'memoryd_service', true), set_config('statement_timeout', '1500', true)"


class Connection:
    """The same interface as plugins.hooks.libpq.Connection."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._at = self._loop.run_until_complete(
                asyncpg.connect(
                    url,
                    timeout=5,
                    statement_cache_size=0,
                    server_settings={"application_name": "memoryd hook"},
                )
            )
        except (OSError, ValueError, OverflowError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            self._loop.close()
            is_of_url = isinstance(error, (ValueError, OverflowError))
            raise Unreachable(UNREADABLE if is_of_url else str(error)) from None

    def rows(self, sql: str, *values: str | None) -> list[tuple[str | None, ...]]:
        """The rows of one statement. Raises Refusal, or Unreachable where the connection is lost."""
        try:
            return self._loop.run_until_complete(self._rows(sql, *values))
        except asyncpg.PostgresError as error:
            raise Refusal(error.sqlstate or "XX000") from None
        except (OSError, asyncpg.InterfaceError) as error:
            raise Unreachable(str(error)) from None

    async def _rows(self, sql: str, *values: str | None) -> list[tuple[str | None, ...]]:
        async with self._at.transaction():
            await self._at.execute(ROLE)
            rows = await self._at.fetch(sql, *values)
        return [tuple(None if v is None else str(v) for v in row) for row in rows]
