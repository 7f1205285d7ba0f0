"""An agent remembers, recalls, judges and forgets; a user's memories are apart from its own.

Run: python examples/remember.py
"""

import asyncio
import os

from memoryd_client import Database, Memory


async def main(url: str) -> str:
    async with Database(url) as database:  # one for each event loop: it has the connections
        memory = Memory(database, agent="gardener")
        stored = await memory.remember("The heron nests in the old willow", kind="fact")
        found = await memory.recall("where is the heron's nest?", count=3)
        await memory.feedback(found, useful=True)
        await memory.wait_indexed([stored.id], timeout=60)

        mia = Memory(database, agent="gardener", user="mia")
        await mia.remember("I am allergic to willow pollen", project="health", metadata={"by": "form"})
        await mia.recall("allergies", project="health", min_score=0.2)

        await memory.context("Prune the old willow")  # a block of text to begin a task with
        await memory.forget([stored.id])
        return found[0].content


print(asyncio.run(main(os.environ["DATABASE_URL"])))

# Output:
# The heron nests in the old willow
