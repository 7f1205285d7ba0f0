"""The token of the HTTP server: from the environment, or from a file that only its owner can read."""

from __future__ import annotations

from pydantic import SecretStr

from daemon.settings.values import read_secret

SHORTEST = 32
"""Characters."""

MAKE_ONE = 'Make one: (umask 077; python3 -c "import secrets; print(secrets.token_urlsafe(32))" > mcp-token)'


def read_token(given: SecretStr | None) -> str:
    """The token. Raises ValueError with what to do; the message does not quote the token."""
    token = read_secret(given, setting="MEMORYD_MCP_TOKEN")
    if token is None:
        raise ValueError(
            "memoryd mcp --http needs a token: set MEMORYD_MCP_TOKEN to a token, or to file: and the path of a "
            f"file of mode 0600 that contains one. {MAKE_ONE}"
        )
    if len(token) < SHORTEST or not token.isascii() or any(c.isspace() for c in token):
        raise ValueError(
            f"The token of memoryd mcp must be {SHORTEST} or more ASCII characters without spaces. {MAKE_ONE}"
        )
    return token
