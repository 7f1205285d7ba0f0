"""memoryd_client.anthropic: Claude's memory tool on memories with keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import pytest
from memoryd_client import Memory, sync

if TYPE_CHECKING:
    from memoryd_client.anthropic import MemorydMemoryTool

pytestmark = pytest.mark.asyncio(loop_scope="session")


def memory_tool(database: sync.Database, **given: Any) -> MemorydMemoryTool:
    """Its package takes seconds to load, so it is loaded by the first test and not by each run."""
    from memoryd_client.anthropic import MemorydMemoryTool

    return MemorydMemoryTool(database, **given)


@pytest.fixture(scope="module")
def database(client_url: str) -> Iterator[sync.Database]:
    """The connections of all tests here."""
    with sync.Database(client_url) as opened:
        yield opened


@pytest.fixture
def tool(database: sync.Database, agent: str) -> MemorydMemoryTool:
    """A tool of the test's own."""
    return memory_tool(database, agent=agent)


def call(tool: MemorydMemoryTool, command: str, path: str | None = None, **given: Any) -> str:
    """A command as the model sends it."""
    return str(tool.call({"command": command, **({"path": path} if path else {}), **given}))


def refused(tool: MemorydMemoryTool, command: str, path: str | None = None, **given: Any) -> str:
    from anthropic.lib.tools import ToolError

    with pytest.raises(ToolError) as raised:
        call(tool, command, path, **given)
    return str(raised.value)


async def test_a_directory_is_shown_two_levels_deep(tool: MemorydMemoryTool) -> None:
    assert call(tool, "view", "/memories").endswith("excluding hidden items:\n0B\t/memories")
    for path, text in {
        "a.txt": "x" * 10,
        "b/one": "1",
        "b/c/two": "22",
        "b/c/d/three": "333",
        ".hidden/x": "h",
    }.items():
        call(tool, "create", f"/memories/{path}", file_text=text)
    call(tool, "create", "/memories/big", file_text="é" * 1024)
    assert call(tool, "view", "/memories/").splitlines()[1:] == [
        "2.0K\t/memories/", "10B\t/memories//a.txt", "6B\t/memories//b/", "5B\t/memories//b/c/", "1B\t/memories//b/one",
        "2K\t/memories//big",
    ]  # fmt: skip
    assert [line.split("\t")[1] for line in call(tool, "view", "/memories/b").splitlines()[1:]] == [
        "/memories/b", "/memories/b/c/", "/memories/b/c/d/", "/memories/b/c/two", "/memories/b/one",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/etc/passwd", "Path must start with /memories, got: /etc/passwd"),
        ("/memoriesx/a", "Path must start with /memories, got: /memoriesx/a"),
        ("/memories/../etc", "Path /memories/../etc would escape /memories directory"),
        ("/memories/a/../../b", "Path /memories/a/../../b would escape /memories directory"),
        ("/memories/a\0b", "has characters that a path cannot have"),
        ("/memories/\ud800", "has characters that a path cannot have"),
        ("/memories/" + "a" * 1500, "is too long"),
    ],
)
async def test_a_path_leads_nowhere_else(tool: MemorydMemoryTool, path: str, said: str) -> None:
    for command, given in (("view", {}), ("create", {"file_text": "x"}), ("delete", {})):
        assert said in refused(tool, command, path, **given)
    assert said in refused(tool, "rename", old_path="/memories/a", new_path=path)


async def test_the_same_path_written_differently_is_one_file(tool: MemorydMemoryTool) -> None:
    call(tool, "create", "/memories/a//./b/../x", file_text="x")
    assert "already exists" in refused(tool, "create", "/memories/a/x", file_text="y")
    assert "is not a directory" in refused(tool, "create", "/memories/a/x/y", file_text="y")
    assert "already exists" in refused(tool, "create", "/memories/a", file_text="y")
    assert "is not a file" in refused(tool, "str_replace", "/memories/a", old_str="x", new_str="y")
    assert "is in /memories/a" in refused(tool, "rename", old_path="/memories/a", new_path="/memories/a/b")


@pytest.mark.parametrize("text", ["", "\n", " \t\n", "x", "日本語 🦩\r\n"])
async def test_a_file_is_what_was_written(tool: MemorydMemoryTool, text: str) -> None:
    call(tool, "create", "/memories/f", file_text=text)
    numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 1))
    assert call(tool, "view", "/memories/f").partition("numbers:\n")[2] == numbered
    call(tool, "insert", "/memories/f", insert_line=0, insert_text="first\n\n")
    assert call(tool, "view", "/memories/f", view_range=[1, 1]).endswith("     1\tfirst")


async def test_what_cannot_be_stored_is_refused_and_the_file_stays(tool: MemorydMemoryTool) -> None:
    call(tool, "create", "/memories/f", file_text="stays")
    assert "NUL" in refused(tool, "str_replace", "/memories/f", old_str="stays", new_str="a\0b")
    assert "at most" in refused(tool, "insert", "/memories/f", insert_line=0, insert_text="x" * 10_000_001)
    assert "did not appear" in refused(tool, "str_replace", "/memories/f", old_str="", new_str="y")
    assert call(tool, "view", "/memories/f").endswith("stays")


async def test_a_directory_is_renamed_and_deleted_with_all_that_is_in_it(tool: MemorydMemoryTool) -> None:
    for path in ("d/1", "d/e/2", "d0", "d.txt"):
        call(tool, "create", f"/memories/{path}", file_text=path)
    call(tool, "rename", old_path="/memories/d", new_path="/memories/x/y")
    assert "does not exist" in refused(tool, "view", "/memories/d")
    assert call(tool, "view", "/memories/x/y/e/2").endswith("d/e/2")
    call(tool, "delete", "/memories/x")
    assert [line.split("\t")[1] for line in call(tool, "view", "/memories").splitlines()[1:]] == [
        "/memories", "/memories/d.txt", "/memories/d0",
    ]  # fmt: skip
    assert tool.clear_all_memory() == "All memory cleared"
    assert call(tool, "view", "/memories").endswith("0B\t/memories")


async def test_no_edit_is_lost_when_many_edit_at_once(database: sync.Database, agent: str) -> None:
    from anthropic.lib.tools import ToolError
    from memoryd_client.anthropic import AsyncMemorydMemoryTool

    tool = AsyncMemorydMemoryTool(database, agent=agent)
    made = await asyncio.gather(
        *(tool.call({"command": "create", "path": "/memories/f", "file_text": "begin\n"}) for _ in range(8)),
        return_exceptions=True,
    )
    assert [isinstance(each, ToolError) for each in made].count(True) == 7
    await asyncio.gather(
        *(
            tool.call(
                {"command": "insert", "path": "/memories/f", "insert_line": 1, "insert_text": f"line {n}"}
            )
            for n in range(20)
        )
    )
    said = str(await tool.call({"command": "view", "path": "/memories/f"}))
    assert sorted(line.partition("\t")[2] for line in said.splitlines()[2:22]) == sorted(
        f"line {n}" for n in range(20)
    )


async def test_files_are_an_agents_own_and_a_users_own_and_are_recalled(
    database: sync.Database, db: Any, agent: str, user: UUID
) -> None:
    ann = memory_tool(database, agent=agent, user=user)
    call(ann, "create", "/memories/secret.md", file_text="The heron nests in the willow")
    for other in (
        memory_tool(database, agent=agent, user="bob"),
        memory_tool(database, agent=agent),
        memory_tool(database, agent=f"{agent}-2", user=user),
    ):
        assert "does not exist" in refused(other, "view", "/memories/secret.md")
        assert "does not exist" in refused(other, "delete", "/memories/secret.md")
    assert "heron" in (await Memory(db, agent=agent, user=user).recall("heron"))[0].content


async def test_of_a_user_with_memory_off_nothing_is_stored(
    database: sync.Database, owner: asyncpg.Connection, agent: str, user: UUID
) -> None:
    await owner.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", user)
    tool = memory_tool(database, agent=agent, user=user)
    assert "switched memory off" in refused(tool, "create", "/memories/f", file_text="x")


async def test_a_command_that_is_none(tool: MemorydMemoryTool) -> None:
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}
    with pytest.raises(NotImplementedError):
        call(tool, "format", "/memories")
