"""The way to the database: by libpq where there is one that can reach it, else by the driver."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as typing has it, which takes long to load
if TYPE_CHECKING:
    from daemon.hooks import driver, libpq


def connect(url: str, path: object) -> driver.Connection | libpq.Connection:
    """A connection. `path`: the libpq that was found when hooks were installed. Raises libpq.Away."""
    from daemon.hooks.libpq import Connection, library

    if not (isinstance(path, str) and (os.path.exists(path) or not path.startswith("/"))):
        path = library(url)
    if path is not None:
        return Connection(url, path=path)
    from daemon.hooks.driver import Connection as Driver

    return Driver(url)
