"""How a program of Postgres is given a URL."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit, urlunsplit


def without_password(url: str) -> tuple[str, dict[str, str]]:
    """The URL without its password, and an environment that has it."""
    environment = dict(os.environ)
    parts = urlsplit(url)
    if parts.password is not None:
        user, _, host = parts.netloc.rpartition("@")
        url = urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}@{host}"))
        environment["PGPASSWORD"] = unquote(parts.password)
    return url, environment
