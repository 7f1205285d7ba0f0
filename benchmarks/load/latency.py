"""How long an idle system takes: an insert until it is searchable and associated, and a command until it can be claimed.

    python -m benchmarks.load.latency --samples 300

One insert at a time, a pause between them. `--history` memories stand there before, of the same agent.
"""

from __future__ import annotations

import asyncio
import random
from typing import Annotated

import asyncpg

from benchmarks.harness import Figures, Times, command, daemon, until_idle, wait_for
from benchmarks.load.pipeline import texts

HISTORY = """
insert into agent_memory (agent_id, kind, content, created_at)
select 'alice', 'note', content, now() - make_interval(secs => 60 * n)
from unnest($1::text[]) with ordinality as t(content, n)
"""

INSERT_MEMORY = "insert into agent_memory (agent_id, kind, content) values ('alice', 'note', $1) returning id"

ASSOCIATED = """
select exists (select from memoryd.entries where id = $1 and code is not null)
   and exists (select from memory_associations where memory_id = $1)
"""

INSERT_COMMAND = "insert into agent_commands (agent_id, message) values ('alice', $1)"


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    samples: int = 300,
    history: Annotated[int, "memories of the agent that stand there already"] = 2000,
    pause: Annotated[float, "seconds between two inserts"] = 0.02,
) -> Figures:
    """Both latencies, in milliseconds."""
    text = texts(random.Random(1))
    listener = await asyncpg.connect(url)
    ready = asyncio.Event()
    await listener.add_listener("command_ready", lambda *_: ready.set())
    times = Times(warm=20)
    async with daemon(url):
        await connection.execute(HISTORY, [text(8) for _ in range(history)])
        await until_idle(connection)
        await connection.execute("analyze")
        for _ in range(samples + 20):
            with times.of("searchable"):
                memory = await connection.fetchval(INSERT_MEMORY, text(8))
                await wait_for(connection, ASSOCIATED, memory, pause=0.0005)
            await asyncio.sleep(pause)
            ready.clear()
            with times.of("claim"):
                await connection.execute(INSERT_COMMAND, text(8))
                await ready.wait()
                row = await connection.fetchrow("select * from claim_command('alice')")
            assert row is not None
            await connection.execute(
                "update agent_commands set status = 'cancelled' where id = $1", row["id"]
            )
            await asyncio.sleep(pause)
    await listener.close()
    return {"samples": samples, "history": history, **times.figures()}


if __name__ == "__main__":
    command(__doc__, measure)
