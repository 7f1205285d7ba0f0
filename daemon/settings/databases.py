"""URLs of databases; and MEMORYD_DATABASE_URLS: many databases for one process, each with a name.

Promise: what cannot be read whole is refused whole, with one sentence that shows no password. A library that was given such a
URL would quote what it takes for a host, a port or an option: of a password with a # or a / in it, the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from providers.regular_files import open_regular

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
NAMES_ARE = "a name is 1 to 63 of a to z, 0 to 9, _, . and -, and begins with a letter or a digit"
MAX_BYTES = 5_000_000
MOST_PORTS = 65_535

FORM = (
    "It has the form postgresql://user:password@host:port/database; "
    "in the password write %23 for #, %2F for /, %3F for ?, %40 for @."
)
_HOST = r"(\[[0-9a-fA-F:.%]+\]|[^\[\]:@/?#,]*)(:[0-9]{0,5})?"
_URL = re.compile(
    rf"postgres(ql)?://(?P<user>[^/?#\[\]]*@)?(?P<hosts>{_HOST}(,{_HOST})*)"
    r"(/[^/?#@]*)?(\?[^=&#;]+=[^&#;]*(&([^=&#;]+=[^&#;]*)?)*)?"
)
_MISTAKEN = re.compile(r"[\x00-\x1f]|%(?![0-9a-fA-F]{2})|%00|[?&]port=[^&]*[^0-9,&]")


@dataclass(frozen=True, slots=True)
class NamedDatabase:
    """One database; its name stands in log lines, metrics, and for folders of its own."""

    name: str
    url: str


def read_databases(given: str) -> tuple[NamedDatabase, ...]:
    """The databases of the setting's value: NAME=URL each, separated by white space; or the path of a file with one a line.

    Raises ValueError with what to do.
    """
    file = listed_in(given)
    if file is None:
        return parse_databases(given.split(), where="MEMORYD_DATABASE_URLS")
    where = f"The file {file} of MEMORYD_DATABASE_URLS"
    try:
        with open_regular(file) as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{where} cannot be read: {error.strerror}.") from None
    if len(content) > MAX_BYTES:
        raise ValueError(f"{where} has more than {MAX_BYTES:,} bytes.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not UTF-8. Save it as UTF-8.") from None
    # Of a line that is cut off the rest may be a database, too.
    if not text.endswith("\n"):
        raise ValueError(f"{where} does not end with a line break, so it may be half written. Add one.")
    lines = [line.strip() for line in text.splitlines()]
    return parse_databases([line for line in lines if line and not line.startswith("#")], where=where)


def listed_in(given: str) -> Path | None:
    """The file that the setting names; None where it has the databases itself."""
    given = given.strip()
    return None if "://" in given or "=" in given else Path(given).expanduser()


def parse_databases(entries: Sequence[str], *, where: str) -> tuple[NamedDatabase, ...]:
    """Databases, each NAME=URL. Raises ValueError; `where` begins its sentence."""
    found: dict[str, NamedDatabase] = {}
    addresses: dict[tuple[str, str, str], str] = {}
    for number, entry in enumerate(entries, 1):
        name, separator, url = entry.partition("=")
        # Of a password with a space and a = in it the rest looks like NAME=.
        if not separator or "://" in name or "://" not in url:
            raise ValueError(f"{where}: entry {number} is not NAME=URL, such as acme=postgresql://host/acme.")
        if not NAME.fullmatch(name):
            raise ValueError(f"{where}: {name[:80]!r} is no name of a database: {NAMES_ARE}.")
        if name in found:
            raise ValueError(f"{where}: the name {name} stands there twice.")
        address = _address(url, f"{where}: the URL of {name}")
        if address in addresses:
            raise ValueError(f"{where}: {addresses[address]} and {name} are two names for one database.")
        addresses[address] = name
        found[name] = NamedDatabase(name, readable(url, where))
    if not found:
        raise ValueError(f"{where} names no database. Write NAME=URL, such as acme=postgresql://host/acme.")
    return tuple(found.values())


def readable(url: str, which: str) -> str:
    """The URL, as every library reads it. Raises ValueError, a sentence that begins with `which` and shows nothing of it."""
    if any(character.isspace() for character in url):
        raise ValueError(f"{which} has white space in it. {FORM}")
    found = _URL.fullmatch(url)
    user, hosts = ("", "") if found is None else (found["user"] or "", found["hosts"])
    ports = re.findall(r":([0-9]+)(?=,|$)", hosts)
    lost = hosts and not user and "@" in url  # what stands before it is the beginning of a password
    if found is None or _MISTAKEN.search(url) or lost or any(int(port) > MOST_PORTS for port in ports):
        raise ValueError(f"{which} cannot be read. {FORM}")
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user[:-1].replace('@', '%40')}{user[-1:]}{rest[len(user) :]}"


def address_of(url: str) -> str:
    """Where a database is, as host:port/name, without user, password and parameters: fit for a log line."""
    try:
        host, port, database = _host_port_name(readable(url, "It"))
    except ValueError:
        return "?"
    return (
        f"{host or 'local'}{'' if ':' in host.rpartition(']')[2] or ',' in host else f':{port}'}/{database}"
    )


def _host_port_name(url: str) -> tuple[str, str, str]:
    """Host, port and name, from the URL or its parameters. Raises ValueError."""
    parts = urlsplit(url)
    given = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    database = given.get("dbname") or given.get("database") or unquote(parts.path.strip("/"))
    host = given.get("host") or parts.netloc.rpartition("@")[2].removesuffix(":5432")
    return host, given.get("port", "5432"), database


def _address(url: str, which: str) -> tuple[str, str, str]:
    """Where a database is: host, port and name, from the URL or its parameters."""
    is_ours = url.startswith(("postgresql://", "postgres://"))
    host, port, database = _host_port_name(readable(url, which)) if is_ours else ("", "", "")
    if not database:
        raise ValueError(f"{which} names no database. {FORM}")
    return host.lower(), port, database
