"""Secrets: from the environment, or from a file that nobody else can read.

Promise: no message contains a secret, or a part of one.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from providers.private_files import read_private

MAX_BYTES = 10_000


FILE = "file:"
"""Begins the value of a setting that names a file."""


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
        content = read_private(path, name=f"the file of {setting}", max_bytes=MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the file of {setting} cannot be read: {error.strerror}") from None
    try:
        text = content.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or len(content) > MAX_BYTES:
        raise ValueError(f"the file of {setting} holds no key: it must be one line of text")
    return text
