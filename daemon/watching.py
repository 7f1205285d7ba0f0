"""Changes in a folder of this machine, as the system tells of them.

Promise: whatever ends the watching, it ends with one error, `NotWatched`. watchfiles gives up at the first name that is no
UTF-8, and raises that in a group of errors.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from watchfiles import Change, awatch


class NotWatched(Exception):
    """The folder is not watched any more. Look at all of it, and watch it again."""


async def changes(folder: Path, **how: Any) -> AsyncGenerator[set[tuple[Change, str]], None]:
    """Sets of changes, each with its path. `how`: the options of watchfiles.awatch. Raises NotWatched."""
    try:
        async with aclosing(awatch(folder, **how)) as found:
            async for some in found:
                yield some
    except Exception as error:
        raise NotWatched from error
