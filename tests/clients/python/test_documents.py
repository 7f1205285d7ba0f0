"""What the client's README says is what happens: names, errors, calls and what it needs."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
from uuid import UUID

import memoryd_client
import pytest
from memoryd_client import id_of

from tests.support.repository import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="session")

README = (ROOT / "clients/python/README.md").read_text("utf-8")
SOURCE = ROOT / "clients/python/src/memoryd_client"
HOSTS = ("anthropic.py", "langchain.py", "langgraph.py", "openai_agents.py")
"""What needs an extra."""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that has the client, and nothing of memoryd."""
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env={"PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


async def test_names_have_the_ids_that_are_documented() -> None:
    vectors = re.findall(r"^\| `([^`]+)` \| `([0-9a-f-]{36})` \|$", README, re.MULTILINE)
    assert len(vectors) == 3
    for name, key in vectors:
        assert id_of(name) == UUID(key)


async def test_every_public_call_and_error_is_in_the_document() -> None:
    errors = [n for n in memoryd_client.__all__ if isinstance(getattr(memoryd_client, n), type)]
    for name in errors:
        if issubclass(getattr(memoryd_client, name), Exception):
            assert f"`{name}`" in README, name
    for owner in (memoryd_client.Memory, memoryd_client.ChatMemory, memoryd_client.Knowledge):
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
import memoryd_client.openai_agents
import memoryd_client.sync
"""


async def test_it_imports_asyncpg_and_nothing_else() -> None:
    done = await asyncio.to_thread(python, "-c", IMPORT)
    assert done.returncode == 0, done.stderr
    imported = {
        name.partition(".")[0]
        for path in SOURCE.glob("*.py")
        if path.name not in HOSTS
        for node in ast.walk(ast.parse(path.read_text("utf-8"), feature_version=(3, 10)))
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert imported - sys.stdlib_module_names == {"asyncpg", "memoryd_client"}
