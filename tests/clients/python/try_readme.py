"""Runs the examples of the client's README as they are written, with the memoryd_client that is installed.

    python tests/clients/python/try_readme.py postgresql://...

Needs a database with memoryd's schema and a daemon, Python 3.10, and nothing beside the client.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
from memoryd_client import Database
from memoryd_client.sync import ChatMemory

README = Path(__file__).parents[3] / "clients/python/README.md"
URL = "postgresql://localhost/app"
OUTPUT = "select output from agent_commands where id = $1"


def examples(document: Path = README) -> list[str]:
    """The Python blocks of a document."""
    return re.findall(r"```python\n(.*?)```", document.read_text("utf-8"), re.DOTALL)


def run(example: str, **names: Any) -> dict[str, Any]:
    """Runs an example; returns what it defines."""
    exec(compile(example, str(README), "exec"), names)
    return names


def try_five_lines(url: str) -> None:
    """The model is given what was said in an earlier conversation, and its answer is kept."""
    five = examples()[0]
    assert len([line for line in five.splitlines() if line]) == 5
    given: list[list[dict[str, str]]] = []

    def model(messages: list[dict[str, str]]) -> str:
        given.append(messages)
        return "The tuba."

    with ChatMemory(url, user="mia") as before:
        before.reset("telegram:42")
        before.add_user_message(uuid4(), "My sister Dora plays the tuba")
    assert URL in five
    with run(five.replace(URL, url), ask_your_model=model)["chat"] as chat:
        said = [message.content for message in chat.get_messages("telegram:42")]
    assert said == ["Which instrument does Dora play?", "The tuba."], said
    [[system, question]] = given
    assert "My sister Dora plays the tuba" in system["content"], system
    assert question == {"role": "user", "content": "Which instrument does Dora play?"}, question


async def try_others(url: str) -> None:
    """What the other examples return."""
    memory, conversations, team, executor = (run(example) for example in examples()[1:])
    assert await memory["main"](url) == "The heron nests in the old willow"

    async def stream() -> AsyncIterator[str]:
        for piece in ("Two ", "pounds"):
            yield piece

    async with Database(url) as database:
        said = await conversations["turn"](database, "What does it cost?", stream())
    assert [message.content for message in said][-2:] == ["What does it cost?", "Two pounds"], said

    [decision] = await team["release"](url)
    assert (decision.state, decision.success) == ("scored", True), decision

    connection = await asyncpg.connect(url)
    running = asyncio.ensure_future(executor["run"](url))
    command = await connection.fetchval(
        "insert into agent_commands (agent_id, message) values ('gardener', 'rake the leaves') returning id"
    )
    while (output := await connection.fetchval(OUTPUT, command)) is None:
        assert not running.done(), running.result()
        await asyncio.sleep(0.01)
    assert output == "rake the leaves: done", output
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await connection.close()


if __name__ == "__main__":
    try_five_lines(sys.argv[1])
    asyncio.run(try_others(sys.argv[1]))
    print(f"The {len(examples())} examples run on Python {sys.version.partition(' ')[0]}.")  # noqa: T201
