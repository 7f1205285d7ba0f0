"""An answer that a model streams is remembered as one message, or not at all when the stream breaks.

Run: python examples/stream_answer.py
"""

import asyncio
import os
from collections.abc import AsyncIterator

from memoryd_client import ChatMemory, Database, Message


async def turn(database: Database, text: str, stream: AsyncIterator[str]) -> list[Message]:
    chat = ChatMemory(database, user="mia", agent="helper")
    await chat.add_user_message("web:7", text, metadata={"page": "/prices"})
    async with chat.ai_message("web:7") as said:  # one message at the end; none if the stream breaks
        async for piece in stream:
            said.add(piece)
    return await chat.load_context("web:7")  # the latest twelve, oldest first


async def your_model() -> AsyncIterator[str]:
    for piece in ("Two ", "pounds"):
        yield piece


async def main() -> None:
    async with Database(os.environ["DATABASE_URL"]) as database:
        for message in await turn(database, "What does it cost?", your_model()):
            print(f"{message.role}: {message.content}")


asyncio.run(main())

# Output:
# user: What does it cost?
# assistant: Two pounds
