"""Connects to the database: through libpq where one can reach it, else through the driver."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from plugins.hooks import driver, libpq


def connect(url: str, path: object) -> driver.Connection | libpq.Connection:
    """A connection. `path`: the libpq that the installation found. Raises libpq.Unreachable."""
    from plugins.hooks.libpq import Connection, library

    if not (isinstance(path, str) and (os.path.exists(path) or not path.startswith("/"))):
        path = library(url)
    if path is not None:
        return Connection(url, path=path)
    from plugins.hooks.driver import Connection as Driver

    return Driver(url)
