"""An executor in ten lines: it does the commands of one agent, each with the context that memoryd wrote for it.

Run: python examples/executor.py
"""

import asyncio
import os

import asyncpg


async def main(agent: str) -> None:  # work(context, message) -> (output, exit_code) is yours
    connection = await asyncpg.connect(os.environ["DATABASE_URL"])
    ready = asyncio.Event()
    ready.set()
    await connection.add_listener("command_ready", lambda *_: ready.set())
    while True:
        await ready.wait()
        ready.clear()
        while command := await connection.fetchrow("select * from claim_command($1)", agent):
            output, exit_code = await work(command["context"], command["message"])
            await connection.execute("select complete_command($1, $2, $3)", command["id"], output, exit_code)


async def work(context: str, message: str) -> tuple[str, int]:
    return f"{message}: done", 0


GIVE = "insert into agent_commands (agent_id, message) values ($1, $2) returning id"
OUTPUT = "select output from agent_commands where id = $1"


async def demo(agent: str) -> None:
    connection = await asyncpg.connect(os.environ["DATABASE_URL"])
    command = await connection.fetchval(GIVE, agent, "rake the leaves")
    executor = asyncio.create_task(main(agent))
    while not (output := await connection.fetchval(OUTPUT, command)):
        await asyncio.wait([executor], timeout=0.1)
    print(output)
    executor.cancel()
    await asyncio.wait([executor])


asyncio.run(demo("raker"))

# Output:
# rake the leaves: done
