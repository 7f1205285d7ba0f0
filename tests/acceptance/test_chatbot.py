"""The chatbot of docs/chatbot.md, as it is written there, with a language model that repeats what it is told."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from tests.support.access.acting import ANN, BOB
from tests.support.processes.daemons import DaemonProcess
from tests.support.repository import ROOT
from tests.support.waiting import IDLE, until

Reply = Callable[[asyncpg.Connection, Any, UUID, UUID, str], Awaitable[str]]


class Model:
    """A language model with the face of the openai client; it answers with one sentence, and keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[list[dict[str, str]]] = []
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    async def _create(self, *, model: str, messages: list[dict[str, str]]) -> Any:
        assert model
        self.given.append(messages)
        said = SimpleNamespace(message=SimpleNamespace(content="I see."))
        return SimpleNamespace(choices=[said])


def reply_of_the_document() -> Reply:
    """The function in the document's second Python block: the first one is tried with the client."""
    [_, block] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/chatbot.md").read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "docs/chatbot.md", "exec"), names)
    made: Reply = names["reply"]
    return made


async def test_the_chatbot_remembers_from_conversation_to_conversation(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    reply, model = reply_of_the_document(), Model()
    first, second = uuid4(), uuid4()
    for text in ("Hello there!", "My sister Dora plays the tuba", "Thanks, bye"):
        await reply(connection, model, ANN, first, text)
    await reply(connection, model, BOB, uuid4(), "My brother plays the harp")
    await until(connection, IDLE)

    await reply(connection, model, ANN, second, "Which instrument does Dora play?")
    system, *conversation = model.given[-1]
    assert "user: My sister Dora plays the tuba\nassistant: I see." in system["content"]
    assert "harp" not in system["content"]
    assert "Which instrument" not in system["content"]
    assert conversation == [{"role": "user", "content": "Which instrument does Dora play?"}]

    await reply(connection, model, ANN, uuid4(), "Hi!")
    assert "tuba" not in model.given[-1][0]["content"]
