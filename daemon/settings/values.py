"""Checks of settings that a type alone does not express; and secrets, which may stand in a file that nobody else can read.

Promise: no message contains a secret, or a part of one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from pydantic import SecretStr
from pydantic_core import PydanticCustomError

from providers.regular_files import read_private

URL = re.compile(
    r"https?://(?:[^\s/?#@\[\]]*@)?(?:\[[0-9a-f:.%]+\]|[^\s/?#@:\[\]]+)(?::([0-9]{0,5}))?(?:[/?][^\s#]*)?",
    re.IGNORECASE,
)
FOLDER_OF_DATABASE = "folder of a database"
"""Marks a setting for a folder: each of several databases has one of its name in it."""
FILE = "file:"
"""Begins the value of a setting that names a file."""
MAX_SECRET_BYTES = 10_000
A_CENTURY = 876_000
"""In hours. Longer times would not fit into Postgres' timestamps."""

LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "estonian", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "simple", "spanish", "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip
"""Those that Postgres can stem (Estonian from 18 on). 'simple' is every other one: its words are not stemmed."""


def known_languages(text: str) -> str:
    """Passes names of languages, separated by commas."""
    unknown = [name for name in split_list(text) if name not in LANGUAGES]
    if unknown:
        raise PydanticCustomError("languages", f"names separated by commas, of these: {', '.join(LANGUAGES)}")
    return text


def http_url(text: str) -> str:
    """Passes the address of a server. What else is given a library would quote: of a password with a / in it, the beginning."""
    found = URL.fullmatch(text)
    if found is None or int(found[1] or 0) > 65535:
        raise PydanticCustomError(
            "http_url",
            "an address such as https://llm.example/v1; in a password write %23 for #, %2F for /, %3F for ?, %40 for @",
        )
    return text


def http_address(text: str) -> str:
    """Passes a port, or an IP address and a port. A port alone is one of 127.0.0.1."""
    host, _, port = text.strip().rpartition(":")
    host = "127.0.0.1" if host in ("", "localhost") else host.removeprefix("[").removesuffix("]")
    with suppress(ValueError):
        address = ip_address(host)
        if port.isascii() and port.isdigit() and int(port) <= 65535:
            return f"[{address}]:{int(port)}" if address.version == 6 else f"{address}:{int(port)}"
    raise PydanticCustomError(
        "http_address",
        "a port of 127.0.0.1, such as 9470, or an IP address and a port, such as 0.0.0.0:9470 or [::1]:9470",
    )


def split_list(text: str) -> list[str]:
    """The names in a text that separates them by commas, in lower case, each once."""
    return roles_in(text.lower())


def roles_in(text: str) -> list[str]:
    """The roles of a database in a text that separates them by commas, as they are written, each once."""
    return list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def file_of(value: SecretStr) -> Path | None:
    """The file that a setting names instead of a secret."""
    text = value.get_secret_value().strip()
    return Path(text.removeprefix(FILE)).expanduser() if text.startswith(FILE) else None


def read_secret(value: SecretStr | None, *, setting: str) -> str | None:
    """The value, or what stands in the file that it names; None where it is empty. Raises ValueError that names the setting."""
    if value is None:
        return None
    path = file_of(value)
    return value.get_secret_value().strip() or None if path is None else _read(path, setting)


def _read(path: Path, setting: str) -> str:
    try:
        content = read_private(path, name=f"the file of {setting}", max_bytes=MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the file of {setting} cannot be read: {error.strerror}") from None
    try:
        text = content.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or len(content) > MAX_SECRET_BYTES:
        raise ValueError(f"the file of {setting} holds no key: it must be one line of text")
    return text
