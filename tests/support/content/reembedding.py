"""A database of the local embedder, rows in it, and a remote embedder to change to, which a test can hold up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import asyncpg

from tests.support.services.openai_server import Fault
from tests.support.services.remote import CountingServer
from tests.support.waiting import IDLE, until

MODEL = ("openai/test", "--dimensions", "8")

ROWS = """
insert into agent_memory (agent_id, content)
select 'alice', 'the ' || n || 'th ferry to Bergen leaves at ' || n || ' past noon' from generate_series(1, $1) n
"""
DIMENSIONS_OF = """
select coalesce(vector_dims(embedding), 0) as dimensions, count(*)::integer as passages
from memoryd.{} group by 1
"""
DIFFERENT = """
select count(*) from memoryd.entries e
full join memoryd.spare_entries s using (scope, id, source, passage)
where e.text_hash is distinct from s.text_hash or e.lexemes is distinct from s.lexemes
   or (e.owner_id, e.agent_id, e.is_current, e.expires_at, e.group_scope) is distinct from
      (s.owner_id, s.agent_id, s.is_current, s.expires_at, s.group_scope)
"""


class HeldServer(CountingServer):
    """Answers until `hold_after` texts were paid for; then requests wait for `release`."""

    def __init__(self) -> None:
        super().__init__()
        self.hold_after: int | None = None
        self.held = threading.Event()
        self._go = threading.Event()

    def release(self) -> None:
        """Lets all requests go on."""
        self.hold_after = None
        self._go.set()

    def embeddings(self, request: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """See `OpenAIServer`."""
        if self.hold_after is not None and len(self.paid) >= self.hold_after:
            self.held.set()
            self._go.wait(120.0)
        return super().embeddings(request, fault)

    async def until_held(self) -> None:
        """Returns when a request waits."""
        assert await asyncio.to_thread(self.held.wait, 60.0)


async def settled(connection: asyncpg.Connection) -> None:
    """Waits until every row is indexed, with its embedding."""
    await until(connection, IDLE)
    await until(connection, "select not exists (select from memoryd.entries where code is null)")


async def dimensions(connection: asyncpg.Connection, table: str = "entries") -> dict[int, int]:
    """How many passages have embeddings of how many dimensions (0: none)."""
    return {r["dimensions"]: r["passages"] for r in await connection.fetch(DIMENSIONS_OF.format(table))}
