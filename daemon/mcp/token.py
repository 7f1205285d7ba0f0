"""The token of the HTTP server: from the environment, or from a file that only its owner can read."""

from __future__ import annotations

from pathlib import Path

from providers.private_files import read_private

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
        text = read_private(
            file.expanduser(), name=f"MEMORYD_MCP_TOKEN_FILE: {file}", max_bytes=4096
        ).decode()
    except OSError as error:
        raise ValueError(
            f"MEMORYD_MCP_TOKEN_FILE: {file} cannot be read: {error.strerror}. {MAKE_ONE}"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"MEMORYD_MCP_TOKEN_FILE: {file} is not a text. {MAKE_ONE}") from None
    return _long_enough(text.strip(), "MEMORYD_MCP_TOKEN_FILE")


def _long_enough(token: str, setting: str) -> str:
    if len(token) < SHORTEST or not token.isascii() or any(c.isspace() for c in token):
        raise ValueError(
            f"{setting}: the token must be {SHORTEST} or more ASCII characters without spaces. {MAKE_ONE}"
        )
    return token
