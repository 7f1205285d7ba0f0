"""ChatMessageHistory: the history of a chat for LangChain, kept in the conversations of memoryd.

    history = ChatMessageHistory("telegram:42", "postgresql://localhost/app", user="mia")
    history.add_messages([HumanMessage("Which instrument does Dora play?")])

Promise: messages come back as they were added, in the same order, with and without async.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from memoryd_client import _values as values
from memoryd_client._database import Database
from memoryd_client._errors import Refused
from memoryd_client._hosted import HostAdapter, Row
from memoryd_client._identity import Rights
from memoryd_client._items import Path, split
from memoryd_client._types import Role

if TYPE_CHECKING:
    from memoryd_client import sync

HOST = "langchain"
TABLE = "conversation_messages"
ROLES: dict[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "user": "user",
    "assistant": "assistant",
    "developer": "system",
}
TYPES: dict[Role, str] = {"user": "human", "assistant": "ai", "system": "system"}
"""Of messages that were written by other means."""


class ChatMessageHistory(HostAdapter, BaseChatMessageHistory):
    """The messages of one session.

    - `session_id`: a UUID, or a name such as "telegram:42" (see `id_of`), which has to be unique among all users.
    - `database`: a URL, or a Database of memoryd_client.sync that histories share. With a Database of memoryd_client only the
      async methods work, in its own event loop.
    - `table`: conversation_messages is the only one, since that is the table which memoryd searches.
    - `user`: the user of the conversation. `agent`, `rights`, `org`: see ChatMemory.

    If the user has switched memory off, nothing is stored, and there are no messages. All calls raise MemorydError.
    """

    def __init__(
        self,
        session_id: UUID | str,
        database: sync.Database | Database | str | None = None,
        *,
        table: str = TABLE,
        user: UUID | str | None = None,
        agent: str | None = None,
        rights: Rights = "service",
        org: UUID | str | None = None,
    ) -> None:
        if table != TABLE:
            raise Refused(
                f"memoryd keeps conversations in the table {TABLE} only.",
                hint="Leave table out, and copy what is in the other one with add_messages().",
            )
        super().__init__(HOST, session_id, database, user=user, agent=agent, rights=rights, org=org)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # LangChain's own example is a property, too
        """The messages, oldest first. Those that were written by other means are among them, without turns of tools."""
        return _messages(self._run(self._rows.get(None)))

    async def aget_messages(self) -> list[BaseMessage]:
        """As `messages`."""
        return _messages(await self._wait(self._rows.get(None)))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Adds messages in their order, all or none, each once."""
        self._run(self._rows.add(_as_rows(messages)))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As add_messages."""
        await self._wait(self._rows.add(_as_rows(messages)))

    def clear(self) -> None:
        """Deletes the messages, of a user their own."""
        self._run(self._rows.clear())

    async def aclear(self) -> None:
        """As clear."""
        await self._wait(self._rows.clear())

    def close(self) -> None:
        """Closes the connections, if they were opened here."""
        self._run(self._rows.close())


def _as_rows(messages: object) -> list[Row]:
    if not isinstance(messages, Sequence) or not all(isinstance(each, BaseMessage) for each in messages):
        raise Refused(
            "messages is no list of messages.",
            hint="Give LangChain's messages, such as [HumanMessage('Hello')].",
        )
    return [_row(each) for each in messages]


def _row(message: BaseMessage) -> Row:
    kind = getattr(message, "role", message.type)  # a ChatMessage has a role of its own
    name = message.name or ""
    named = name.strip() and len(name) <= 200 and values.storable(name) == name
    item = message_to_dict(message)
    content, metadata = split(HOST, item, _said(item["data"]["content"]))
    role = ROLES.get(kind.removesuffix("MessageChunk").lower(), "tool")
    return Row(role, name if named else None, content, metadata)


def _said(content: object) -> list[Path]:
    """Where a message has what people read."""
    if isinstance(content, str):
        return [["data", "content"]]
    paths: list[Path] = []
    for index, part in enumerate(content if isinstance(content, list) else []):
        if isinstance(part, str):
            paths.append(["data", "content", index])
        elif isinstance(part, Mapping) and "text" in part:
            paths.append(["data", "content", index, "text"])
    return paths


def _messages(found: Sequence[Any]) -> list[BaseMessage]:
    return messages_from_dict(
        [
            {"type": TYPES[each.role], "data": {"content": each.content}} if isinstance(each, Row) else each
            for each in found
        ]
    )
