"""How a program of Postgres is given a URL."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit, urlunsplit


def without_password(url: str) -> tuple[str, dict[str, str]]:
    """The URL without its password, and an environment that has it. Raises ValueError: of a key's password none can."""
    environment = dict(os.environ)
    address, _, query = url.partition("?")
    options = query.split("&")
    names = [unquote(option.partition("=")[0]) for option in options]
    if "sslpassword" in names:
        raise ValueError(
            "sslpassword would stand on the command line of a program of Postgres, where others read it. "
            "Give a key without a password (sslkey), and leave sslpassword out."
        )
    passwords = [option for option, name in zip(options, names, strict=True) if name == "password"]
    if passwords:
        environment["PGPASSWORD"] = unquote(passwords[-1].partition("=")[2])
        others = "&".join(option for option in options if option not in passwords)
        url = f"{address}?{others}" if others else address
    parts = urlsplit(url)
    if parts.password is not None:
        user, _, host = parts.netloc.rpartition("@")
        url = urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}@{host}"))
        environment["PGPASSWORD"] = unquote(parts.password)
    return url, environment
