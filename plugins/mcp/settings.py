"""The settings of the MCP server."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field, SecretStr


class Mcp(BaseModel):
    heading: ClassVar = "MCP server"

    mcp_token: SecretStr | None = Field(
        None,
        description="Token of `memoryd mcp --http`, 32 characters or more; or file: and the path of a file with the token, of "
        "mode 0600. docs/mcp.md",
    )
