"""Changes in a folder of this machine, as the system tells of them.

Promise: whatever ends the watching, it ends with one error, `WatchError`. watchfiles gives up at the first name that is no
UTF-8, and raises that in a group of errors. No link is followed, and a folder whose name is no UTF-8 is left out: watchfiles
would watch what a link leads to, and nothing at all because of such a name. Where there is one of these, each folder is watched
by itself, until there is a new one. It ends, too, when the folder is moved away, and when a new one in it is one too many.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from watchfiles import Change, awatch


class WatchError(Exception):
    """The folder is not watched any more. Look at all of it, and watch it again."""


async def changes(folder: Path, **how: Any) -> AsyncGenerator[set[tuple[Change, str]], None]:
    """Sets of changes, each with its path. `how`: the options of watchfiles.awatch. Raises WatchError."""
    try:
        folders = await asyncio.to_thread(_one_by_one, folder)
        async with aclosing(awatch(*(folders or [folder]), recursive=not folders, **how)) as found:
            async for some in found:
                yield some
                new = _new_folder(some)
                # A folder that was moved away is watched at its new place, not the folder that replaced it.
                if (Change.deleted, os.fspath(folder)) in some or (folders and new):
                    break
                if new is not None:
                    await _require_watchable(new)
            else:
                return
    except Exception as error:
        raise WatchError from error
    raise WatchError


def _one_by_one(root: Path) -> list[Path]:
    """All folders in it; none if all in it can be watched at once."""
    found, is_plain = [root], True
    for parent, folders, _ in os.walk(root):
        for name in list(folders):
            path = Path(parent, name)
            if os.fsencode(name) == name.encode(errors="replace") and not path.is_symlink():
                found.append(path)
                continue
            folders.remove(name)
            is_plain = False
    return [] if is_plain else found


def _new_folder(some: set[tuple[Change, str]]) -> str | None:
    return next((path for change, path in some if change is Change.added and Path(path).is_dir()), None)


async def _require_watchable(folder: str) -> None:
    """Raises where the system watches no more folders: watchfiles leaves out a new one without a word."""
    at_once = asyncio.Event()
    at_once.set()
    async for _ in awatch(folder, recursive=False, stop_event=at_once, step=10):
        pass
