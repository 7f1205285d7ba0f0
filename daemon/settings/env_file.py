"""The file that settings are read from beside the environment: `.env` of the working directory, or the one that is named.

Promise: a file names no database where the environment names one, and a secret of the environment is never sent to an address
from a `.env` that nobody named: the working directory may be a stranger's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from dotenv import dotenv_values

from providers.regular_files import open_regular

OF_FOLDER, ENCODING = ".env", "utf-8-sig"
NAMED_BY = "MEMORYD_ENV_FILE"
URLS = frozenset({"DATABASE_URL", "MEMORYD_DATABASE_URL", "MEMORYD_DATABASE_URLS"})
DATABASES = URLS | {"MEMORYD_DATA_DIR"}
"""The variables that name a database."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS = frozenset({"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"})
"""Of OpenTelemetry: addresses of a collector, and what may hold a key of its."""
_QUOTED = re.compile(r"\$\{([^}:]*)")
_SERVICE = re.compile(r"[?&]service=")
"""It may have a password, which stands in ~/.pg_service.conf, and goes to the URL's own host."""

# What stands in one line has one meaning: of several names the environment's goes before all of the file's.
_ONE = (
    frozenset({"MEMORYD_OPENAI_API_KEY", "OPENAI_API_KEY"}),
    frozenset({"MEMORYD_IPFS_TOKEN", "MEMORYD_IPFS_TOKEN_FILE"}),
    frozenset({"MEMORYD_PINATA_JWT", "MEMORYD_PINATA_JWT_FILE"}),
    frozenset({"MEMORYD_EVM_KEY", "MEMORYD_EVM_KEY_FILE"}),
    frozenset({"MEMORYD_GDRIVE_KEY_FILE"}),
    frozenset(ENDPOINTS),
)
SENT: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (_ONE[0], frozenset({"MEMORYD_OPENAI_BASE_URL"})),
    (_ONE[1], frozenset({"MEMORYD_IPFS_URL"})),
    (_ONE[3], frozenset({"MEMORYD_EVM_RPC_URL"})),
    (_ONE[4], frozenset({"MEMORYD_GDRIVE_URL"})),
    (frozenset({"PGPASSWORD", "PGSERVICE"}), URLS),
)
"""Secrets, each with where it goes."""


def env_file() -> Path | None:
    """The file to read; None where there is none, or only one that belongs to another user."""
    if named := os.environ.get(NAMED_BY):
        return Path(named).expanduser()
    return Path(OF_FOLDER) if foreign_env_file() is None else None


def foreign_env_file() -> int | None:
    """The user id that `.env`, or the link of that name, belongs to, if that is neither this process's nor root's.

    Such a file is not read: any user who may put a file into the working directory could name a program for memoryd to run.
    """
    if os.environ.get(NAMED_BY):
        return None
    ours = (os.geteuid(), 0)
    for look in (os.lstat, os.stat):
        with suppress(OSError):
            owner = look(OF_FOLDER).st_uid
            if owner not in ours:
                return owner
    return None


@contextmanager
def no_folder_believed() -> Iterator[None]:
    """Meanwhile only a file that is named is read."""
    before = os.environ.get(NAMED_BY)
    os.environ[NAMED_BY] = before or os.devnull
    try:
        yield
    finally:
        if before is None:
            del os.environ[NAMED_BY]
        else:
            os.environ[NAMED_BY] = before


def unreadable(path: Path | None, error: OSError | UnicodeDecodeError) -> str:
    """Why the file was not read, in a sentence."""
    if isinstance(error, UnicodeDecodeError):
        return f"The file {path} is not UTF-8. Save it as UTF-8."
    return f"The file {path} cannot be read: {error.strerror}."


def variables_of_file() -> dict[str, str]:
    """What the file sets that counts, by the names in upper case. Raises OSError and UnicodeDecodeError."""
    path = env_file()
    if path is None:
        return {}
    # The working directory may have a `.env` that leads to a device, which never ends.
    named = os.environ.get(NAMED_BY)
    if named != os.devnull and (named or (path.exists() and not path.is_dir())):
        open_regular(path).close()
    read = {name.upper(): value for name, value in dotenv_values(path, encoding=ENCODING).items() if value}
    without = outranked()
    return {name: value for name, value in read.items() if name not in without}


def outranked() -> set[str]:
    """The variables of the file, in upper case, that count for nothing beside those of the environment."""
    ours = _of_environment()
    # A data folder also holds keys, so beside a URL it may stand in the file.
    out = URLS | {"MEMORYD_DATABASE"} if DATABASES & ours else frozenset()
    return set(out.union(*(group for group in _ONE if group & ours)))


def astray(variables: Mapping[str, str]) -> str | None:
    """Why these variables of the file would lead a secret of the environment astray, in a sentence; None where they do not."""
    if os.environ.get(NAMED_BY):
        return None
    ours = _of_environment()
    if (quoted := _quoted(variables.keys())) is not None:
        return _elsewhere(quoted[0], "the environment", quoted[1])
    for secrets, addresses in SENT:
        for address in sorted(addresses & variables.keys()):
            if address in URLS and all(map(_brings_password, variables[address].split())):
                continue
            if (secret := next(iter(sorted(secrets & ours)), None)) is not None:
                return (
                    f"{secret} stands in the environment, and {address} in the file .env of this folder: a secret would go to "
                    f"an address that may be a stranger's. Set both in one place, or name the file: {NAMED_BY}=.env"
                )
            if address in URLS and _SERVICE.search(variables[address]):
                return _elsewhere("the service", "~/.pg_service.conf", address)
    return None


def _elsewhere(what: str, where: str, address: str) -> str:
    return (
        f"{address} in the file .env of this folder names {what} of {where}: a secret would go to an address that may be a "
        f"stranger's. Write it out, or name the file: {NAMED_BY}=.env"
    )


def _quoted(names: Collection[str]) -> tuple[str, str] | None:
    """Which variable of the environment the file quotes (${NAME}) in what goes to an address; and in which of these names."""
    sent = set[str]().union(*(secrets | addresses for secrets, addresses in SENT), ENDPOINTS, HEADERS)
    seen: set[str] = set()
    path = env_file()
    raw = {} if path is None else dotenv_values(path, encoding=ENCODING, interpolate=False)
    for name, value in raw.items():
        for quoted in _QUOTED.findall(value or "") if name.upper() in names and name.upper() in sent else ():
            if quoted not in seen and quoted in os.environ:
                return quoted, name
        seen.add(name)
    return None


def _brings_password(given: str) -> bool:
    """Whether a URL, or NAME=URL, has a password of its own, as the drivers read it: then they look for no other."""
    scheme, _, rest = given.partition("://")
    try:
        parts = urlsplit(f"{scheme.rpartition('=')[2]}://{rest}")
        whole = parts.netloc.count("@") <= 1  # else each driver reads another host
        return whole and bool(parts.password or parse_qs(parts.query).get("password"))
    except ValueError:
        return False


def heed_variables_of_file(prefix: str) -> None:
    """Gives this process the variables of the file with this prefix that its environment lacks: a library reads them itself."""
    kept = _of_environment() & HEADERS and not os.environ.get(NAMED_BY)
    for name, value in variables_of_file().items():
        if name.startswith(prefix) and not (kept and name in ENDPOINTS):
            os.environ.setdefault(name, value)


def _of_environment() -> set[str]:
    """Upper and lower case are one to us, as they are to Settings."""
    return {name.upper() for name, value in os.environ.items() if value}
