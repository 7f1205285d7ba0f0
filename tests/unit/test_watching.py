"""What the system tells of a folder that has links, and names that are no UTF-8."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
from watchfiles import Change

from daemon.watching import NotWatched, changes


@pytest.mark.parametrize("odd", ["link", "name", "both"])
async def test_all_but_links_and_names_that_are_no_text_is_watched(tmp_path: Path, odd: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / "sub").mkdir(parents=True)
    if odd != "name":
        (root / "link").symlink_to(outside)
    if odd != "link":
        (root / os.fsdecode(b"\xff")).mkdir()
    seen: set[str] = set()
    async with (
        asyncio.timeout(30),
        aclosing(changes(root, debounce=50, step=10, rust_timeout=100, yield_on_timeout=True)) as found,
    ):
        await anext(found)
        (outside / "a.md").touch()
        (root / "sub/a.md").touch()
        while str(root / "sub/a.md") not in seen:
            seen |= {path for _, path in await anext(found)}
        # A folder that is new is watched from the next time on.
        (root / "sub/new").mkdir()
        with pytest.raises(NotWatched):
            await _to_the_end(found, seen)
    assert not [path for path in seen if "a.md" in path and not path.startswith(str(root / "sub"))]


async def _to_the_end(found: AsyncGenerator[set[tuple[Change, str]], None], seen: set[str]) -> None:
    async for some in found:
        seen |= {path for _, path in some}
