"""What the client's README says is what happens: its examples run as they are written."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from memoryd_client import Database, id_of
from memoryd_client.sync import ChatMemory

from tests.support.daemons import DaemonProcess
from tests.support.repository import ROOT
from tests.support.rows import ask
from tests.support.waiting import FINISHED, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

README = (ROOT / "clients/python/README.md").read_text("utf-8")
URL = "postgresql://localhost/app"
SOURCE = ROOT / "clients/python/src/memoryd_client"


def examples(document: str) -> list[str]:
    """The Python blocks of a document."""
    return re.findall(r"```python\n(.*?)```", document, re.DOTALL)


def names_of(example: str) -> dict[str, Any]:
    """What an example defines."""
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    return names


async def test_the_five_lines_make_a_chatbot_that_remembers(
    client_url: str, client_daemon: DaemonProcess
) -> None:
    five = examples(README)[0]
    assert len([line for line in five.splitlines() if line]) == 5
    assert five in (ROOT / "docs/chatbot.md").read_text("utf-8")
    assert URL in five
    five = five.replace(URL, client_url)
    given: list[list[dict[str, str]]] = []

    def model(messages: list[dict[str, str]]) -> str:
        given.append(messages)
        return "The tuba."

    def play() -> list[str]:
        with ChatMemory(client_url, user="mia") as before:
            before.add_user_message(uuid4(), "My sister Dora plays the tuba")
        names: dict[str, Any] = {"ask_your_model": model}
        exec(compile(five, "README.md", "exec"), names)
        with names["chat"] as chat:
            return [m.content for m in chat.get_messages("telegram:42")]

    assert await asyncio.to_thread(play) == ["Which instrument does Dora play?", "The tuba."]
    [[system, question]] = given
    assert "My sister Dora plays the tuba" in system["content"]
    assert question == {"role": "user", "content": "Which instrument does Dora play?"}


async def test_the_other_examples_run_as_written(
    client_url: str, db: Database, owner: asyncpg.Connection, client_daemon: DaemonProcess
) -> None:
    memory, conversations, executor = (names_of(example) for example in examples(README)[1:])
    assert await memory["main"](client_url) == "The heron nests in the old willow"

    async def stream() -> AsyncIterator[str]:
        for piece in ("Two ", "pounds"):
            yield piece

    said = await conversations["turn"](db, "What does it cost?", stream())
    assert [m.content for m in said] == ["What does it cost?", "Two pounds"]

    running = asyncio.create_task(executor["run"](client_url))
    command = await ask(owner, "rake the leaves", agent_id="gardener")
    await until(owner, FINISHED, command)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (
        await owner.fetchval("select output from agent_commands where id = $1", command)
        == "rake the leaves: done"
    )


async def test_names_have_the_ids_that_are_documented() -> None:
    vectors = re.findall(r"^\| `([^`]+)` \| `([0-9a-f-]{36})` \|$", README, re.MULTILINE)
    assert len(vectors) == 3
    for name, key in vectors:
        assert id_of(name) == UUID(key)


async def test_every_public_call_and_error_is_in_the_document() -> None:
    import memoryd_client  # noqa: PLC0415

    errors = [n for n in memoryd_client.__all__ if isinstance(getattr(memoryd_client, n), type)]
    for name in errors:
        if issubclass(getattr(memoryd_client, name), Exception):
            assert f"`{name}`" in README, name
    for owner in (memoryd_client.Memory, memoryd_client.ChatMemory):
        for call in vars(owner):
            assert (
                call.startswith("_")
                or call in ("close", "retention")
                or f"{call}(" in README
                or f"`{call}`" in README
            )


IMPORT = """
import sys

class Only:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("asyncpg", "memoryd_client"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Only())
import memoryd_client.sync
"""


async def test_it_imports_asyncpg_and_nothing_else() -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", IMPORT],
        env={"PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported = {
        name.partition(".")[0]
        for path in SOURCE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8"), feature_version=(3, 10)))
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert imported - sys.stdlib_module_names == {"asyncpg", "memoryd_client"}
