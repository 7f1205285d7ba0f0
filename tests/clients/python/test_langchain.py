"""ChatMessageHistory: LangChain's messages come back as they were, with and without async."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from memoryd_client import ChatMemory, Database, Refused, sync
from memoryd_client.langchain import ChatMessageHistory

pytestmark = pytest.mark.asyncio(loop_scope="session")

MESSAGES: list[BaseMessage] = [
    SystemMessage("Be short."),
    HumanMessage("Which instrument does Dora play?", name="Mia", id="1"),
    AIMessage("", tool_calls=[{"name": "ask", "args": {"who": "Dora"}, "id": "c1"}]),
    ToolMessage("the \0 bassoon", tool_call_id="c1", artifact={"page": 3}),
    AIMessage([{"type": "text", "text": "The bassoon."}, "Since spring."], additional_kwargs={"n": 1.0}),
    AIMessageChunk(content="Well."),
    ChatMessage(content="I listen.", role="listener"),
    HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBOR" * 400_000}}]),
]
Make = Callable[..., ChatMessageHistory]


@pytest.fixture
def make(client_url: str) -> Iterator[Make]:
    """Makes histories in one database."""
    with sync.Database(client_url) as database:
        yield functools.partial(ChatMessageHistory, database=database)


async def test_messages_come_back_as_they_were(make: Make, db: Database, user: UUID) -> None:
    history = make(f"history {uuid4()}", user=user)
    await history.aadd_messages(MESSAGES)
    assert await history.aget_messages() == MESSAGES
    assert await asyncio.to_thread(lambda: history.messages) == MESSAGES
    assert history.messages == MESSAGES  # also beside an event loop
    history.add_user_message("Thanks")
    assert history.messages[-1] == HumanMessage("Thanks")
    history.clear()
    assert await history.aget_messages() == []
    history.add_messages(MESSAGES[:1])
    await history.aclear()
    assert history.messages == []


async def test_rows_say_who_spoke(make: Make, db: Database, owner: asyncpg.Connection, user: UUID) -> None:
    session = f"history {uuid4()}"
    history, chat = make(session, user=user), ChatMemory(db, user=user)
    await chat.add_user_message(session, "Hello")
    history.add_messages(MESSAGES[:5])
    kept = [(each.role, each.speaker, each.content) for each in await chat.get_messages(session)]
    assert kept == [
        ("user", None, "Hello"),
        ("system", None, "Be short."),
        ("user", "Mia", "Which instrument does Dora play?"),
        ("assistant", None, ""),
        ("tool", None, "the \ufffd bassoon"),
        ("assistant", None, "The bassoon.\nSince spring."),
    ]
    assert history.messages == [HumanMessage("Hello"), *MESSAGES[:5]]
    assert make(session, user=uuid4()).messages == []


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory")
async def test_a_runnable_has_its_history(make: Make, user: UUID) -> None:
    # Here alone: each process of a test run imports this file, and these take longer to import than most files together.
    from langchain_core.language_models import FakeListChatModel  # noqa: PLC0415
    from langchain_core.runnables import RunnableLambda  # noqa: PLC0415
    from langchain_core.runnables.history import RunnableWithMessageHistory  # noqa: PLC0415

    model = FakeListChatModel(responses=["The bassoon.", "Since spring."])
    heard: list[Any] = []

    def listening(messages: Any) -> Any:
        heard.append(messages)
        return model.invoke(messages)

    chain = RunnableWithMessageHistory(RunnableLambda(listening), functools.partial(make, user=user))
    config: Any = {"configurable": {"session_id": f"history {uuid4()}"}}
    assert (
        await asyncio.to_thread(chain.invoke, [HumanMessage("What does Dora play?")], config)
    ).content == "The bassoon."
    assert (await chain.ainvoke([HumanMessage("Since when?")], config)).content == "Since spring."
    assert [each.content for each in heard[1]] == ["What does Dora play?", "The bassoon.", "Since when?"]
    assert len(make(config["configurable"]["session_id"], user=user).messages) == 4


async def test_what_is_wrong_is_explained(make: Make, db: Database) -> None:
    with pytest.raises(Refused, match="table conversation_messages only"):
        make("history", table="message_store")
    make("history", table="conversation_messages")
    with pytest.raises(Refused, match="no list of messages"):
        make(f"history {uuid4()}").add_messages(["Hello"])  # type: ignore[list-item]
    with pytest.raises(Refused, match="cannot be written as JSON"):
        make(f"history {uuid4()}").add_messages([HumanMessage("x", additional_kwargs={"key": object()})])
    with pytest.raises(Refused, match="works without async"):
        ChatMessageHistory("history", db).clear()
