"""Runs Anthropic's own tests of its memory tool on MemorydMemoryTool.

    MEMORYD_UPSTREAM=/path/to/checkouts python -m tests.upstream.anthropic

In the folder anthropic/ of MEMORYD_UPSTREAM is test_filesystem.py of anthropic-sdk-python's tests/lib/tools/memory_tools. What
the tests make as a tool on a disk is one of memories here, of an agent of its own in one database. It says how many passed, and
what is left out.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from benchmarks.harness import database
from tests.support.repository import ROOT

LEFT_OUT = {
    "test_mkdir_parents": "rights to directories on a disk",
    "test_symlink_validation|test_validate_path_returns_resolved": "links on a disk",
}
"""By the names of tests."""


class _Plugin:
    """Puts ours in the place of the tools, and of what the tests read from the disk."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.left_out: dict[str, int] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = []
        for item in items:
            reason = next(
                (why for names, why in LEFT_OUT.items() if re.match(f"(?:{names})", item.name)), None
            )
            if reason is None:
                kept.append(item)
            else:
                self.left_out[reason] = self.left_out.get(reason, 0) + 1
        items[:] = kept
        if kept:
            self._put(kept[0].module)  # type: ignore[attr-defined]

    def _put(self, module: Any) -> None:
        from memoryd_client import sync  # noqa: PLC0415 - after the path is set
        from memoryd_client.anthropic import AsyncMemorydMemoryTool, MemorydMemoryTool  # noqa: PLC0415

        shared = sync.Database(self._url)

        def made(kind: type[Any], base_path: str) -> Any:
            tool = kind(shared, agent=f"agent-{uuid4().hex}")
            tool.base_path = tool
            tools[str(tool)] = tool
            return tool

        tools: dict[str, Any] = {}

        def snapshot(name: str) -> dict[str, str]:
            rows: Any = sync._LOOP.run(shared._async.read(tools[name]._who, _files(tools[name])))
            return {row["key"]: row["content"] for row in rows}

        module.BetaLocalFilesystemMemoryTool = lambda base_path: made(MemorydMemoryTool, base_path)
        module.BetaAsyncLocalFilesystemMemoryTool = lambda base_path: made(AsyncMemorydMemoryTool, base_path)
        module.get_directory_snapshot = snapshot


def _files(tool: Any) -> Any:
    sql = "select key, content from agent_memory where agent_id = $1"
    return lambda connection: connection.fetch(sql, tool._whose[0])


def main() -> int:
    """Runs the tests; 0 where all that are not left out passed."""
    upstream = os.environ.get("MEMORYD_UPSTREAM")
    if not upstream or not (folder := Path(upstream) / "anthropic").is_dir():
        print("Set MEMORYD_UPSTREAM to a folder that has a folder anthropic.", file=sys.stderr)  # noqa: T201
        return 2
    sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))
    with database(None) as url:
        plugin = _Plugin(url)
        ended = pytest.main(
            ["-q", "--noconftest", "-c", os.devnull, f"--rootdir={folder}", "--import-mode=importlib",
             "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", *sys.argv[1:], str(folder / "test_filesystem.py")],
            plugins=[plugin],
        )  # fmt: skip
    print(f"left out: {sum(plugin.left_out.values())}")  # noqa: T201
    for reason, count in plugin.left_out.items():
        print(f"  {count:3} {reason}")  # noqa: T201
    return int(ended)


if __name__ == "__main__":
    sys.exit(main())
