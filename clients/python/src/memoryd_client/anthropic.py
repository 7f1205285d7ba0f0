"""Claude's memory tool (memory_20250818), whose files are memories with keys: `MemorydMemoryTool`, `AsyncMemorydMemoryTool`.

Promise: what the model is told, also of what is wrong, is what Anthropic's own tool on a disk says. Installed with the extra
`anthropic`. Pydantic AI's MemoryTool takes `call`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

from memoryd_client import sync
from memoryd_client._database import Written
from memoryd_client._errors import Refused
from memoryd_client._files import Files, path_of
from memoryd_client._identity import Rights
from memoryd_client._keyed import Keyed

if TYPE_CHECKING:
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    from memoryd_client._connections import Connection

Work = Callable[[Files], Awaitable[str]]
TRANSACTION = "select pg_current_xact_id()::text"


def _view(command: BetaMemoryTool20250818ViewCommand) -> Work:
    path = path_of(command.path)
    return lambda files: files.view(path, command.view_range)


def _create(command: BetaMemoryTool20250818CreateCommand) -> Work:
    path = path_of(command.path)
    return lambda files: files.create(path, command.file_text)


def _replace(command: BetaMemoryTool20250818StrReplaceCommand) -> Work:
    path = path_of(command.path)
    return lambda files: files.replace(path, command.old_str, command.new_str)


def _insert(command: BetaMemoryTool20250818InsertCommand) -> Work:
    path = path_of(command.path)
    return lambda files: files.insert(path, command.insert_line, command.insert_text)


def _delete(command: BetaMemoryTool20250818DeleteCommand) -> Work:
    path = path_of(command.path)
    return lambda files: files.delete(path)


def _rename(command: BetaMemoryTool20250818RenameCommand) -> Work:
    old, new = path_of(command.old_path), path_of(command.new_path)
    return lambda files: files.rename(old, new)


class _Tool(Keyed):
    def __init__(
        self,
        database: sync.Database | str | None = None,
        *,
        agent: str,
        user: UUID | str | None = None,
        rights: Rights | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        Keyed.__init__(self, database, agent, user, rights)
        self._cache_control = cache_control

    async def _written(self, made: Callable[[Any], Work], command: Any) -> str:
        """The result of a command; what changes a file is done once."""
        work = made(command)

        if made is _view:
            return await self._database.read(self._who, lambda c: work(Files(c, self._whose)))

        async def write(connection: Connection) -> Written[str]:
            said = await work(Files(connection, self._whose))
            return Written(said, await connection.fetchval(TRANSACTION), "select false", ())

        return await self._database.write(self._who, write)

    def _do(self, made: Callable[[Any], Work], command: Any) -> str:
        try:
            return sync._LOOP.run(self._written(made, command))  # noqa: SLF001
        except Refused as error:
            told = str(error)
        raise ToolError(told)

    async def _ado(self, made: Callable[[Any], Work], command: Any) -> str:
        try:
            return await sync._LOOP.wait(self._written(made, command))  # noqa: SLF001
        except Refused as error:
            told = str(error)
        raise ToolError(told)


class MemorydMemoryTool(_Tool, BetaAbstractMemoryTool):
    """The memory tool for `client.beta.messages.run_tools(tools=[tool])`: files below /memories, as memories of an agent.

    - `database`: a memoryd_client.sync.Database, or a URL; then `close()` (or `with`) closes the connections.
    - `agent`, `user`, `rights`: as of memoryd_client.Memory; each has files of its own.

    The commands raise ToolError with what the model is to be told, and MemorydError where the database fails.
    """

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """A file with numbered lines, or a directory, two levels deep."""
        return self._do(_view, command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Writes a file that is not there."""
        return self._do(_create, command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Puts a text in the place of another, which the file has once."""
        return self._do(_replace, command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Puts text after a line; after line 0 it comes first."""
        return self._do(_insert, command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Deletes a file, or a directory with all that is in it."""
        return self._do(_delete, command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Moves a file or a directory to where nothing is."""
        return self._do(_rename, command)

    def clear_all_memory(self) -> str:
        """Deletes all files."""
        return self._do(lambda _: Files.clear, None)


class AsyncMemorydMemoryTool(_Tool, BetaAsyncAbstractMemoryTool):
    """MemorydMemoryTool for AsyncAnthropic."""

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """As MemorydMemoryTool."""
        return await self._ado(_view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """As MemorydMemoryTool."""
        return await self._ado(_create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """As MemorydMemoryTool."""
        return await self._ado(_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """As MemorydMemoryTool."""
        return await self._ado(_insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """As MemorydMemoryTool."""
        return await self._ado(_delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """As MemorydMemoryTool."""
        return await self._ado(_rename, command)

    async def clear_all_memory(self) -> str:
        """As MemorydMemoryTool."""
        return await self._ado(lambda _: Files.clear, None)
