"""Secrets: from the environment, or from a file that nobody else can read.

Promise: no message contains a secret, or a part of one.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from providers.private_files import read_private

MAX_BYTES = 10_000


def read_secret(value: SecretStr | None, path: Path | None, *, setting: str) -> str | None:
    """The value, or what stands in the file; None if there is neither.

    `setting` names the variable of the value; that of the file is the same with _FILE. Raises ValueError.
    """
    if value is not None and path is not None:
        raise ValueError(f"both {setting} and {setting}_FILE are set: unset one of them")
    if value is not None:
        return value.get_secret_value().strip() or None
    return None if path is None else _read(path.expanduser(), f"{setting}_FILE")


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
