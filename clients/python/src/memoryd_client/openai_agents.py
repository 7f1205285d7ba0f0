"""MemorydSession: the session memory of the OpenAI Agents SDK, kept in the conversations of memoryd.

    session = MemorydSession("telegram:42", "postgresql://localhost/app", user="mia")
    await Runner.run(agent, "Which instrument does Dora play?", session=session)

Promise: what add_items stored is what get_items returns, in the same order. The SDK is loaded for its SessionSettings only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from memoryd_client._database import Database
from memoryd_client._errors import Refused
from memoryd_client._hosted import HostAdapter, Row
from memoryd_client._identity import Rights
from memoryd_client._items import Path, split
from memoryd_client._types import Role

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings

    from memoryd_client import sync

HOST = "openai_agents"
ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
}


class MemorydSession(HostAdapter):
    """A session of the OpenAI Agents SDK, by its protocol `Session`.

    - `session_id`: a UUID, or a name such as "telegram:42" (see `id_of`), which has to be unique among all users.
    - `database`: a URL, or a Database of memoryd_client.sync that sessions share; these may be used in any thread and
      event loop. A Database of memoryd_client is used in its own event loop only.
    - `user`: the user of the conversation. `agent`, `rights`, `org`: see ChatMemory.
    - `session_settings`: the SDK's SessionSettings, or a dict of them; its `limit` is that of get_items().

    If the user has switched memory off, nothing is stored, and get_items() returns []. All calls raise MemorydError.
    """

    def __init__(
        self,
        session_id: str,
        database: sync.Database | Database | str | None = None,
        *,
        user: UUID | str | None = None,
        agent: str | None = None,
        rights: Rights = "service",
        org: UUID | str | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(HOST, session_id, database, user=user, agent=agent, rights=rights, org=org)
        self.session_id = session_id
        self._settings = None if session_settings is None else _settings(session_settings)

    @property
    def session_settings(self) -> SessionSettings | None:
        """The SDK's settings of this session."""
        if self._settings is None:
            self._settings = _settings({})
        return self._settings

    @session_settings.setter
    def session_settings(self, settings: SessionSettings | None) -> None:
        self._settings = settings

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest `limit` items, oldest first; without a limit that of the settings, else all.

        Messages that were written into this conversation by other means are among them, without turns of tools.
        """
        if limit is None and self._settings is not None:
            limit = self._settings.limit
        return [_item(each) for each in await self._wait(self._rows.get(limit))]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items in their order, all or none, each once."""
        if not isinstance(items, list):
            raise Refused("items is no list.", hint="Give a list of input items.")
        await self._wait(self._rows.add([_row(each) for each in items]))

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes and returns the newest item, or None. Two callers get two different items."""
        popped = await self._wait(self._rows.pop())
        return None if popped is None else _item(popped)

    async def clear_session(self) -> None:
        """Deletes all items, of a user their own."""
        await self._wait(self._rows.clear())

    async def close(self) -> None:
        """Closes the connections, if they were opened here."""
        await self._wait(self._rows.close())

    async def __aenter__(self) -> MemorydSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _row(item: object) -> Row:
    if not isinstance(item, Mapping):
        raise Refused("An item is no mapping.", hint="Give the SDK's input items, which are dicts.")
    kind = item.get("type") or "message"
    # What is no message is a turn of a tool, or thoughts: nobody said it.
    role = ROLES.get(str(item.get("role")), "user") if kind == "message" else "tool"
    content, metadata = split(HOST, item, _said(item))
    return Row(role, None, content, metadata)


def _said(item: Mapping[str, Any]) -> list[Path]:
    """Where an item has what people read: the text of messages, of calls and their outputs, of reasoning."""
    paths: list[Path] = [[key] for key in ("arguments", "input") if isinstance(item.get(key), str)]
    for key in ("content", "output", "summary"):
        value = item.get(key)
        if isinstance(value, str):
            paths.append([key])
        elif isinstance(value, (list, tuple)):
            for index, part in enumerate(value):
                if isinstance(part, Mapping):
                    paths += [
                        [key, index, name] for name in ("text", "refusal", "transcript") if name in part
                    ]
    return paths


def _item(found: Any) -> Any:
    """An item; of a message that was written by other means, its role and content."""
    return {"role": found.role, "content": found.content} if isinstance(found, Row) else found


def _settings(given: SessionSettings | Mapping[str, Any]) -> SessionSettings:
    if not isinstance(given, Mapping):
        return given
    try:
        from agents.memory.session_settings import coerce_session_settings  # noqa: PLC0415 - takes 2 seconds
    except ImportError:
        raise Refused(
            "The OpenAI Agents SDK is not installed.",
            hint="In a checkout of memoryd: pip install './clients/python[openai-agents]'",
        ) from None
    return coerce_session_settings(dict(given))
