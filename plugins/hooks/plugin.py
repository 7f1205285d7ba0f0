"""The plugin hooks: memory for coding agents."""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class Hooks(Plugin):
    name = "hooks"
    needs = ("embedded", "mcp")
    commands = {
        "hooks": Command("plugins.hooks.cli:hooks", "Agents and people"),
        "hook": Command("plugins.hooks.cli:hook", "Agents and people"),
    }


PLUGIN = Hooks()
