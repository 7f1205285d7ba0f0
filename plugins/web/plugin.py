"""The plugin web: pages for people."""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class Web(Plugin):
    name = "web"
    needs = ("audit", "move_in", "operate", "trail")
    commands = {"web": Command("plugins.web.cli:web", "Agents and people")}


PLUGIN = Web()
