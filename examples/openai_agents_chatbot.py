"""A chatbot by the OpenAI Agents SDK: the history of its conversation, and what other conversations said.

Run: python examples/openai_agents_chatbot.py
"""

import asyncio
import os

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message
from memoryd_client import Database, Memory
from memoryd_client.openai_agents import MemorydSession

model = ScriptedModel()  # yours: leave out `model`, or name one
helper = Agent(name="helper", instructions="You are a friendly helper.", model=model)


async def reply(database: Database, user: str, conversation: str, text: str) -> str:
    memory = Memory(database, agent="helper", user=user, rights="service")
    remembered = await memory.context(text, exclude_session=conversation, profile=60)
    knowing = helper.clone(instructions=f"{helper.instructions}\n\n{remembered}")
    session = MemorydSession(conversation, database, user=user, agent="helper")
    result = await Runner.run(knowing, text, session=session, run_config=RunConfig(tracing_disabled=True))
    return str(result.final_output)


async def main() -> None:
    async with Database(os.environ["DATABASE_URL"]) as database:
        await Memory(database, agent="helper", user="kai", rights="service").remember("Kai is left-handed")
        for conversation, text, answer in (
            ("kai:1", "My sister Ida plays the cello", "How nice."),
            ("kai:2", "hello!", "Hello, Kai."),
            ("kai:2", "Which instrument does Ida play?", "The cello."),
        ):
            model.enqueue([assistant_message(answer)])
            await reply(database, "kai", conversation, text)
    given = model.calls[-1]
    print(given.system_instructions)
    for turn in given.input:
        print(turn["role"], turn["content"] if turn["role"] == "user" else turn["content"][0]["text"])


asyncio.run(main())

# Output:
# You are a friendly helper.
# --- CONTEXT ... (curated by memoryd) ---
# ...
# Of the user, newest first:
# ...Kai is left-handed
# ...My sister Ida plays the cello
# ...
# user hello!
# assistant Hello, Kai.
# user Which instrument does Ida play?
