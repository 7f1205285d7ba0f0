"""What the system tells of a folder that has links, names that are no UTF-8, or more folders than it watches."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
from watchfiles import Change

from plugins.files.watching import WatchError, changes
from tests.support.repository import ROOT


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
        with pytest.raises(WatchError):
            await _to_the_end(found, seen)
    assert not [path for path in seen if "a.md" in path and not path.startswith(str(root / "sub"))]


async def _to_the_end(found: AsyncGenerator[set[tuple[Change, str]], None], seen: set[str]) -> None:
    async for some in found:
        seen |= {path for _, path in some}


FEW = 'echo $0 > /proc/sys/user/max_inotify_$1 && exec "$2" -c "$3" "$4"'
WATCH = """
import asyncio, pathlib, sys
from plugins.replica.local_folder import LocalFolder

async def main():
    root = pathlib.Path(sys.argv[1])
    told, there = asyncio.Queue(), asyncio.Event()
    there.set()
    watch = LocalFolder(root).watch
    watching = asyncio.create_task(watch(lambda: told.put_nowait(None), told.put_nowait, there, asyncio.Event()))
    number = 0
    while (error := await told.get()) is None:
        await asyncio.sleep(0.1)
        number += 1
        (root / str(number)).mkdir()
    print(type(error).__name__)
    # It is looked at all the same.
    assert await told.get() is None

asyncio.run(asyncio.wait_for(main(), 30))
"""


def _has_namespaces() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "-Ur", "true"], check=False).returncode == 0
    )


@pytest.mark.skipif(not _has_namespaces(), reason="no namespace with a limit of its own")
@pytest.mark.parametrize(
    ("number", "what", "error"), [(0, "instances", "WatchfilesRustInternalError"), (3, "watches", "OSError")]
)
def test_a_folder_that_the_system_does_not_watch_is_told(
    tmp_path: Path, number: int, what: str, error: str
) -> None:
    command = ["unshare", "-Ur", "sh", "-c", FEW, str(number), what, sys.executable, WATCH, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{error}\n"), done.stderr
