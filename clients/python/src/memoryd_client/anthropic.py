"""Claude's memory tool (memory_20250818), whose files are memories with keys: `MemorydMemoryTool`, `AsyncMemorydMemoryTool`.

Promise: the messages for the model, also those of errors, are those of Anthropic's own tool on a disk. Installed with the extra
`anthropic`. Pydantic AI's MemoryTool takes `call`.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from uuid import UUID

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

from memoryd_client import sync
from memoryd_client._database import Write
from memoryd_client._errors import Refused
from memoryd_client._files import Files, path_of
from memoryd_client._identity import Rights
from memoryd_client._keyed import KeyedAdapter

if TYPE_CHECKING:
    from anthropic.types.beta import BetaCacheControlEphemeralParam

    from memoryd_client._connections import Connection

COMMANDS = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
"""Each command, which is a method of Files, and its fields, which are the method's arguments."""
TRANSACTION = "select pg_current_xact_id()::text"


class _Tool(KeyedAdapter):
    def __init__(
        self,
        database: sync.Database | str | None = None,
        *,
        agent: str,
        user: UUID | str | None = None,
        rights: Rights | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        KeyedAdapter.__init__(self, database, agent, user, rights)
        self._cache_control = cache_control

    async def _command(self, command: Any) -> str:
        name = str(command.command)
        if name not in COMMANDS:
            raise NotImplementedError(f"Unknown command: {name}")
        given = [(field, getattr(command, field, None)) for field in COMMANDS[name]]
        arguments = [path_of(value) if field.endswith("path") else value for field, value in given]
        return await self._told(name, *arguments)

    async def _told(self, name: str, *arguments: Any) -> str:
        """The answer of a method of Files; a change is made once."""

        async def write(connection: Connection) -> Write[str]:
            said = await getattr(Files(connection, self._whose), name)(*arguments)
            return Write(said, await connection.fetchval(TRANSACTION), "select false", ())

        async def view(connection: Connection) -> str:
            return await Files(connection, self._whose).view(*arguments)

        if name == "view":
            return await self._database.read(self._who, view)
        return await self._database.write(self._who, write)


async def _for_the_model(work: Coroutine[Any, Any, str]) -> str:
    """What `work` says. Raises ToolError in place of Refused: the model is told."""
    try:
        return await work
    except Refused as error:
        told = str(error)
    raise ToolError(told)


class MemorydMemoryTool(_Tool, BetaAbstractMemoryTool):
    """The memory tool for `client.beta.messages.run_tools(tools=[tool])`: files below /memories, as memories of an agent.

    - `database`: a memoryd_client.sync.Database, or a URL; then `close()` (or `with`) closes the connections.
    - `agent`, `user`, `rights`: as of memoryd_client.Memory; each has files of its own.

    The commands raise ToolError with what the model is to be told, and MemorydError where the database fails.
    """

    def execute(self, command: Any) -> str:
        """The result of a command, whichever it is."""
        return sync._LOOP.run(_for_the_model(self._command(command)))  # noqa: SLF001

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        """Deletes all files."""
        return sync._LOOP.run(_for_the_model(self._told("clear")))  # noqa: SLF001


class AsyncMemorydMemoryTool(_Tool, BetaAsyncAbstractMemoryTool):
    """MemorydMemoryTool for AsyncAnthropic."""

    async def execute(self, command: Any) -> str:
        """As MemorydMemoryTool."""
        return await sync._LOOP.wait(_for_the_model(self._command(command)))  # noqa: SLF001

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        """As MemorydMemoryTool."""
        return await sync._LOOP.wait(_for_the_model(self._told("clear")))  # noqa: SLF001
