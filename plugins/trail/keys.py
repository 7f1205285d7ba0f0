"""The key that signs checkpoints: from the environment, or from a file that nobody else may read.

Promise: the key is never logged, stored in the database, or quoted in an error. A file is written completely or not at all.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from daemon.settings import Settings
from daemon.settings.secret_files import file_of
from plugins.trail.settings import Trail
from providers.private_files import read_private, write_private

FILE = "trail.key"
"""In the data folder of the embedded Postgres."""
MAX_BYTES = 10_000


def key_file(settings: Settings) -> Path | None:
    """The file of the key; None if the settings have the key itself, or no key."""
    key = settings.section(Trail).trail_key
    if key is not None:
        return file_of(key)
    return settings.data_dir.expanduser() / FILE if settings.database_url is None else None


def signing_key(settings: Settings, *, make: bool = False) -> Ed25519PrivateKey | None:
    """The key that the settings name, or None.

    `make`: with the embedded Postgres, makes a key if there is none. Raises ValueError with what to do.
    """
    path, key = key_file(settings), settings.section(Trail).trail_key
    if key is not None and path is None:
        return _parse(key.get_secret_value().replace("\\n", "\n"), "MEMORYD_TRAIL_KEY")
    if path is None:
        return None
    if key is None and not path.exists():
        if not make:
            return None
        with suppress(FileExistsError):  # another process has made it
            make_key(path)
    return _read(path)


def make_key(path: Path) -> Ed25519PrivateKey:
    """Writes a new key to a new file. Raises OSError, FileExistsError."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(path, pem)
    return key


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        text = read_private(path, name=f"The key {path}", max_bytes=MAX_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise ValueError(
            f"The key {path} cannot be read: {error.strerror}. Make one with: memoryd anchors new-key {path}"
        ) from None
    return _parse(text, str(path))


def _parse(text: str, where: str) -> Ed25519PrivateKey:
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(text.encode(), password=None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise ValueError(
        f"{where} is not a private key in PEM for Ed25519. Make one with: memoryd anchors new-key FILE"
    )
