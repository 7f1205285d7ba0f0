"""An executor by the client: four commands at once, and those of a process that was killed are run again.

Run: python examples/executor_with_leases.py
"""

import asyncio
import os
import signal

import asyncpg
from memoryd_client import Command, Executor


async def work(context: str, message: str, command: Command) -> str | tuple[str, int]:
    return f"{message}: done"  # or (output, exit_code); what you raise is a failure


async def run(url: str) -> None:
    await Executor(url, "gardener", work, parallel=4).run()  # until SIGTERM or SIGINT


GIVE = "insert into agent_commands (agent_id, message) values ($1, $2) returning id"
OUTPUT = "select output from agent_commands where id = $1"


async def demo(url: str) -> None:
    connection = await asyncpg.connect(url)
    command = await connection.fetchval(GIVE, "gardener", "prune the willow")
    executor = asyncio.create_task(run(url))
    while not (output := await connection.fetchval(OUTPUT, command)):
        await asyncio.wait([executor], timeout=0.1)
    print(output)
    signal.raise_signal(signal.SIGTERM)
    await executor


asyncio.run(demo(os.environ["DATABASE_URL"]))

# Output:
# prune the willow: done
