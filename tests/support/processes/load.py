"""Work for daemons, as the users of a busy fleet make it: by SQL, a little of everything, until told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from daemon.db.errors import DATABASE_FAULTS

# One statement each, as an application would: outcomes of an executor of the user's, tasks for the built-in one, notes.
OUTCOMES = """
insert into agent_commands (agent_id, message, status, output, exit_code)
select 'agent ' || n % 6, 'deploy service ' || n, case n % 4 when 0 then 'failed' else 'completed' end,
       'rolled out build ' || n, n % 4
from generate_series($1::integer, $1 + 9) n
"""

TASKS = """
insert into agent_commands (agent_id, message)
select 'robot ' || n % 3, 'restart worker ' || n from generate_series($1::integer, $1 + 2) n
"""

NOTES = """
insert into agent_memory (agent_id, kind, content)
select 'agent ' || n % 6, 'observation', 'service ' || n || ' answers slowly after a deploy'
from generate_series($1::integer, $1 + 9) n
"""


MAX_SECONDS = 120.0


@dataclass(slots=True)
class Load:
    """What was asked for so far."""

    rounds: int = 0
    refused: int = 0
    pouring: asyncio.Task[None] | None = None

    async def at_least(self, rounds: int, *, timeout: float = 60.0) -> None:
        """Waits until so many rounds are in. Raises what the pouring ended with, if it did."""
        assert self.pouring is not None
        async with asyncio.timeout(timeout):
            while self.rounds < rounds:
                if self.pouring.done():
                    self.pouring.result()
                    raise AssertionError(f"the load ended after {self.rounds} rounds")
                await asyncio.sleep(0.01)


async def _pour(url: str, load: Load, *, rounds: int, pause: float, tasks: bool) -> None:
    connection: asyncpg.Connection | None = None
    while load.rounds < rounds:
        try:
            if connection is None:
                connection = await asyncpg.connect(url)
            async with connection.transaction():
                for sql in (OUTCOMES, TASKS, NOTES) if tasks else (OUTCOMES, NOTES):
                    await connection.execute(sql, load.rounds * 10)
            load.rounds += 1
        except DATABASE_FAULTS:
            # The server is away: an application tries again too.
            load.refused += 1
            if connection is not None:
                connection.terminate()
            connection = None
        await asyncio.sleep(pause)
    if connection is not None:
        await connection.close()


@asynccontextmanager
async def load_on(url: str, *, rounds: int, pause: float = 0.03, tasks: bool = True) -> AsyncIterator[Load]:
    """Pours in `rounds` rounds of 10 outcomes, 3 tasks and 10 notes each; on leaving, all of them are in."""
    load = Load()
    load.pouring = asyncio.create_task(_pour(url, load, rounds=rounds, pause=pause, tasks=tasks))
    try:
        yield load
        await asyncio.wait_for(load.pouring, MAX_SECONDS)
    finally:
        load.pouring.cancel()
