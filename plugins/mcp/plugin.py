"""The plugin mcp: tools for clients of the Model Context Protocol."""

from __future__ import annotations

from daemon.plugins import Command, Plugin
from plugins.mcp.settings import Mcp


class McpServer(Plugin):
    name = "mcp"
    needs = ("operate",)
    settings = (Mcp,)
    commands = {"mcp": Command("plugins.mcp.cli:mcp", "Agents and people")}


PLUGIN = McpServer()
