"""The URL of a tenant: the same server with another database, and the parts of it that may be shown.

Promise: no user, password or parameter is shown.
"""

from __future__ import annotations

from urllib.parse import parse_qs, quote, unquote, urlsplit

from daemon.settings.databases import readable

_OF_DATABASE = ("dbname", "database")


class TenantError(ValueError):
    """A tenant cannot be made or read; the message says what to do."""


def on_database(url: str, database: str) -> str:
    """The same server, user and parameters with another database. Raises TenantError for any other URL than of Postgres."""
    try:
        parts = urlsplit(readable(url, "The URL of the server"))
    except ValueError as error:
        raise TenantError(str(error)) from None
    query = "&".join(
        one for one in parts.query.split("&") if one and one.partition("=")[0] not in _OF_DATABASE
    )
    # Built by hand: urlunsplit omits the slashes without a host.
    return f"{parts.scheme}://{parts.netloc}/{quote(database, safe='')}{'?' if query else ''}{query}"


def database_of(url: str) -> str:
    """The name of its database; empty if it names none."""
    parts = urlsplit(url)
    given = parse_qs(parts.query)
    return next((given[key][-1] for key in _OF_DATABASE if key in given), unquote(parts.path.strip("/")))


def host_of(url: str) -> str:
    """Where its server is: hosts with ports, or the folder of a socket."""
    parts = urlsplit(url)
    host = parse_qs(parts.query).get("host")
    return host[-1] if host else parts.netloc.rpartition("@")[2] or "local"
