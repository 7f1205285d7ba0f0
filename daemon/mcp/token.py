"""The token of the HTTP server: from the environment, or from a file that only its owner can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

SHORTEST = 32
"""Characters."""

MAKE_ONE = 'Make one: (umask 077; python3 -c "import secrets; print(secrets.token_urlsafe(32))" > mcp-token)'


def read_token(given: str | None, file: Path | None) -> str:
    """The token. Raises ValueError with what to do; the message has no part of the token."""
    if given is not None:
        return _long_enough(given.strip(), "MEMORYD_MCP_TOKEN")
    if file is None:
        raise ValueError(
            "memoryd mcp --http needs a token: set MEMORYD_MCP_TOKEN, or MEMORYD_MCP_TOKEN_FILE to a file of mode 0600 "
            f"that contains one. {MAKE_ONE}"
        )
    try:
        # Opened before it is looked at, so that it is the same file.
        with file.expanduser().open(encoding="utf-8") as opened:
            status = os.fstat(opened.fileno())
            text = opened.read(4096)
    except OSError as error:
        raise ValueError(
            f"MEMORYD_MCP_TOKEN_FILE: {file} cannot be read: {error.strerror}. {MAKE_ONE}"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"MEMORYD_MCP_TOKEN_FILE: {file} is not a text. {MAKE_ONE}") from None
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o077:
        raise ValueError(
            f"MEMORYD_MCP_TOKEN_FILE: {file} can be read by others than you. Run: chmod 600 {file}"
        )
    return _long_enough(text.strip(), "MEMORYD_MCP_TOKEN_FILE")


def _long_enough(token: str, setting: str) -> str:
    if len(token) < SHORTEST or not token.isascii() or any(c.isspace() for c in token):
        raise ValueError(
            f"{setting}: the token must be {SHORTEST} or more ASCII characters without spaces. {MAKE_ONE}"
        )
    return token
